//! Encrypted ClientHello (RFC 9849): key files (RFC 9934) and values of DNS records (RFC 9848).

use std::ffi::CString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use boring::base64::encode_block;
use boring::error::ErrorStack;
use boring::pkey::{Id, PKey};
use boring::ssl::SslEchKeys;
use penstock_sys::{small_file, ssl};
use zeroize::Zeroizing;

use crate::acceptor::Acceptor;

/// A private key and the configurations that clients encrypt to.
#[derive(Clone)]
pub struct EchKey {
    secret: Zeroizing<Vec<u8>>,
    /// An ECHConfigList (RFC 9849 §4).
    list: Vec<u8>,
}

impl fmt::Debug for EchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret stays out of every log by construction.
        f.debug_struct("EchKey").field("ids", &self.ids()).finish_non_exhaustive()
    }
}

/// The fault of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoEchKey(pub &'static str);

impl fmt::Display for NoEchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

const BEGIN: &str = "-----BEGIN ECHCONFIG-----";
const END: &str = "-----END ECHCONFIG-----";
/// ECHConfig.version (RFC 9849 §4).
const VERSION: [u8; 2] = [0xfe, 0x0d];

impl EchKey {
    /// Generates a key for `public_name`. Server names up to `longest_name` bytes have the same encrypted length.
    ///
    /// # Errors
    /// If `public_name` is not a host name.
    pub fn generate(public_name: &str, id: u8, longest_name: usize) -> Result<Self, NoEchKey> {
        let no_key = |_| NoEchKey("the public name is not a host name");
        let mut secret = Zeroizing::new(vec![0; 32]);
        boring::rand::rand_bytes(&mut secret)
            .map_err(|_| NoEchKey("the system has no randomness to give"))?;
        let key = ssl::x25519_key(&secret).map_err(no_key)?;
        let name = CString::new(public_name).map_err(|_| NoEchKey("the public name is not a host name"))?;
        let config = ssl::marshal_config(id, &key, &name, longest_name).map_err(no_key)?;
        let length = u16::try_from(config.len()).map_err(|_| NoEchKey("the public name is too long"))?;
        let list = [&length.to_be_bytes()[..], &config].concat();
        Ok(Self { secret, list })
    }

    /// Reads a file: a PKCS #8 private key, then an ECHConfigList (RFC 9934).
    ///
    /// # Errors
    /// The file has no usable key; the error says why.
    pub fn from_pem(pem: &str) -> Result<Self, NoEchKey> {
        let key = PKey::private_key_from_pem(pem.as_bytes())
            .map_err(|_| NoEchKey("it holds no private key without a password"))?;
        if key.id() != Id::X25519 {
            return Err(NoEchKey("its key is not an X25519 key"));
        }
        let mut secret = Zeroizing::new(vec![0; 32]);
        key.raw_private_key(&mut secret).map_err(|_| NoEchKey("its key cannot be read"))?;
        let (_, behind) = pem.split_once(BEGIN).ok_or(NoEchKey("it holds no ECHCONFIG"))?;
        let (body, _) = behind.split_once(END).ok_or(NoEchKey("its ECHCONFIG does not end"))?;
        let body: String = body.split_whitespace().collect();
        let list =
            boring::base64::decode_block(&body).map_err(|_| NoEchKey("its ECHCONFIG is not Base64"))?;
        let found = Self { secret, list };
        found.library_keys(true).map_err(|_| NoEchKey("its ECHCONFIG does not belong to its key"))?;
        Ok(found)
    }

    /// The file.
    pub fn to_pem(&self) -> Zeroizing<String> {
        // The prefix of an X25519 secret in PKCS #8 (RFC 8410 §7).
        const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20];
        let key = Zeroizing::new([&PKCS8[..], &self.secret].concat());
        let (key, list) = (Zeroizing::new(encode_block(&key)), lines(&encode_block(&self.list)));
        Zeroizing::new(format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n{BEGIN}\n{list}{END}\n",
            *key
        ))
    }

    /// The value of `ech=` in an HTTPS record (RFC 9848).
    pub fn dns_value(&self) -> String {
        encode_block(&self.list)
    }

    /// The config_id of each configuration.
    pub fn ids(&self) -> Vec<u8> {
        // version, length, then the number
        self.configs().filter_map(|config| config.get(4).copied()).collect()
    }

    /// The public name of each configuration.
    pub fn public_names(&self) -> Vec<String> {
        let name = |config: &[u8]| {
            let behind_id = config.get(7..)?;
            let behind_key = behind(behind_id)?;
            let behind_suites = behind(behind_key)?;
            let length = usize::from(*behind_suites.get(1)?);
            String::from_utf8(behind_suites.get(2..2 + length)?.to_vec()).ok()
        };
        self.configs().filter_map(name).collect()
    }

    /// The ECHConfigs of supported versions.
    fn configs(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.list.get(2..).unwrap_or_default();
        std::iter::from_fn(move || {
            let length = usize::from(u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]));
            let (config, behind) = rest.split_at_checked(4 + length)?;
            rest = behind;
            Some(config)
        })
        .filter(|config| config.starts_with(&VERSION))
    }

    fn library_keys(&self, retry: bool) -> Result<SslEchKeys, ErrorStack> {
        let mut builder = SslEchKeys::builder()?;
        let mut any = false;
        for config in self.configs() {
            builder.add_key(retry, config, ssl::x25519_key(&self.secret)?)?;
            any = true;
        }
        if any { Ok(builder.build()) } else { Err(ErrorStack::get()) }
    }
}

/// The bytes after a vector with a two-byte length.
fn behind(bytes: &[u8]) -> Option<&[u8]> {
    let length = usize::from(u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?]));
    bytes.get(2 + length..)
}

fn lines(base64: &str) -> String {
    let mut text = String::new();
    for (place, letter) in base64.chars().enumerate() {
        if place > 0 && place % 64 == 0 {
            text.push('\n');
        }
        text.push(letter);
    }
    text.push('\n');
    text
}

/// The contents of a directory.
#[derive(Debug, Default)]
pub struct EchDirectory {
    /// Its keys, the newest first.
    pub keys: Vec<EchKey>,
    /// Files that are no keys, and why.
    pub ignored: Vec<(PathBuf, String)>,
}

impl EchDirectory {
    /// Reads the `*.pem` files of a directory: at most `files_max`, each of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn read(path: &Path, files_max: usize, bytes_max: u64) -> std::io::Result<Self> {
        let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "pem") {
                continue;
            }
            let modified = path.metadata().and_then(|metadata| metadata.modified());
            found.push((modified.unwrap_or(SystemTime::UNIX_EPOCH), path));
        }
        // Names begin with the time, so they order files of the same age.
        found.sort_by(|one, other| other.cmp(one));
        let mut directory = Self::default();
        for (place, (_, path)) in found.into_iter().enumerate() {
            let key =
                if place < files_max { read(&path, bytes_max) } else { Err("it is one too many".to_owned()) };
            match key {
                Ok(key) => directory.keys.push(key),
                Err(why) => directory.ignored.push((path, why)),
            }
        }
        Ok(directory)
    }
}

fn read(path: &Path, bytes_max: u64) -> Result<EchKey, String> {
    let pem =
        small_file::read_text(path, bytes_max).map(Zeroizing::new).map_err(|error| error.to_string())?;
    EchKey::from_pem(&pem).map_err(|why| why.to_string())
}

impl Acceptor {
    /// Decrypts ClientHellos with these keys from now on. The first one is the retry configuration for clients with an
    /// old key. An empty list changes nothing.
    ///
    /// # Errors
    /// When the library refuses them; the old ones then stay.
    pub fn set_ech_keys(&self, keys: &[EchKey]) -> Result<(), ErrorStack> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut builder = SslEchKeys::builder()?;
        for (place, key) in keys.iter().enumerate() {
            for config in key.configs() {
                builder.add_key(place == 0, config, ssl::x25519_key(&key.secret)?)?;
            }
        }
        self.context().set_ech_keys(&builder.build())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_file() {
        let key = EchKey::generate("public.example", 7, 64).unwrap();
        let again = EchKey::from_pem(&key.to_pem()).unwrap();
        assert_eq!((again.dns_value(), again.ids()), (key.dns_value(), vec![7]));
        assert_eq!(again.public_names(), ["public.example"]);
        assert_eq!(*again.secret, *key.secret);
    }

    #[test]
    fn a_file_without_a_key_is_refused_with_a_reason() {
        let (one, other) =
            (EchKey::generate("a.example", 1, 64).unwrap(), EchKey::generate("b.example", 2, 64).unwrap());
        let mixed = EchKey { secret: one.secret.clone(), list: other.list };
        let why = |pem: &str| EchKey::from_pem(pem).unwrap_err().0;
        assert_eq!(why(&mixed.to_pem()), "its ECHCONFIG does not belong to its key");
        assert_eq!(why("garbage"), "it holds no private key without a password");
        let pem = one.to_pem();
        assert_eq!(why(pem.split_once(BEGIN).unwrap().0), "it holds no ECHCONFIG");
        assert_eq!(why(&pem.replace(END, "")), "its ECHCONFIG does not end");
        assert!(EchKey::generate("not a name", 1, 64).is_err());
        assert!(!format!("{one:?}").contains("secret"));
    }
}
