//! The country of an address, by a database in the format of MaxMind.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use maxminddb::{Reader, path};
use penstock_sys::small_file;

use crate::limits;

/// Two letters (ISO 3166-1 alpha-2), in upper case.
pub type CountryCode = [u8; 2];

/// A database of countries.
#[derive(Clone)]
pub struct Countries(Arc<Reader<Vec<u8>>>);

impl fmt::Debug for Countries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Countries").field(&self.0.metadata().database_type).finish()
    }
}

/// Whether both are one copy of one database.
impl PartialEq for Countries {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Countries {}

impl Countries {
    /// Reads a database.
    ///
    /// # Errors
    /// Why the file is none.
    pub fn read(path: &Path) -> Result<Self, String> {
        let bytes = small_file::read(path, limits::COUNTRY_FILE_BYTES).map_err(|error| error.to_string())?;
        Self::parse(bytes)
    }

    fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        Reader::from_source(bytes)
            .map(|reader| Self(Arc::new(reader)))
            .map_err(|error| format!("is no database of MaxMind ({error})"))
    }

    /// The country of an address; `None` if the database does not know it.
    pub fn of(&self, address: IpAddr) -> Option<CountryCode> {
        let found = self.0.lookup(address.to_canonical()).ok()?;
        let code: Option<&str> = found.decode_path(&path!["country", "iso_code"]).ok()?;
        code?.as_bytes().try_into().ok()
    }
}

/// The body of the fuzz target `countries`: a lookup in a database that was read ends, and gives two bytes or nothing.
///
/// # Panics
/// When it does not.
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub fn fuzz_countries(input: &[u8]) {
    match Countries::parse(input.to_vec()) {
        Ok(countries) => {
            for address in
                ["192.0.2.1", "203.0.113.255", "::ffff:198.51.100.7", "2001:db8::1", "::", "ff02::1"]
            {
                let address: IpAddr = address.parse().expect("it is one");
                assert_eq!(countries.of(address), countries.of(address.to_canonical()), "{address}");
            }
        }
        Err(fault) => assert!(fault.starts_with("is no database of MaxMind"), "{fault:?}"),
    }
}
