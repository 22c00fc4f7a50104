//! A directory with a configuration, certificates and something to serve.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use penstock_config::{Config, Environment, Fault};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, date_time_ymd};
use tempfile::TempDir;

/// The files every test can name: `video/index.html`, `ec.crt` with `ec.key`, `other.crt` with `other.key`,
/// `old.crt` with `old.key` (expired in 2020), `text.pem` (no PEM at all),
/// `broken.crt`, `broken.crl` and `huge.pem`; `s3.key` with one word in it.
pub(crate) struct Fixture {
    directory: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("video")).unwrap();
        fs::write(at("video/index.html"), "hello").unwrap();
        for (name, last_year) in [("ec", 2090), ("other", 2090), ("old", 2020)] {
            let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
            let mut params = CertificateParams::new(vec![format!("{name}.example.com")]).unwrap();
            params.not_before = date_time_ymd(2019, 1, 1);
            params.not_after = date_time_ymd(last_year, 1, 1);
            let certificate = params.self_signed(&key).unwrap();
            fs::write(at(&format!("{name}.crt")), certificate.pem()).unwrap();
            let file = at(&format!("{name}.key"));
            fs::write(&file, key.serialize_pem()).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        }
        fs::write(at("text.pem"), "nothing to see here\n").unwrap();
        fs::write(at("s3.key"), "a-key\n").unwrap();
        fs::write(at("broken.crl"), "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").unwrap();
        fs::write(at("broken.crt"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            .unwrap();
        let key = r#"{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
        fs::write(at("jwks.json"), format!("{{\"keys\": [{key}]}}")).unwrap();
        fs::File::create(at("huge.pem")).unwrap().set_len(1 << 30).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join("edge.yaml")
    }

    /// Reads `text` as if it stood in `edge.yaml` of this directory, on a machine with the name `here` and no variables.
    pub(crate) fn read(&self, text: &str) -> Result<Config, Vec<Fault>> {
        self.read_with(text, "here", &[])
    }

    /// As [`Self::read`], on a machine with this name and these variables of the environment.
    pub(crate) fn read_with(
        &self,
        text: &str,
        host_name: &str,
        variables: &[(&str, &str)],
    ) -> Result<Config, Vec<Fault>> {
        let known = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let environment = Environment {
            host_name: host_name.to_owned(),
            variable: &known,
            ..Environment::at(SystemTime::now())
        };
        Config::from_text_in(text, &self.file(), &environment)
    }

    /// The report on `text`, with `DIR` for this directory.
    pub(crate) fn faults(&self, text: &str) -> Vec<String> {
        self.shown(&self.read(text).expect_err("this text should be wrong"))
    }

    pub(crate) fn shown(&self, faults: &[Fault]) -> Vec<String> {
        let directory = self.directory.path().display().to_string();
        faults
            .iter()
            .map(|fault| {
                let shown = fault.to_string();
                let shown = shown.strip_prefix(&format!("{directory}/")).unwrap_or(&shown);
                shown.replace(&directory, "DIR")
            })
            .collect()
    }
}

/// A whole configuration around the lines that matter: plain HTTP on line 1, one site on line 2, `lines` from line 3.
pub(crate) fn around(lines: &str) -> String {
    format!("listeners: [{{address: 127.0.0.1:8080}}]\nsites: [{{origin: {{directory: video}}}}]\n{lines}\n")
}
