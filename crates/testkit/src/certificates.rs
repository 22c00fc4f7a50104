//! Certificates made for one server: an authority that clients trust, and leaves of both kinds of key.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use boring::pkey::PKey;
use boring::rsa::Rsa;
use boring::x509::X509;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CrlDistributionPoint, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber,
};

/// The files, in a directory of their own.
pub struct Certificates {
    directory: PathBuf,
    authority: Issuer<'static, KeyPair>,
}

impl Certificates {
    /// Makes the authority and the usual leaves:
    /// - `ec` and `rsa` for `localhost`, `video.example`, `127.0.0.1` and `::1`,
    /// - `other` (ECDSA) for `other.example`,
    /// - `wild` (ECDSA) for `*.wild.example`.
    pub fn make(directory: &Path) -> Self {
        let params = authority_params("Test authority");
        let key = KeyPair::generate().unwrap();
        fs::write(directory.join("authority.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        let made = Self { directory: directory.to_owned(), authority: Issuer::new(params, key) };
        let usual = ["localhost", "video.example", "127.0.0.1", "::1"];
        made.leaf("ec", &usual, &KeyPair::generate().unwrap());
        made.leaf("rsa", &usual, &KeyPair::from_pem(rsa_key()).unwrap());
        made.leaf("other", &["other.example"], &KeyPair::generate().unwrap());
        made.leaf("wild", &["*.wild.example"], &KeyPair::generate().unwrap());
        made
    }

    /// Writes `NAME.crt` and `NAME.key`, over older ones if there are any; the common name is the file's.
    pub fn leaf(&self, name: &str, hosts: &[&str], key: &KeyPair) {
        fs::write(self.path(&format!("{name}.crt")), self.pem(name, hosts, key)).unwrap();
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// The same with its end this far from now.
    pub fn leaf_that_ends(&self, name: &str, hosts: &[&str], key: &KeyPair, end: Duration) {
        let mut params = leaf_params(name, hosts);
        params.not_after = (SystemTime::now() + end).into();
        let certificate = params.signed_by(key, &self.authority).unwrap();
        fs::write(self.path(&format!("{name}.crt")), certificate.pem()).unwrap();
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// The same with all that a scanner expects of a certificate from a public authority.
    pub fn public_leaf(&self, name: &str, hosts: &[&str], key: &KeyPair) {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        let mut params =
            CertificateParams::new(hosts.iter().map(|&host| host.to_owned()).collect::<Vec<_>>()).unwrap();
        params.distinguished_name.push(DnType::CommonName, hosts[0]);
        params.not_before = (SystemTime::now() - DAY).into();
        params.not_after = (SystemTime::now() + 90 * DAY).into();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let revoked = vec!["http://revoked.invalid/list".to_owned()];
        params.crl_distribution_points = vec![CrlDistributionPoint { uris: revoked }];
        let certificate = params.signed_by(key, &self.authority).unwrap();
        fs::write(self.path(&format!("{name}.crt")), certificate.pem()).unwrap();
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// Writes a list of revoked certificates, which are leaves by their names, with its end this far from now.
    pub fn revoke(&self, file: &str, names: &[&str], end: Duration) {
        let now = SystemTime::now();
        let serial = |name: &&str| {
            let leaf = X509::from_pem(&fs::read(self.path(&format!("{name}.crt"))).unwrap()).unwrap();
            SerialNumber::from(leaf.serial_number().to_bn().unwrap().to_vec())
        };
        let revoked = |name: &&str| RevokedCertParams {
            serial_number: serial(name),
            revocation_time: now.into(),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: (now - Duration::from_secs(3600)).into(),
            next_update: (now + end).into(),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: names.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        fs::write(self.path(file), list.signed_by(&self.authority).unwrap().pem().unwrap()).unwrap();
    }

    /// A certificate with this common name as PEM.
    pub fn pem(&self, name: &str, hosts: &[&str], key: &KeyPair) -> String {
        leaf_params(name, hosts).signed_by(key, &self.authority).unwrap().pem()
    }

    /// The same from an intermediate authority: the leaf, the intermediate, and the authority, which servers need not send.
    pub fn pem_of_three(&self, name: &str, hosts: &[&str], key: &KeyPair) -> String {
        let mut params = authority_params("Test intermediate");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let intermediate_key = KeyPair::generate().unwrap();
        let intermediate = params.signed_by(&intermediate_key, &self.authority).unwrap().pem();
        let issuer = Issuer::new(params, intermediate_key);
        let leaf = leaf_params(name, hosts).signed_by(key, &issuer).unwrap().pem();
        leaf + &intermediate + &fs::read_to_string(self.authority()).unwrap()
    }

    /// The certificate that clients trust, as PEM.
    pub fn authority(&self) -> PathBuf {
        self.path("authority.crt")
    }

    /// A file by its name.
    pub fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    /// The `certificates:` of a configuration.
    pub fn yaml(names: &[&str]) -> String {
        let item = |name: &&str| format!("{{chain: {name}.crt, key: {name}.key}}");
        let items: Vec<String> = names.iter().map(item).collect();
        format!("certificates: [{}]", items.join(", "))
    }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn leaf_params(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// One key for the whole test run: making one takes a second on a slow machine.
pub fn rsa_key() -> &'static str {
    static KEY: OnceLock<String> = OnceLock::new();
    KEY.get_or_init(|| {
        let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
        String::from_utf8(key.private_key_to_pem_pkcs8().unwrap()).unwrap()
    })
}
