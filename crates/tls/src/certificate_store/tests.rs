//! Tests of the limit on loaded certificates.

use std::time::Duration;

use penstock_sys::traffic::ProtocolVersion;
use rcgen::{CertificateParams, KeyPair};

use super::*;
use crate::certificate::{Algorithm, Certificate, CertificateError, Summary};
use crate::offered_certificate::LoadCertificate;
use crate::settings::Group;
use crate::suites::SUITES;

/// A certificate in PEM, parsed at each load.
#[derive(Debug)]
struct PemCertificate {
    chain: String,
    key: String,
}

impl PemCertificate {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let chain = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
        Self { chain: chain.pem(), key: key.serialize_pem() }
    }
}

impl LoadCertificate for PemCertificate {
    fn load(&self) -> Result<Certificate, CertificateError> {
        Certificate::from_pem(self.chain.as_bytes(), self.key.as_bytes())
    }
}

fn store(names: &[String], prepared_certificates: usize) -> Arc<CertificateStore> {
    let offered = |name: &String| {
        let pem = PemCertificate::new(name);
        let summary = Arc::new(Summary::from_pem(pem.chain.as_bytes()).unwrap());
        OfferedCertificate {
            summary,
            default: DefaultFor::Unmarked,
            source: CertificateSource::Lazy(Arc::new(pem)),
        }
    };
    CertificateStore::new(AcceptorSettings {
        certificates: names.iter().map(offered).collect(),
        prepared_certificates,
        oldest: ProtocolVersion::Tls12,
        legacy: None,
        newest: ProtocolVersion::Tls13,
        groups: vec![Group::X25519],
        asks_for_best_group: false,
        ja4: false,
        suites: SUITES.iter().collect(),
        chacha20: Arc::default(),
        tickets: None,
        session_lifetime: Duration::from_secs(3600),
        session_storage: None,
        compressions: Vec::new(),
        compressed_bytes_max: 0,
        client_hello_bytes_max: 64 * 1024,
        staples: Arc::default(),
        early_data: None,
        client_certificates: None,
        key_log: None,
    })
    .unwrap()
}

/// The first name in the certificate for `name`, after its load.
fn shown(store: &CertificateStore, name: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    loop {
        match store.get_or_load(Some(name), Verifiable::only(&[Algorithm::P256])) {
            Chosen::Ready(context) => {
                let leaf = context.certificate().unwrap();
                return leaf.subject_alt_names().unwrap()[0].dnsname().unwrap().to_owned();
            }
            Chosen::Pending(signal) => runtime.block_on(signal.loaded()),
            Chosen::None => panic!("nothing for {name}"),
        }
    }
}

#[test]
fn more_certificates_than_are_kept_are_all_served_again_and_again() {
    const KEPT: usize = 16;
    let names: Vec<String> = (0..KEPT * 5).map(|number| format!("{number}.test")).collect();
    let store = store(&names, KEPT);
    for round in 0..2 {
        for name in &names {
            assert_eq!(shown(&store, name), *name, "round {round}");
            // The newest one is counted just after its signal.
            assert!(store.prepared() <= KEPT + 1, "{} are kept", store.prepared());
        }
    }
    assert!(store.prepared() > 0);
}
