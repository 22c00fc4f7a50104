//! Certificates that the server orders itself, from Pebble.

mod clock;
mod fleet;
mod pebble;
mod restarts;
mod revoked;

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use pebble::Pebble;
use penstock_testkit::{
    Certificates, Client, Process, ReservedAddress, Server, Setup, Tool, disk_directory, program, until,
};
use rustix::process::Signal;

use crate::mounted::Mounted;

/// A server's listeners, of which an authority knows the ports.
struct Ports {
    tls: ReservedAddress,
    http: ReservedAddress,
}

impl Ports {
    fn reserve() -> Self {
        Self { tls: ReservedAddress::reserve(), http: ReservedAddress::reserve() }
    }

    fn pebble(&self) -> Option<Pebble> {
        Pebble::new(self.http.address().port(), self.tls.address().port())
    }

    /// HTTPS, and plain HTTP that redirects. The site `a.example` asks for a password.
    fn setup(&self, tls: &str) -> Setup {
        let listeners = [
            format!("address: \"{}\", tls: true", self.tls),
            format!("address: \"{}\", redirect: https", self.http),
        ];
        Setup::new()
            .listeners(&[&listeners[0], &listeners[1]])
            .tls(tls)
            .sites("- {hosts: [a.example], origin: {directory: root}, access: {deny: [\"127.0.0.0/8\"]}}")
    }
}

/// The first certificate that the server shows for a name, in PEM.
fn shown(server: &Server, name: &str) -> String {
    let address = server.https().to_string();
    let tool = Tool::new("openssl").args(["s_client", "-connect", &address, "-servername", name]);
    let text = tool.run().text();
    let begin = text.find("-----BEGIN CERTIFICATE-----").expect("a certificate");
    let end = text.find("-----END CERTIFICATE-----").expect("its end");
    format!("{}-----END CERTIFICATE-----\n", &text[begin..end])
}

fn issuer(pem: &str) -> String {
    let tool = Tool::new("openssl").args(["x509", "-noout", "-issuer"]);
    tool.run_with_input(pem.as_bytes()).ok().text()
}

/// Waits until the server shows a certificate of Pebble that is not this one.
fn wait_for_certificate(server: &Server, name: &str, other_than: &str) -> String {
    until("a certificate of Pebble", || {
        let pem = shown(server, name);
        (pem != other_than && issuer(&pem).contains("Pebble")).then_some(pem)
    })
}

/// A section of `/status.json`.
fn section(server: &Server, name: &str) -> serde_json::Value {
    let request = "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = Client::connect(server.admin()).request(request);
    let status: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    status[name].clone()
}

fn status(server: &Server) -> serde_json::Value {
    section(server, "acme")
}

fn orders(server: &Server, outcome: &str) -> f64 {
    server.metrics().sum("penstock_acme_orders_total", &[&format!("outcome=\"{outcome}\"")])
}

/// Waits for so many orders that brought a certificate. It is shown before its order is counted.
fn have_issued(servers: &[Server], expected: f64) {
    until("the orders", || {
        let issued: f64 = servers.iter().map(|server| orders(server, "issued")).sum();
        (issued == expected).then_some(())
    });
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let below = entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] });
    below.collect()
}

#[test]
fn a_site_gets_a_certificate_over_http_and_keeps_it_over_a_restart() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let mut pebble = pebble.rejecting_nonces("20").start();
    let setup = ports.setup(&pebble.section("storage: acme, email: ops@example.com"));
    let mut server = setup.environment("PENSTOCK_LOG", "trace").start();
    let pem = wait_for_certificate(&server, "a.example", "");
    let trust = pebble.root().display().to_string();
    let port = server.https().port();
    let answer = Tool::new("curl")
        .args(["--silent", "--show-error", "--max-time", "50", "--cacert", &trust, "--output", "/dev/null"])
        .args(["--write-out", "%{http_code}", "--resolve", &format!("a.example:{port}:127.0.0.1")])
        .arg(format!("https://a.example:{port}/"));
    assert_eq!(answer.run().ok().text(), "403", "the chain verifies; the site refuses");
    until("the metrics", || (orders(&server, "issued") == 1.0).then_some(()));
    until("the status", || (status(&server)["names"][0]["state"] == "valid").then_some(()));
    // Only tokens that are under way are answered.
    let unknown = "GET /.well-known/acme-challenge/unknown HTTP/1.1\r\nHost: a.example\r\n\r\n";
    assert_eq!(Client::connect(server.http()).request(unknown).status, 308);
    let storage = server.directory().join("acme");
    let files = files_below(&storage);
    assert!(files.iter().any(|file| file.ends_with("a.example.pem")), "{files:?}");
    assert!(!files.iter().any(|file| file.starts_with(storage.join("challenges"))), "{files:?}");
    for file in &files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
    let key = fs::read_to_string(files.iter().find(|file| file.ends_with("a.example.pem")).unwrap()).unwrap();
    let secret = key.rsplit("PRIVATE KEY-----").nth(1).unwrap().lines().nth(1).unwrap();
    let account = files.iter().find(|file| file.starts_with(storage.join("accounts"))).unwrap();
    let account: serde_json::Value = serde_json::from_slice(&fs::read(account).unwrap()).unwrap();
    for secret in [secret, account["key_pkcs8"].as_str().unwrap()] {
        assert!(secret.len() >= 60, "{secret}");
        assert!(!server.log().iter().any(|line| line.contains(secret)), "a key is in the log");
    }
    // Without the authority the certificate is still there.
    pebble.stop();
    server.start_again(Signal::TERM);
    assert_eq!(shown(&server, "a.example"), pem);
    until("the status", || (status(&server)["names"][0]["state"] == "valid").then_some(()));
    assert_eq!(orders(&server, "issued"), 0.0);
}

#[test]
fn a_self_signed_certificate_serves_until_the_authority_can_be_reached() {
    let ports = Ports::reserve();
    let Some(mut pebble) = ports.pebble() else { return };
    let server = ports.setup(&pebble.section("storage: acme")).start();
    server.expect_warning("acme: no certificate for a.example: the CA cannot be reached");
    assert!(issuer(&shown(&server, "a.example")).contains("self-signed"));
    until("a failure", || (orders(&server, "unavailable") >= 1.0).then_some(()));
    let error = status(&server)["names"][0]["error"].to_string();
    assert!(error.contains("cannot be reached"), "{error}");
    pebble.start_again();
    wait_for_certificate(&server, "a.example", "");
    until("no error", || status(&server)["names"][0]["error"].is_null().then_some(()));
}

/// A server whose authority cannot be reached, with answers in its storage that another machine could have written.
fn start_without_authority(keys: &str, tls: &str) -> Server {
    let ports = Ports::reserve();
    let nowhere = ReservedAddress::reserve();
    let section = format!(
        "acme: {{agree_to_terms: true, directory: \"https://{nowhere}/dir\", ca_file: authority.crt, storage: acme{keys}}}"
    );
    let server = ports.setup(&(section + tls)).start();
    server.tolerate_warning("acme: no certificate for a.example: the CA cannot be reached");
    server
}

#[test]
fn answers_in_the_storage_are_given_over_plain_http_alone_and_before_all_rules() {
    let server = start_without_authority("", "");
    let challenges = server.directory().join("acme/challenges");
    fs::write(challenges.join("a-token"), "a-token.thumbprint").unwrap();
    let ask = |token: &str, host: &str| {
        let head = format!("GET /.well-known/acme-challenge/{token} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        Client::connect(server.http()).request(&head)
    };
    // Redirects and access rules do not apply, nor do sites.
    for host in ["a.example", "other.example"] {
        let answer = ask("a-token", host);
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"a-token.thumbprint"[..]), "{host}");
    }
    for wrong in ["", "a-toke", "a-token/", "..%2fchallenges%2fa-token", "../challenges/a-token"] {
        assert_ne!(ask(wrong, "a.example").status, 200, "{wrong}");
    }
    let url = format!("https://localhost:{}/.well-known/acme-challenge/a-token", server.https().port());
    let over_tls = Tool::new("curl").args(["--silent", "--insecure", "--max-time", "50", &url]).run().text();
    assert!(!over_tls.contains("thumbprint"), "{over_tls}");
    fs::remove_file(challenges.join("a-token")).unwrap();
    assert_eq!(ask("a-token", "a.example").status, 308);
}

#[test]
fn a_connection_that_validates_a_name_serves_no_request() {
    let server =
        start_without_authority(", challenge: tls-alpn-01", "\nclient_certificates: {ca: authority.crt}");
    let files = ["ec.crt", "ec.key"].map(|name| fs::read_to_string(server.directory().join(name)).unwrap());
    fs::write(server.directory().join("acme/challenges/a.example.pem"), files.concat()).unwrap();
    let address = server.https().to_string();
    for version in ["-tls1_2", "-tls1_3"] {
        let tool = Tool::new("openssl").args(["s_client", "-connect", &address, "-ign_eof", version]);
        let tool = tool.args(["-servername", "a.example", "-alpn", "acme-tls/1"]);
        let text = tool.run_with_input(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").text();
        assert!(text.contains("ALPN protocol: acme-tls/1"), "{version}: {text}");
        assert!(text.contains("CN = ec"), "{version}: {text}");
        assert!(!text.contains("HTTP/1.1"), "{version}: {text}");
    }
    let other = Tool::new("openssl").args(["s_client", "-connect", &address, "-alpn", "acme-tls/1"]);
    let other = other.args(["-servername", "b.example"]).run();
    assert!(!other.text().contains("ALPN protocol: acme-tls/1"), "{}", other.text());
}

#[test]
fn a_host_that_a_reload_adds_gets_a_certificate() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let pebble = pebble.start();
    let setup = ports.setup(&pebble.section("storage: acme"));
    let server = setup.start();
    wait_for_certificate(&server, "a.example", "");
    server.reload(&setup.sites("- {hosts: [a.example, b.example], origin: {directory: root}}"));
    let pem = wait_for_certificate(&server, "b.example", "");
    let names = Tool::new("openssl").args(["x509", "-noout", "-ext", "subjectAltName"]);
    let names = names.run_with_input(pem.as_bytes()).ok().text();
    assert!(names.contains("DNS:b.example") && !names.contains("a.example"), "{names}");
    until("both orders", || (orders(&server, "issued") == 2.0).then_some(()));
}

#[test]
fn a_certificate_is_renewed_before_it_ends() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let pebble = pebble.with_life(15).start();
    let server = ports.setup(&pebble.section("storage: acme, profile: tests")).start();
    server.tolerate_warning("is not valid now");
    // Pebble's window is the whole of such a short life.
    server.tolerate_warning("is due again just after its order");
    let first = wait_for_certificate(&server, "a.example", "");
    let second = wait_for_certificate(&server, "a.example", &first);
    assert_ne!(first, second);
}

#[test]
fn a_certificate_of_six_days_is_no_problem_before_its_last_day() {
    const DAY: u32 = 24 * 3600;
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let pebble = pebble.with_life(6 * DAY).start();
    let server = ports.setup(&pebble.section("storage: acme, profile: tests")).start();
    wait_for_certificate(&server, "a.example", "");
    let seconds = |name: &str| {
        let name = format!("penstock_certificate_{name}_timestamp_seconds");
        server.metrics().sum(&name, &["subject=\"a.example\""])
    };
    let end = until("the certificate in the metrics", || Some(seconds("expiry")).filter(|end| *end > 0.0));
    assert!((end - seconds("late") - f64::from(DAY)).abs() <= 1.0, "{end} {}", seconds("late"));
    let problems = section(&server, "problems");
    assert!(!problems.to_string().contains("a.example"), "{problems}");
}

#[test]
fn a_certificate_is_renewed_when_the_authority_wants_it() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let pebble = pebble.start();
    let mut server = ports.setup(&pebble.section("storage: acme")).start();
    let first = wait_for_certificate(&server, "a.example", "");
    pebble.suggest(&first, "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z");
    server.start_again(Signal::TERM);
    wait_for_certificate(&server, "a.example", &first);
}

#[test]
fn the_words_of_the_authority_are_in_log_status_and_metrics() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let pebble = pebble.start();
    let setup = ports.setup(&pebble.section("storage: acme"));
    let server = setup.sites("- {hosts: [blocked.example], origin: {directory: root}}").start();
    server.expect_warning("acme: no certificate for blocked.example: the CA says: ");
    until("a rejection", || (orders(&server, "rejected") >= 1.0).then_some(()));
    until("the state", || (status(&server)["names"][0]["state"] == "failing").then_some(()));
    let error = status(&server)["names"][0]["error"].to_string();
    assert!(error.contains("policy") && error.contains("rejectedIdentifier"), "{error}");
    server.wait_for_log("the next attempt is in");
}

#[test]
fn a_challenge_that_fails_is_reported_in_the_words_of_the_authority() {
    let ports = Ports::reserve();
    let elsewhere = ReservedAddress::reserve();
    let Some(pebble) = Pebble::new(elsewhere.address().port(), elsewhere.address().port()) else { return };
    let pebble = pebble.start();
    let server = ports.setup(&pebble.section("storage: acme")).start();
    server.expect_warning("acme: no certificate for a.example: the CA says: ");
    until("a rejection", || (orders(&server, "rejected") >= 1.0).then_some(()));
    let line = server.wait_for_log("the next attempt is in");
    assert!(line.contains("connection refused"), "{line}\n{}", pebble.log());
}

#[test]
fn a_name_is_proven_by_a_handshake() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let pebble = pebble.start();
    let section = pebble.section("storage: acme, challenge: tls-alpn-01");
    // The authority shows no certificate of its own.
    let server = ports.setup(&(section + "\nclient_certificates: {ca: authority.crt}")).start();
    let tool = || {
        let address = server.https().to_string();
        let tool = Tool::new("openssl").args(["s_client", "-connect", &address, "-servername", "a.example"]);
        tool.args(["-tls1_2", "-alpn", "acme-tls/1"]).run().text()
    };
    until("a certificate", || (orders(&server, "issued") == 1.0).then_some(()));
    // The answer is used for some seconds.
    until("the end of the challenge", || (!tool().contains("ALPN protocol: acme-tls/1")).then_some(()));
}

#[test]
fn a_name_is_proven_by_a_command_that_sets_a_record() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let pebble = pebble.start();
    let records = pebble.records();
    let command = records.with_file_name("set-record");
    let shown_records = records.display();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = present ] && echo \"$2 $3\" >>{shown_records}\n[ \"$1\" != cleanup ] || echo \"$2\" >>{shown_records}.gone\n"
    );
    fs::write(&command, script).unwrap();
    fs::set_permissions(&command, fs::Permissions::from_mode(0o700)).unwrap();
    let more = format!("storage: acme, challenge: dns-01, command: {}", command.display());
    let sites = "- {hosts: [\"*.a.example\"], origin: {directory: root}}";
    let server = ports.setup(&pebble.section(&more)).sites(sites).start();
    wait_for_certificate(&server, "any.a.example", "");
    let gone = PathBuf::from(format!("{shown_records}.gone"));
    let read = || fs::read_to_string(&gone).ok().filter(|text| text == "_acme-challenge.a.example\n");
    until("the record to be removed", read);
}

#[test]
fn an_account_can_belong_to_another_one() {
    const KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let pebble = pebble.demanding(("kid-1", KEY)).start();
    let key = pebble.records().with_file_name("account.key");
    fs::write(&key, KEY).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let more = format!("storage: acme, external_account: {{id: kid-1, key_file: {}}}", key.display());
    let server = ports.setup(&pebble.section(&more)).start();
    wait_for_certificate(&server, "a.example", "");
}

#[test]
fn three_edges_share_one_certificate_and_each_answers_for_the_others() {
    let first = Ports::reserve();
    let Some(pebble) = first.pebble() else { return };
    let pebble = pebble.start();
    // The authority asks the first edge, whichever orders.
    let storage = pebble.records().with_file_name("shared");
    let section = pebble.section(&format!("storage: {}", storage.display()));
    let edges: Vec<Server> =
        [&first, &Ports::reserve(), &Ports::reserve()].map(|ports| ports.setup(&section).start()).into();
    let pem = wait_for_certificate(&edges[0], "a.example", "");
    for edge in &edges {
        until("the same certificate", || (shown(edge, "a.example") == pem).then_some(()));
    }
    have_issued(&edges, 1.0);
}

#[test]
fn a_domain_is_all_that_a_small_site_needs() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let pebble = pebble.start();
    let directory = disk_directory();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("${root}")).unwrap();
    fs::write(at("${root}").join("page.txt"), "served").unwrap();
    let mut command = Command::new(program());
    command.arg("serve").arg("--root").arg(at("${root}")).arg("--storage").arg(at("acme"));
    command.args(["--domain", "a.example", "--acme-directory", &pebble.directory_url()]);
    command.arg("--acme-ca").arg(pebble.root().with_file_name("authority.crt"));
    command.args(["--listen", &ports.tls.to_string(), "--http", &ports.http.to_string()]);
    let _server =
        Process::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    let trust = pebble.root().display().to_string();
    let port = ports.tls.address().port();
    let ask = || {
        let curl = Tool::new("curl").args(["--silent", "--max-time", "50", "--cacert", &trust]);
        let curl = curl.args(["--resolve", &format!("a.example:{port}:127.0.0.1")]);
        curl.arg(format!("https://a.example:{port}/page.txt")).run().text()
    };
    until("the page", || (ask() == "served").then_some(()));
}

#[test]
fn an_account_that_the_authority_has_lost_is_made_again() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let mut pebble = pebble.start();
    let mut server = ports.setup(&pebble.section("storage: acme")).start();
    let pem = wait_for_certificate(&server, "a.example", "");
    // It forgets accounts and certificates when it ends.
    pebble.start_again();
    let stored = files_below(&server.directory().join("acme/certificates")).pop().unwrap();
    fs::remove_file(stored).unwrap();
    server.start_again(Signal::TERM);
    wait_for_certificate(&server, "a.example", &pem);
}

const LIAR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/acme/liar.py");

#[test]
fn an_authority_that_hangs_or_lies_costs_a_bounded_attempt_and_the_site_is_served() {
    let directory = disk_directory();
    Certificates::make(directory.path());
    let at = |name: &str| directory.path().join(name);
    let meet = &|how: &str, words: &str| {
        let address = ReservedAddress::reserve();
        let mut command = Command::new("python3");
        command
            .arg(LIAR)
            .arg(address.address().port().to_string())
            .arg(at("ec.crt"))
            .arg(at("ec.key"))
            .arg(how);
        let _authority = Process::spawn(&mut command).unwrap();
        until("the authority", || TcpStream::connect(address.address()).ok());
        let (ca, ports) = (at("authority.crt"), Ports::reserve());
        let section = format!(
            "acme: {{agree_to_terms: true, directory: \"https://{address}/dir\", ca_file: {}, storage: acme}}",
            ca.display()
        );
        let server = ports.setup(&section).start();
        server.expect_warning("acme: no certificate for a.example");
        let said = until("a failure", || {
            assert!(issuer(&shown(&server, "a.example")).contains("self-signed"));
            status(&server)["names"][0]["error"].as_str().map(str::to_owned)
        });
        assert!(said.contains(words) && said.len() <= 500, "{how}: {said}");
    };
    thread::scope(|scope| {
        for (how, words) in [
            ("deaf", "has not answered within 30 s"),
            ("silent", "has not answered within 30 s"),
            ("slow", "has not answered within 30 s"),
            ("endless", "has not answered within 30 s"),
            ("large", "has more than 262144 bytes"),
            ("garbage", ""),
        ] {
            scope.spawn(move || meet(how, words));
        }
    });
}

#[test]
fn a_storage_without_space_is_a_failure_of_this_machine_and_the_order_follows_once_there_is_some() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let Some(mount) = Mounted::new("256k") else { return };
    let pebble = pebble.start();
    let storage = mount.path().join("acme");
    let filler = mount.path().join("filler");
    let fill = || {
        let mut file = fs::File::create(&filler).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    };
    let setup = ports.setup(&pebble.section(&format!("storage: {}", storage.display())));
    let mut server = setup.start();
    let first = wait_for_certificate(&server, "a.example", "");
    pebble.suggest(&first, "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z");
    fill();
    server.start_again(Signal::TERM);
    let line = server.wait_for_log("acme: no certificate for a.example: acme: cannot write ");
    assert!(line.contains("No space left on device"), "{line}");
    until("a failure", || (orders(&server, "local") >= 1.0).then_some(()));
    assert_eq!(shown(&server, "a.example"), first, "the certificate that is there is served");
    let kept = fs::read_to_string(
        files_below(&storage).iter().find(|file| file.ends_with("a.example.pem")).unwrap(),
    );
    assert!(kept.unwrap().contains(first.trim()), "it is whole");
    fs::remove_file(&filler).unwrap();
    server.start_again(Signal::TERM);
    wait_for_certificate(&server, "a.example", &first);
}
