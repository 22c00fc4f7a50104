//! OCSP stapling with OpenSSL as the responder and as the client.

use std::cell::Cell;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use penstock_testkit::{Process, Server, Setup, Tool, until, unused_address};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, IsCa, Issuer, KeyPair, SerialNumber,
};

/// Of the first leaf; renewed ones count on from there.
const SERIAL: u64 = 0x0777;

/// An authority in the directory of a server: `ca.crt`, `ca.key`, and leaves whose chain names it.
pub(crate) struct Authority {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    /// Of the leaf there is.
    serial: Cell<u64>,
}

impl Authority {
    pub(crate) fn new(server: &Server) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "OCSP authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let directory = server.directory().to_owned();
        fs::write(directory.join("ca.crt"), &certificate).unwrap();
        fs::write(directory.join("ca.key"), key.serialize_pem()).unwrap();
        Self { directory, issuer: Issuer::new(params, key), certificate, serial: Cell::new(SERIAL) }
    }

    /// `leaf.crt` with its issuer behind it, and `leaf.key`.
    pub(crate) fn leaf(&self, responder: Option<&str>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(self.serial.get()));
        params.custom_extensions.extend(responder.map(authority_information_access));
        let leaf = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.directory.join("leaf.crt"), leaf.pem() + &self.certificate).unwrap();
        fs::write(self.directory.join("leaf.key"), key.serialize_pem()).unwrap();
    }

    /// The next leaf in the place of the one there is.
    fn renew(&self) {
        self.serial.set(self.serial.get() + 1);
        self.leaf(None);
    }

    /// The status of the leaf at OpenSSL's responder: `V` valid, `R` revoked.
    fn index(&self, status: char) -> PathBuf {
        let path = self.directory.join("index.txt");
        let revoked = if status == 'R' { "250101000000Z" } else { "" };
        let serial = self.serial.get();
        let line = format!("{status}\t400101000000Z\t{revoked}\t{serial:04X}\tunknown\t/CN=leaf\n");
        fs::write(&path, line).unwrap();
        path
    }

    fn signing(&self) -> Vec<PathBuf> {
        ["-rsigner", "ca.crt", "-rkey", "ca.key", "-CA", "ca.crt", "-index", "index.txt"]
            .iter()
            .map(|word| match word.strip_prefix('-') {
                Some(_) => PathBuf::from(word),
                None => self.directory.join(word),
            })
            .collect()
    }

    /// Puts a response about the leaf that ends after so many days in the place of `staple.der`.
    fn staple(&self, status: char, days: &str) {
        self.staple_for(status, ["-ndays", days]);
    }

    /// The same that ends after a time in the words of `openssl ocsp`.
    pub(crate) fn staple_for(&self, status: char, time: [&str; 2]) {
        self.index(status);
        let (question, response) = (self.directory.join("question.der"), self.directory.join("response.der"));
        let ask =
            Tool::new("openssl").args(["ocsp", "-sha256", "-issuer"]).arg(self.directory.join("ca.crt"));
        let ask = ask.arg("-cert").arg(self.directory.join("leaf.crt"));
        ask.arg("-reqout").arg(&question).run().ok();
        let answer = Tool::new("openssl").arg("ocsp").args(self.signing()).args(time);
        answer.arg("-reqin").arg(&question).arg("-respout").arg(&response).run().ok();
        fs::rename(response, self.directory.join("staple.der")).unwrap();
    }
}

/// The extension that names the responder (RFC 5280 section 4.2.2.1).
fn authority_information_access(url: &str) -> CustomExtension {
    let short = |tag: u8, content: &[u8]| [&[tag, u8::try_from(content.len()).unwrap()], content].concat();
    let ocsp = short(6, &[0x2b, 6, 1, 5, 5, 7, 0x30, 1]);
    let description = short(0x30, &[ocsp, short(0x86, url.as_bytes())].concat());
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], short(0x30, &description))
}

/// `openssl ocsp` as a responder.
struct Responder {
    _process: Process,
    port: u16,
}

impl Responder {
    fn start(authority: &Authority, status: char) -> Self {
        authority.index(status);
        let mut command = Command::new("openssl");
        let port = unused_address().port();
        command.args(["ocsp", "-ndays", "3", "-port", &port.to_string()]).args(authority.signing());
        let mut process = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null())).unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let listening = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("ACCEPT ")));
        listening.expect("openssl says where it listens").unwrap();
        // It goes on to write what it is asked.
        std::thread::spawn(move || lines.for_each(drop));
        Self { _process: process, port }
    }

    /// OpenSSL understands no path in front of the question.
    fn url(&self) -> String {
        format!("http://localhost:{}", self.port)
    }
}

/// The output of `openssl s_client` on the staple.
fn status(server: &Server, arguments: &[&str]) -> String {
    let tool = Tool::new("openssl").args(["s_client", "-status", "-connect"]).arg(server.https().to_string());
    let tool = tool.arg("-CAfile").arg(server.directory().join("ca.crt")).args(["-servername", "localhost"]);
    tool.args(arguments).run().ok().text()
}

const NONE: &str = "OCSP response: no response sent";
const GOOD: &str = "Cert Status: good";

fn setup(tls: &str) -> Setup {
    Setup::new().tls(&format!("certificates: [{{chain: leaf.crt, key: leaf.key}}]\n{tls}"))
}

fn counted(server: &Server, source: &str, outcome: &str) -> f64 {
    let labels = [format!("source=\"{source}\""), format!("outcome=\"{outcome}\"")];
    server.metrics().sum("penstock_ocsp_responses_total", &[&labels[0], &labels[1]])
}

fn wait_for(server: &Server, what: &str) {
    until(what, || status(server, &[]).contains(what).then_some(()));
}

#[test]
fn a_response_in_a_file_is_stapled_on_request_and_replaced_when_it_changes() {
    let server = Setup::new().start();
    let authority = Authority::new(&server);
    authority.leaf(None);
    authority.staple('V', "2");
    server.reload(&setup("ocsp: {file: staple.der}"));
    for version in ["-tls1_2", "-tls1_3"] {
        let said = status(&server, &[version]);
        assert!(said.contains(GOOD) && said.contains("Serial Number: 0777"), "{version}: {said}");
    }
    let unasked = Tool::new("openssl").args(["s_client", "-connect"]).arg(server.https().to_string());
    unasked.run().ok();
    let staples = |label: &str| server.metrics().sum("penstock_staples_total", &[label]);
    until("the handshakes to be counted", || {
        ((staples("staple=\"sent\""), staples("staple=\"not_asked\"")) == (2.0, 1.0)).then_some(())
    });
    let next = || {
        let name = "penstock_staple_next_update_timestamp_seconds";
        server.metrics().sum(name, &["subject=\"localhost\"", "kind=\"ecdsa\""])
    };
    let first = next();
    assert!(first > 1.7e9, "{first}");
    // Replaced without a reload.
    authority.staple('V', "5");
    until("the new response", || (next() > first + 86_400.0).then_some(()));
    // A revoked one is worse than none, and garbage is none.
    server.expect_warning("is not stapled: it says that the certificate is revoked");
    authority.staple('R', "5");
    wait_for(&server, NONE);
    server.expect_warning("is not stapled: it is not an OCSP response");
    fs::write(server.directory().join("staple.der"), "garbage").unwrap();
    until("the garbage to be seen", || (counted(&server, "file", "malformed") == 1.0).then_some(()));
    assert!(status(&server, &[]).contains(NONE));
    authority.staple('V', "5");
    wait_for(&server, GOOD);
    server.reload(&setup("ocsp: off"));
    wait_for(&server, NONE);
}

#[test]
fn a_file_serves_the_certificate_it_speaks_of_and_no_other() {
    let server = Setup::new().start();
    let authority = Authority::new(&server);
    authority.leaf(None);
    authority.staple('V', "2");
    let both = |own: &str| {
        Setup::new().tls(&format!(
            "certificates: [{{chain: leaf.crt, key: leaf.key}}, {{chain: chained.crt, key: rsa.key{own}}}]\n\
             ocsp: {{file: staple.der}}"
        ))
    };
    let read = |name: &str| fs::read_to_string(server.directory().join(name)).unwrap();
    fs::write(server.directory().join("chained.crt"), read("rsa.crt") + &read("authority.crt")).unwrap();
    server.reload(&both(""));
    let rsa = ["-sigalgs", "RSA-PSS+SHA256"];
    // A thread of its own reads the file behind the reload.
    wait_for(&server, GOOD);
    assert!(status(&server, &rsa).contains(NONE));
    assert_eq!(counted(&server, "file", "wrong_certificate"), 0.0, "one file for all is no mistake");
    server.expect_warning("is not stapled: it speaks of another certificate");
    server.reload(&both(", ocsp: {file: ./staple.der}"));
    until("the mistake to be counted", || {
        (counted(&server, "file", "wrong_certificate") == 1.0).then_some(())
    });
    assert!(status(&server, &rsa).contains(NONE));
}

#[test]
fn a_renewed_certificate_has_no_staple_until_there_is_one_for_it() {
    let server = Setup::new().start();
    let authority = Authority::new(&server);
    authority.leaf(None);
    authority.staple('V', "2");
    let own = "certificates: [{chain: leaf.crt, key: leaf.key, ocsp: {file: staple.der}}]";
    let setup = Setup::new().tls(own);
    server.reload(&setup);
    wait_for(&server, GOOD);
    authority.renew();
    server.expect_warning("is not stapled: it speaks of another certificate");
    // The chain and the key are two files, and what lies between is no pair.
    server.tolerate_warning("does not belong to the first certificate");
    server.reload(&setup);
    wait_for(&server, NONE);
    until("the mistake to be counted", || {
        (counted(&server, "file", "wrong_certificate") >= 1.0).then_some(())
    });
    authority.staple('V', "2");
    wait_for(&server, "Serial Number: 0778");
    assert!(status(&server, &[]).contains(GOOD));
}

#[test]
fn a_certificate_from_a_directory_gets_its_staple_when_it_is_in_use() {
    let server = Setup::new().start();
    let authority = Authority::new(&server);
    let responder = Responder::start(&authority, 'V');
    authority.leaf(Some(&responder.url()));
    let read = |name: &str| fs::read_to_string(server.directory().join(name)).unwrap();
    let directory = server.directory().join("certs");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("localhost.pem"), read("leaf.crt") + &read("leaf.key")).unwrap();
    let tls = "certificates: [{directory: certs}, {chain: rsa.crt, key: rsa.key, default: true}]\nocsp: auto";
    server.reload(&Setup::new().tls(tls));
    // The first client has it read, and is served without a staple.
    assert!(status(&server, &[]).contains("Verification: OK"));
    wait_for(&server, GOOD);
    assert_eq!(counted(&server, "responder", "ok"), 1.0);
}

#[test]
fn the_responder_that_a_certificate_names_is_asked() {
    let server = Setup::new().start();
    let authority = Authority::new(&server);
    let responder = Responder::start(&authority, 'V');
    authority.leaf(Some(&responder.url()));
    server.reload(&setup("ocsp: auto"));
    wait_for(&server, GOOD);
    assert_eq!(counted(&server, "responder", "ok"), 1.0);
    // It is not asked again soon, not even after a reload, and what is stapled outlives the responder.
    drop(responder);
    server.reload(&setup("ocsp: auto\ncertificate_compression: []"));
    assert!(status(&server, &[]).contains(GOOD));
    assert_eq!(counted(&server, "responder", "ok"), 1.0);
    assert_eq!(counted(&server, "responder", "unreachable"), 0.0);
}

#[test]
fn a_responder_that_is_away_or_says_revoked_leaves_handshakes_alone() {
    let server = Setup::new().start();
    let authority = Authority::new(&server);
    authority.leaf(Some(&format!("http://{}", unused_address())));
    server.expect_warning("no new OCSP response for this certificate: the responder cannot be reached");
    server.reload(&setup("ocsp: auto"));
    until("the failure", || (counted(&server, "responder", "unreachable") == 1.0).then_some(()));
    assert!(status(&server, &[]).contains(NONE));

    let responder = Responder::start(&authority, 'R');
    authority.leaf(Some(&responder.url()));
    server.expect_warning("this certificate is revoked: replace it");
    server.reload(&setup("ocsp: auto"));
    until("the bad news", || (counted(&server, "responder", "revoked") == 1.0).then_some(()));
    assert!(status(&server, &[]).contains(NONE));
}

#[test]
fn a_certificate_that_demands_a_staple_is_warned_about() {
    let server = Setup::new().start();
    let authority = Authority::new(&server);
    authority.leaf(None);
    let file = server.directory().join("check.yaml");
    let check = |tls: &str| {
        let yaml = format!(
            "listeners: [{{address: 127.0.0.1:0, tls: true}}]\nsites: [{{origin: {{directory: root}}}}]\n\
             tls: {{certificates: [{{chain: demanding.crt, key: demanding.key}}]{tls}}}\n"
        );
        fs::write(&file, yaml).unwrap();
        checked(&file)
    };
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let feature = vec![0x30, 3, 2, 1, 5];
    params.custom_extensions =
        vec![CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 24], feature)];
    let leaf = params.signed_by(&key, &authority.issuer).unwrap();
    fs::write(server.directory().join("demanding.crt"), leaf.pem()).unwrap();
    fs::write(server.directory().join("demanding.key"), key.serialize_pem()).unwrap();
    let said = check("");
    assert!(said.contains(":3: ocsp: clients refuse this certificate without a staple (RFC 7633)"), "{said}");
    // It names no responder.
    assert!(check(", ocsp: auto").contains("clients refuse this certificate without a staple"));
    authority.staple('V', "2");
    let said = check(", ocsp: {file: staple.der}");
    assert!(said.contains("append the certificate of the issuer to the chain"), "{said}");
    fs::write(server.directory().join("demanding.crt"), leaf.pem() + &authority.certificate).unwrap();
    let said = check(", ocsp: {file: staple.der}");
    assert!(!said.contains("ocsp"), "{said}");
}

/// The output of `penstock check` for a right configuration.
fn checked(file: &Path) -> String {
    Tool::penstock().arg("check").arg("-c").arg(file).run().ok().stderr
}
