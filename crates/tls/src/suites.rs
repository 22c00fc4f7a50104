//! Cipher suites and their order per client. Suites of old clients are in [`legacy`](crate::legacy).

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use boring::error::ErrorStack;
use boring::ssl::{SslContextBuilder, SslRef};
use penstock_sys::aead::Cipher;
use penstock_sys::cbc::CbcCipher;
use penstock_sys::ssl;
use penstock_sys::traffic::ProtocolVersion;

use crate::hello::numbers;

/// A cipher suite. Those in [`SUITES`] have forward secrecy and an AEAD.
#[derive(Debug, PartialEq, Eq)]
pub struct Suite {
    /// Its number in the IANA registry.
    pub number: u16,
    /// Its name in the IANA registry.
    pub name: &'static str,
    /// The name in OpenSSL.
    pub openssl_name: &'static str,
    /// The version of TLS that speaks it; those of 1.2 may be known to older ones too.
    pub version: ProtocolVersion,
    /// The cipher that seals records.
    pub protection: Protection,
    /// Whether it goes with an ECDSA certificate.
    pub ecdsa: bool,
    /// Whether it goes with an RSA certificate.
    pub rsa: bool,
}

/// The cipher that seals records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// An AEAD.
    Aead(Cipher),
    /// A block cipher and a MAC, for old clients.
    Cbc(CbcCipher),
}

/// All suites in order of preference: AES-128 first, because it is the cheapest to seal and strong enough.
pub static SUITES: [Suite; 9] = [
    tls13(0x1301, "TLS_AES_128_GCM_SHA256", Cipher::Aes128Gcm),
    tls13(0x1302, "TLS_AES_256_GCM_SHA384", Cipher::Aes256Gcm),
    tls13(0x1303, "TLS_CHACHA20_POLY1305_SHA256", Cipher::ChaCha20Poly1305),
    ecdsa(
        0xc02b,
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        Cipher::Aes128Gcm,
    ),
    rsa(0xc02f, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", Cipher::Aes128Gcm),
    ecdsa(
        0xc02c,
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        Cipher::Aes256Gcm,
    ),
    rsa(0xc030, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384", Cipher::Aes256Gcm),
    ecdsa(
        0xcca9,
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        Cipher::ChaCha20Poly1305,
    ),
    rsa(
        0xcca8,
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-RSA-CHACHA20-POLY1305",
        Cipher::ChaCha20Poly1305,
    ),
];

const fn tls13(number: u16, name: &'static str, cipher: Cipher) -> Suite {
    // OpenSSL took these names over.
    let protection = Protection::Aead(cipher);
    Suite {
        number,
        name,
        openssl_name: name,
        version: ProtocolVersion::Tls13,
        protection,
        ecdsa: true,
        rsa: true,
    }
}

const fn ecdsa(number: u16, name: &'static str, openssl_name: &'static str, cipher: Cipher) -> Suite {
    let protection = Protection::Aead(cipher);
    Suite { number, name, openssl_name, version: ProtocolVersion::Tls12, protection, ecdsa: true, rsa: false }
}

const fn rsa(number: u16, name: &'static str, openssl_name: &'static str, cipher: Cipher) -> Suite {
    let protection = Protection::Aead(cipher);
    Suite { number, name, openssl_name, version: ProtocolVersion::Tls12, protection, ecdsa: false, rsa: true }
}

impl Suite {
    /// All modern suites of a version in our order of preference.
    pub fn all(version: ProtocolVersion) -> Vec<&'static Self> {
        SUITES.iter().filter(|suite| suite.version == version).collect()
    }

    fn is_chacha20(&self) -> bool {
        self.protection == Protection::Aead(Cipher::ChaCha20Poly1305)
    }
}

/// Whether ChaCha20-Poly1305 is the last choice at the moment. Read for each ClientHello, changed at any time.
#[derive(Debug, Default)]
pub struct ChaCha20Switch(AtomicBool);

impl ChaCha20Switch {
    /// From now on ChaCha20-Poly1305 is only for clients that offer nothing else, or for those that prefer it.
    pub fn set_last(&self, last: bool) {
        self.0.store(last, Relaxed);
    }

    /// Whether it is only for clients that offer nothing else.
    pub fn is_last(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// The enabled suites, in the order for each kind of client.
#[derive(Debug)]
pub(crate) struct SuiteOrders {
    spoken: Vec<&'static Suite>,
    as_listed: SuiteOrder,
    /// `None` where it would not differ from `as_listed`.
    chacha20_first: Option<SuiteOrder>,
    chacha20_last: Option<SuiteOrder>,
}

/// Kinds of keys that suites of TLS 1.2 are signed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SignedBy {
    pub(crate) ecdsa: bool,
    pub(crate) rsa: bool,
}

/// The suites of both versions, best first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SuiteOrder {
    tls13: Vec<u16>,
    tls12: CString,
}

impl SuiteOrders {
    /// Of suites in the operator's order, each version's in its own.
    pub(crate) fn new(suites: &[&'static Suite]) -> Self {
        let as_listed = SuiteOrder::of(suites);
        let (chacha20, others): (Vec<&Suite>, Vec<&Suite>) =
            suites.iter().partition(|suite| suite.is_chacha20());
        let differing = |order: SuiteOrder| (order != as_listed).then_some(order);
        let chacha20_first = differing(SuiteOrder::of(&[&chacha20[..], &others[..]].concat()));
        let chacha20_last = differing(SuiteOrder::of(&[&others[..], &chacha20[..]].concat()));
        Self { spoken: suites.to_vec(), as_listed, chacha20_first, chacha20_last }
    }

    /// The default order.
    pub(crate) fn as_listed(&self) -> &SuiteOrder {
        &self.as_listed
    }

    /// The order for a client that offers these suites, if it is another than the usual one.
    ///
    /// Clients without AES hardware list ChaCha20 first; it is cheaper for them only. GREASE values (RFC 8701) and
    /// unsupported suites are skipped.
    pub(crate) fn for_client(&self, offered: &[u8], chacha20_last: bool) -> Option<&SuiteOrder> {
        if chacha20_last {
            return self.chacha20_last.as_ref();
        }
        let first_choice = numbers(offered).find_map(|number| self.spoken(number));
        self.chacha20_first.as_ref().filter(|_| first_choice.is_some_and(Suite::is_chacha20))
    }

    /// The kinds of keys of the offered TLS 1.2 suites that the server supports.
    pub(crate) fn signed_by(&self, offered: &[u8]) -> SignedBy {
        let common = numbers(offered).filter_map(|number| self.spoken(number));
        let tls12 = common.filter(|suite| suite.version == ProtocolVersion::Tls12);
        tls12.fold(SignedBy::default(), |found, suite| SignedBy {
            ecdsa: found.ecdsa || suite.ecdsa,
            rsa: found.rsa || suite.rsa,
        })
    }

    fn spoken(&self, number: u16) -> Option<&'static Suite> {
        self.spoken.iter().copied().find(|suite| suite.number == number)
    }
}

impl SuiteOrder {
    fn of(suites: &[&Suite]) -> Self {
        let version = |version| suites.iter().filter(move |suite| suite.version == version);
        let tls12: Vec<&str> = version(ProtocolVersion::Tls12).map(|suite| suite.openssl_name).collect();
        Self {
            tls13: version(ProtocolVersion::Tls13).map(|suite| suite.number).collect(),
            tls12: CString::new(tls12.join(":")).unwrap_or_default(),
        }
    }

    /// Sets this order for all connections of a context.
    pub(crate) fn set_for_context(&self, builder: &mut SslContextBuilder) -> Result<(), ErrorStack> {
        if !self.tls12.is_empty() {
            ssl::set_tls12_suites_of_context(builder, &self.tls12)?;
        }
        if !self.tls13.is_empty() {
            ssl::set_tls13_suites_of_context(builder, &self.tls13)?;
        }
        Ok(())
    }

    /// Sets this order for one connection.
    pub(crate) fn set(&self, connection: &mut SslRef) -> Result<(), ErrorStack> {
        if !self.tls12.is_empty() {
            ssl::set_tls12_suites(connection, &self.tls12)?;
        }
        if !self.tls13.is_empty() {
            ssl::set_tls13_suites(connection, &self.tls13)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(list: &[u16]) -> Vec<u8> {
        list.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    fn orders(numbers: &[u16]) -> SuiteOrders {
        let find = |number: &u16| SUITES.iter().find(|suite| suite.number == *number).unwrap();
        SuiteOrders::new(&numbers.iter().map(find).collect::<Vec<_>>())
    }

    fn usual() -> SuiteOrders {
        SuiteOrders::new(&SUITES.iter().collect::<Vec<_>>())
    }

    fn first_for(orders: &SuiteOrders, offered: &[u16], last: bool) -> u16 {
        orders.for_client(&offer(offered), last).unwrap_or(orders.as_listed()).tls13[0]
    }

    #[test]
    fn a_phone_that_leads_with_chacha20_gets_it_behind_grease_and_unknown_suites() {
        for offered in [&[0x4a4a, 0x1303, 0x1301][..], &[0xcca9, 0xc02b], &[0x009c, 0xcca8, 0xc02f]] {
            assert_eq!(first_for(&usual(), offered, false), 0x1303, "{offered:04x?}");
        }
    }

    #[test]
    fn others_get_the_order_that_was_listed() {
        for offered in [&[0x1301, 0x1303][..], &[0x009c, 0xc02f, 0xcca8], &[]] {
            assert!(usual().for_client(&offer(offered), false).is_none(), "{offered:04x?}");
        }
        assert!(usual().for_client(&[0x13], false).is_none());
    }

    #[test]
    fn as_the_last_choice_it_goes_behind_all_others_but_stays() {
        let listed_first = orders(&[0x1303, 0x1302, 0xcca9, 0xc02b]);
        let order = listed_first.for_client(&offer(&[0x1303]), true).unwrap();
        assert_eq!(order.tls13, [0x1302, 0x1303]);
        assert_eq!(order.tls12.to_str(), Ok("ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305"));
        assert!(usual().for_client(&offer(&[0x1303]), true).is_none(), "it stands last already");
    }

    #[test]
    fn cipher_suites_that_are_not_listed_are_not_negotiated() {
        let without = orders(&[0x1301, 0xc02f]);
        assert!(without.for_client(&offer(&[0x1303, 0x1301]), false).is_none());
        let signed_by = |offered: &[u16]| without.signed_by(&offer(offered));
        assert_eq!(signed_by(&[0xc02b, 0x1301]), SignedBy::default());
        assert_eq!(signed_by(&[0xc02b, 0xc02f]), SignedBy { ecdsa: false, rsa: true });
    }

    #[test]
    fn the_usual_order_begins_with_the_cheapest_suite_for_each_kind_of_certificate() {
        let first = usual().as_listed().tls12.to_str().unwrap().to_owned();
        assert!(first.starts_with("ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"), "{first}");
        assert_eq!(usual().as_listed().tls13, [0x1301, 0x1302, 0x1303]);
    }
}
