//! Lists of revoked certificates (CRLs, RFC 5280 section 5).

use std::ptr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use boring::asn1::{Asn1Time, Asn1TimeRef};
use boring::error::ErrorStack;
use boring::x509::store::X509StoreBuilderRef;
use boring_sys as ffi;
use foreign_types::ForeignTypeRef;

/// The lists that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevocationLists {
    /// How many there were.
    pub count: usize,
    /// When the first of them is to be followed by a newer one; `None` if none of them says.
    pub next_update: Option<SystemTime>,
}

/// Adds the revocation lists of a PEM text to a store. From then on every authority of a chain needs a list that is not
/// past its `nextUpdate`. A text without lists changes nothing.
///
/// # Errors
/// When a list cannot be read.
pub fn refuse_revoked(store: &mut X509StoreBuilderRef, pem: &[u8]) -> Result<RevocationLists, ErrorStack> {
    let mut lists = RevocationLists { count: 0, next_update: None };
    // PEM knows nothing of what stands between its blocks.
    let text = String::from_utf8_lossy(pem);
    for block in text.split_inclusive(END).filter(|block| block.contains(BEGIN)) {
        let next_update = add(store, block.as_bytes())?;
        lists.count += 1;
        lists.next_update = [lists.next_update, next_update].into_iter().flatten().min();
    }
    if lists.count > 0 {
        let flags = ffi::X509_V_FLAG_CRL_CHECK | ffi::X509_V_FLAG_CRL_CHECK_ALL;
        // SAFETY: the store is live; flags are numbers.
        unsafe { ffi::X509_STORE_set_flags(store.as_ptr(), u64::from(flags.cast_unsigned())) };
    }
    Ok(lists)
}

const BEGIN: &str = "-----BEGIN X509 CRL-----";
const END: &str = "-----END X509 CRL-----";

/// Adds the list of one PEM block; gives when the next one is due.
fn add(store: &mut X509StoreBuilderRef, block: &[u8]) -> Result<Option<SystemTime>, ErrorStack> {
    let length = block.len().try_into().map_err(|_| ErrorStack::get())?;
    // SAFETY: the library reads `length` bytes of `block`, which outlives the reader.
    let reader = unsafe { ffi::BIO_new_mem_buf(block.as_ptr().cast(), length) };
    if reader.is_null() {
        return Err(ErrorStack::get());
    }
    // SAFETY: the reader is live; no password callback is needed.
    let list = unsafe { ffi::PEM_read_bio_X509_CRL(reader, ptr::null_mut(), None, ptr::null_mut()) };
    // SAFETY: the reader is ours, and is used no more.
    unsafe { ffi::BIO_free(reader) };
    if list.is_null() {
        return Err(ErrorStack::get());
    }
    // SAFETY: the list is live.
    let due = unsafe { ffi::X509_CRL_get0_nextUpdate(list) };
    // SAFETY: where there is a time, it lives as long as the list, which is freed below.
    let due = (!due.is_null()).then(|| unsafe { Asn1TimeRef::from_ptr(due.cast_mut()) });
    let due = due.and_then(moment);
    // SAFETY: both are live; the store takes a reference of its own.
    let added = unsafe { ffi::X509_STORE_add_crl(store.as_ptr(), list) };
    // SAFETY: our reference to the list is ours to give up, and is used no more.
    unsafe { ffi::X509_CRL_free(list) };
    if added == 1 { Ok(due) } else { Err(ErrorStack::get()) }
}

/// A time of a certificate or a list; `None` before 1970.
pub fn moment(time: &Asn1TimeRef) -> Option<SystemTime> {
    let since = Asn1Time::from_unix(0).ok()?.diff(time).ok()?;
    let seconds = i64::from(since.days) * 86_400 + i64::from(since.secs);
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).ok()?))
}
