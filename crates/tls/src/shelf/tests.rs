//! The limit of what is kept of lazily read certificates.

use std::time::Duration;

use penstock_sys::traffic::Version;
use rcgen::{CertificateParams, KeyPair};

use super::*;
use crate::certificate::Algorithm;
use crate::settings::Group;
use crate::suites::SUITES;

/// A certificate in PEM, read again each time it is needed.
#[derive(Debug)]
struct OnDisk {
    chain: String,
    key: String,
}

impl OnDisk {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let chain = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
        Self { chain: chain.pem(), key: key.serialize_pem() }
    }
}

impl Load for OnDisk {
    fn load(&self) -> Result<Certificate, CertificateError> {
        Certificate::from_pem(self.chain.as_bytes(), self.key.as_bytes())
    }
}

fn shelf(names: &[String], prepared_certificates: usize) -> Arc<Shelf> {
    let offered = |name: &String| {
        let on_disk = OnDisk::new(name);
        let summary = Arc::new(Summary::from_pem(on_disk.chain.as_bytes()).unwrap());
        Offered { summary, default: DefaultFor::Unmarked, source: Source::Lazy(Arc::new(on_disk)) }
    };
    Shelf::new(Settings {
        certificates: names.iter().map(offered).collect(),
        prepared_certificates,
        oldest: Version::Tls12,
        legacy: None,
        newest: Version::Tls13,
        groups: vec![Group::X25519],
        asks_for_best_group: false,
        ja4: false,
        suites: SUITES.iter().collect(),
        chacha20: Arc::default(),
        tickets: None,
        session_lifetime: Duration::from_secs(3600),
        session_keeping: None,
        compressions: Vec::new(),
        compressed_bytes_max: 0,
        staples: Arc::default(),
        early_data: None,
        client_certificates: None,
        key_log: None,
    })
    .unwrap()
}

/// The first name in the certificate that a client of this name is shown, waiting for it as a client does.
fn shown(shelf: &Shelf, name: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    loop {
        match shelf.choose(Some(name), Verifiable::only(&[Algorithm::P256])) {
            Chosen::Ready(context) => {
                let leaf = context.certificate().unwrap();
                return leaf.subject_alt_names().unwrap()[0].dnsname().unwrap().to_owned();
            }
            Chosen::Pending(gate) => assert!(runtime.block_on(gate.acquire()).is_err()),
            Chosen::None => panic!("nothing for {name}"),
        }
    }
}

#[test]
fn more_certificates_than_are_kept_are_all_served_again_and_again() {
    const KEPT: usize = 16;
    let names: Vec<String> = (0..KEPT * 5).map(|number| format!("{number}.test")).collect();
    let shelf = shelf(&names, KEPT);
    for round in 0..2 {
        for name in &names {
            assert_eq!(shown(&shelf, name), *name, "round {round}");
            // The one that was just read is counted a moment after it is there.
            assert!(shelf.prepared() <= KEPT + 1, "{} are kept", shelf.prepared());
        }
    }
    assert!(shelf.prepared() > 0);
}
