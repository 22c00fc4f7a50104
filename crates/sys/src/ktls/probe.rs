//! Probes on a loopback connection which ciphers this kernel seals.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use super::{attach, set_send_keys};
use crate::aead::Cipher;
use crate::traffic::{ProtocolVersion, Secret, TrafficKeys};

/// The ciphers that the kernel seals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Support {
    /// Whether a socket can be given the `tls` protocol at all.
    pub ulp: bool,
    /// Record formats and ciphers whose keys the kernel takes.
    pub accepted: Vec<(ProtocolVersion, Cipher)>,
    /// Whether keys can be changed on a connection (Linux 6.14).
    pub rekey: bool,
}

impl Support {
    /// Whether the kernel takes keys of this kind.
    pub fn accepts(&self, version: ProtocolVersion, cipher: Cipher) -> bool {
        self.accepted.contains(&(version, cipher))
    }
}

const CIPHERS: [Cipher; 3] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

/// Asks the kernel, on a loopback connection for each question.
///
/// With `CAP_NET_ADMIN` this loads the `tls` module if it is installed, as the kernel does for any process that asks.
///
/// # Errors
/// Errors of the loopback connection; a kernel without `tls` is no error.
pub fn probe() -> io::Result<Support> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut support = Support::default();
    for version in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
        for cipher in CIPHERS {
            let Some(keys) = keys_for(version, cipher) else { continue };
            let near = TcpStream::connect(listener.local_addr()?)?;
            let _far = listener.accept()?;
            if attach(&near).is_err() {
                return Ok(support);
            }
            support.ulp = true;
            if set_send_keys(&near, &keys).is_err() {
                continue;
            }
            support.accepted.push((version, cipher));
            let next = keys.next_generation();
            support.rekey |= next.is_some_and(|next| set_send_keys(&near, &next).is_ok());
        }
    }
    Ok(support)
}

/// Keys that protect nothing: the connection carries no bytes.
fn keys_for(version: ProtocolVersion, cipher: Cipher) -> Option<TrafficKeys> {
    match (version, cipher) {
        (ProtocolVersion::Tls13, Cipher::Aes256Gcm) => {
            TrafficKeys::tls13(cipher, Secret::new(vec![1; 48]), 0)
        }
        (ProtocolVersion::Tls13, _) => TrafficKeys::tls13(cipher, Secret::new(vec![1; 32]), 0),
        (ProtocolVersion::Tls12, Cipher::ChaCha20Poly1305) => {
            TrafficKeys::tls12(cipher, &Secret::new(vec![1; 2 * (32 + 12)]), 0)
        }
        (ProtocolVersion::Tls12, _) => {
            TrafficKeys::tls12(cipher, &Secret::new(vec![1; 2 * (cipher.key_bytes() + 4)]), 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_the_same_twice_and_agrees_with_itself() {
        let support = probe().unwrap();
        assert_eq!(support, probe().unwrap());
        assert_eq!(support.ulp, super::super::statistics().is_ok());
        assert!(support.ulp || support.accepted.is_empty());
        assert!(!support.accepted.is_empty() || !support.rekey);
    }

    #[test]
    fn there_are_keys_to_ask_with_for_every_version_and_cipher() {
        for version in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
            for cipher in CIPHERS {
                assert!(keys_for(version, cipher).is_some());
            }
        }
    }
}
