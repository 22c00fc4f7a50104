//! TLS records sealed by the kernel (kTLS), for sending only.
//!
//! Each function is one system call, or a question about what this kernel can do. Once [`set_send_keys`] has
//! succeeded, everything written to the socket leaves as TLS records, and there is no way back.
//! See `Documentation/networking/tls.rst` of Linux.

mod probe;
mod statistics;

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use zeroize::Zeroizing;

use crate::aead::{Cipher, NONCE_BYTES};
use crate::traffic::{ProtocolVersion, TrafficKeys};

pub use probe::{Support, probe};
pub use statistics::{Statistics, statistics};

/// `TLS_CIPHER_*` of `linux/tls.h`.
const AES_GCM_128: u16 = 51;
const AES_GCM_256: u16 = 52;
const CHACHA20_POLY1305: u16 = 54;
const VERSION_1_2: u16 = 0x0303;
const VERSION_1_3: u16 = 0x0304;
const SALT_BYTES: usize = 4;
/// The longest `struct tls12_crypto_info_*`: version, cipher, IV, key, salt, sequence number.
const CRYPTO_INFO_BYTES_MAX: usize = 2 + 2 + NONCE_BYTES + 32 + 8;

/// Gives an established TCP connection the `tls` upper layer protocol. Bytes pass unchanged until
/// [`set_send_keys`].
///
/// # Errors
/// `NotFound` if the kernel has no `tls` module loaded (and this process may not load it), `NotConnected` if
/// the connection is not established any more, or what else the system said.
pub fn attach(socket: impl AsFd) -> io::Result<()> {
    set_option(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")
}

/// Has the kernel seal everything that is written to `socket` from now on, starting with record
/// `keys.sequence`. A second call changes the keys (RFC 8446 §4.6.3), which needs Linux 6.14.
///
/// # Errors
/// `NotFound` if the kernel lacks the cipher, `ResourceBusy` if it cannot change keys, or what else the system
/// said. The socket is as it was before.
pub fn set_send_keys(socket: impl AsFd, keys: &TrafficKeys) -> io::Result<()> {
    let info = crypto_info(keys).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "key or IV of another length than the cipher's")
    })?;
    set_option(socket.as_fd(), libc::SOL_TLS, libc::TLS_TX, &info)
}

/// Whether a network card that seals may read file pages while they are sent instead of copying them.
///
/// Only for files that never change: a page that changes between the card's reading it and TCP sending it
/// again makes two different records with one nonce.
///
/// # Errors
/// The error of the system; kernels before 6.0 do not know the option.
pub fn set_zerocopy_sendfile(socket: impl AsFd, allowed: bool) -> io::Result<()> {
    let value = c_int::from(allowed).to_ne_bytes();
    set_option(socket.as_fd(), libc::SOL_TLS, libc::TLS_TX_ZEROCOPY_RO, &value)
}

/// Sends one record that is no application data: an alert (21) or a handshake message (22). Closes the record
/// that an earlier `MSG_MORE` left open, and never blocks. The kernel takes all of it or nothing.
///
/// # Errors
/// `WouldBlock` if the socket is full, or what else the system said.
pub fn send_record(socket: impl AsFd, content_type: u8, content: &[u8]) -> io::Result<usize> {
    let mut control = ControlMessage {
        header: libc::cmsghdr {
            cmsg_len: offset_of!(ControlMessage, content_type) + size_of::<u8>(),
            cmsg_level: libc::SOL_TLS,
            cmsg_type: libc::TLS_SET_RECORD_TYPE,
        },
        content_type,
    };
    let mut piece = libc::iovec { iov_base: content.as_ptr().cast_mut().cast(), iov_len: content.len() };
    // SAFETY: the struct is plain numbers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast::<c_void>();
    message.msg_controllen = size_of::<ControlMessage>();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `message` points to `piece` and `control`, which live until the call returns; it only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// `struct cmsghdr` with its one byte of data; the compiler's padding is `CMSG_SPACE`'s.
#[repr(C)]
struct ControlMessage {
    header: libc::cmsghdr,
    content_type: u8,
}

fn set_option(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `value` is valid for `length` reads, and the kernel keeps no pointer to it.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `struct tls12_crypto_info_*` for these keys; `None` if their lengths do not suit the cipher.
fn crypto_info(keys: &TrafficKeys) -> Option<Zeroizing<Vec<u8>>> {
    let (version, cipher) = (version_number(keys.version), cipher_number(keys.cipher));
    let (key, iv) = (keys.key.expose(), keys.iv.expose());
    if key.len() != keys.cipher.key_bytes() {
        return None;
    }
    let sequence = keys.sequence.to_be_bytes();
    let (salt, iv): (&[u8], &[u8]) = match (keys.cipher, keys.version) {
        (Cipher::ChaCha20Poly1305, _) if iv.len() == NONCE_BYTES => (&[], iv),
        (Cipher::Aes128Gcm | Cipher::Aes256Gcm, ProtocolVersion::Tls13) if iv.len() == NONCE_BYTES => {
            iv.split_at(SALT_BYTES)
        }
        // The explicit half of the nonce is the sequence number, as in user space, so none is used twice.
        (Cipher::Aes128Gcm | Cipher::Aes256Gcm, ProtocolVersion::Tls12) if iv.len() == SALT_BYTES => {
            (iv, &sequence)
        }
        _ => return None,
    };
    let mut info = Zeroizing::new(Vec::with_capacity(CRYPTO_INFO_BYTES_MAX));
    info.extend_from_slice(&version.to_ne_bytes());
    info.extend_from_slice(&cipher.to_ne_bytes());
    for field in [iv, key, salt, &sequence] {
        info.extend_from_slice(field);
    }
    Some(info)
}

fn version_number(version: ProtocolVersion) -> u16 {
    match version {
        ProtocolVersion::Tls12 => VERSION_1_2,
        ProtocolVersion::Tls13 => VERSION_1_3,
    }
}

fn cipher_number(cipher: Cipher) -> u16 {
    match cipher {
        Cipher::Aes128Gcm => AES_GCM_128,
        Cipher::Aes256Gcm => AES_GCM_256,
        Cipher::ChaCha20Poly1305 => CHACHA20_POLY1305,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::Secret;

    fn key_block(cipher: Cipher, iv_bytes: usize) -> Secret {
        Secret::new((0..).take(2 * (cipher.key_bytes() + iv_bytes)).collect())
    }

    #[test]
    fn tls12_keys_are_laid_out_as_the_kernel_reads_them() {
        let keys = TrafficKeys::tls12(Cipher::Aes128Gcm, &key_block(Cipher::Aes128Gcm, 4), 5).unwrap();
        let info = crypto_info(&keys).unwrap();
        let mut expected = Vec::new();
        expected.extend_from_slice(&0x0303u16.to_ne_bytes());
        expected.extend_from_slice(&51u16.to_ne_bytes());
        expected.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 5]);
        expected.extend(16..32);
        expected.extend(36..40);
        expected.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(*info, expected);
    }

    #[test]
    fn every_layout_has_the_length_of_its_struct_in_linux_tls_h() {
        let lengths = [(Cipher::Aes128Gcm, 40), (Cipher::Aes256Gcm, 56), (Cipher::ChaCha20Poly1305, 56)];
        for (cipher, length) in lengths {
            let secret = Secret::new(vec![1; if cipher == Cipher::Aes256Gcm { 48 } else { 32 }]);
            let tls13 = TrafficKeys::tls13(cipher, secret, 0).unwrap();
            assert_eq!(crypto_info(&tls13).unwrap().len(), length);
            let iv_bytes = if cipher == Cipher::ChaCha20Poly1305 { 12 } else { 4 };
            let tls12 = TrafficKeys::tls12(cipher, &key_block(cipher, iv_bytes), 0).unwrap();
            assert_eq!(crypto_info(&tls12).unwrap().len(), length);
        }
    }

    #[test]
    fn keys_of_a_wrong_length_are_refused_before_the_kernel_sees_them() {
        let mut keys = TrafficKeys::tls13(Cipher::Aes128Gcm, Secret::new(vec![1; 32]), 0).unwrap();
        keys.iv = Secret::new(vec![0; 11]);
        assert!(crypto_info(&keys).is_none());
    }

    #[test]
    fn the_control_message_has_the_room_that_the_kernel_expects() {
        // SAFETY: the macro only computes.
        let space = unsafe { libc::CMSG_SPACE(1) };
        assert_eq!(size_of::<ControlMessage>(), space as usize);
    }
}
