//! Encrypted ClientHellos (RFC 9849), with BoringSSL as the client.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use boring::nid::Nid;
use boring::ssl::{HandshakeError, Ssl, SslContext, SslMethod, SslStream, SslVerifyMode};
use penstock_testkit::{Certificates, Client, Server, Setup, Tool, until};
use rustix::process::Signal;

/// The name that goes over the wire in the clear; `other` is the certificate for it.
const PUBLIC: &str = "other.example";

/// Runs `penstock ech new` and gives what the printed record says.
fn new_key(directory: &Path) -> Vec<u8> {
    let tool = Tool::penstock().args(["ech", "new", "--public-name", PUBLIC]);
    let printed = tool.arg(directory).run().ok().text();
    let list = printed.trim_end().strip_prefix("HTTPS 1 . alpn=h2,http/1.1 ech=");
    boring::base64::decode_block(list.unwrap_or_else(|| panic!("{printed}"))).unwrap()
}

fn keys_of(server: &Server) -> PathBuf {
    let directory = server.directory().join("ech");
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn start() -> Server {
    let server = Setup::new().start();
    keys_of(&server);
    server
}

fn turn_on(server: &Server) {
    let applied = || server.metrics().sum("penstock_reloads_total", &["outcome=\"applied\""]);
    let before = applied();
    let certificates = Certificates::yaml(&["ec", "other"]);
    server.configure(&Setup::new().tls(&format!("{certificates}\nech: {{directory: ech}}")));
    server.signal(Signal::HUP);
    until("the reload", || (applied() > before).then_some(()));
}

/// Asks for `localhost`, encrypted to this; or gives what the server says to use instead.
fn shake(server: &Server, list: Option<&[u8]>) -> Result<SslStream<TcpStream>, Option<Vec<u8>>> {
    let mut context = SslContext::builder(SslMethod::tls()).unwrap();
    context.set_ca_file(server.certificates().authority()).unwrap();
    context.set_verify(SslVerifyMode::PEER);
    let mut ssl = Ssl::new(&context.build()).unwrap();
    ssl.set_hostname("localhost").unwrap();
    match list {
        Some(list) => ssl.set_ech_config_list(list).unwrap(),
        None => ssl.set_enable_ech_grease(true),
    }
    match ssl.connect(Client::connect(server.https()).stream) {
        Ok(stream) => Ok(stream),
        Err(HandshakeError::Failure(failed)) => {
            let ssl = failed.ssl();
            assert_eq!(ssl.get_ech_name_override(), Some(PUBLIC.as_bytes()), "{}", failed.error());
            Err(ssl.get_ech_retry_configs().map(<[u8]>::to_vec))
        }
        Err(other) => panic!("{other}"),
    }
}

fn subject(stream: &SslStream<TcpStream>) -> String {
    let certificate = stream.ssl().peer_certificate().unwrap();
    let name = certificate.subject_name().entries_by_nid(Nid::COMMONNAME).next().unwrap();
    name.data().as_utf8().unwrap().to_string()
}

fn counted(server: &Server, outcome: &str) -> f64 {
    server.metrics().sum("penstock_ech_handshakes_total", &[&format!("outcome=\"{outcome}\"")])
}

#[test]
fn an_encrypted_hello_is_opened_and_its_own_name_chooses_the_certificate() {
    let server = start();
    let list = new_key(&keys_of(&server));
    turn_on(&server);
    let stream = shake(&server, Some(&list)).unwrap();
    assert!(stream.ssl().ech_accepted());
    assert_eq!(subject(&stream), "ec", "not the certificate of the public name");
    until("the handshake to be counted", || (counted(&server, "accepted") == 1.0).then_some(()));
    // Noise that looks like it is answered as if it were none.
    let stream = shake(&server, None).unwrap();
    assert!(!stream.ssl().ech_accepted());
    until("the noise to be counted", || (counted(&server, "rejected") == 1.0).then_some(()));
    Tool::s_client(&server).run().ok();
    until("the plain one to be counted", || (counted(&server, "not_offered") == 1.0).then_some(()));
}

#[test]
fn a_client_with_a_wrong_key_is_told_the_right_one() {
    let server = start();
    let elsewhere = penstock_testkit::disk_directory();
    let wrong = new_key(elsewhere.path());
    let right = new_key(&keys_of(&server));
    turn_on(&server);
    let retry = shake(&server, Some(&wrong)).unwrap_err().expect("retry configs");
    assert_eq!(retry, right);
    assert!(shake(&server, Some(&retry)).unwrap().ssl().ech_accepted());
}

#[test]
fn keys_come_and_go_without_a_reload_and_the_newest_is_the_one_told() {
    let server = start();
    let directory = keys_of(&server);
    server.expect_warning("there is no ECH key in");
    turn_on(&server);
    let elsewhere = penstock_testkit::disk_directory();
    let wrong = new_key(elsewhere.path());
    let told = || shake(&server, Some(&wrong)).err().flatten();
    assert_eq!(told(), None, "no key, no retry configs");
    let first = new_key(&directory);
    until("the first key", || (told().as_ref() == Some(&first)).then_some(()));
    let second = new_key(&directory);
    until("the second key", || (told().as_ref() == Some(&second)).then_some(()));
    for list in [&first, &second] {
        assert!(shake(&server, Some(list)).unwrap().ssl().ech_accepted());
    }
    server.expect_warning("garbage.pem is no ECH key");
    fs::write(directory.join("garbage.pem"), "garbage").unwrap();
    let files = |state: &str| server.metrics().sum("penstock_ech_key_files", &[state]);
    until("the garbage to be counted", || (files("state=\"ignored\"") == 1.0).then_some(()));
    assert_eq!(files("state=\"used\""), 2.0);
    assert!(shake(&server, Some(&second)).unwrap().ssl().ech_accepted());
}

#[test]
fn a_new_key_is_for_its_owner_only_and_wrong_names_are_refused() {
    let directory = penstock_testkit::disk_directory();
    new_key(directory.path());
    let files: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    let mode = files[0].metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let pem = fs::read_to_string(&files[0]).unwrap();
    assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----") && pem.contains("-----BEGIN ECHCONFIG-----"));
    Tool::new("openssl").args(["pkey", "-noout", "-in"]).arg(&files[0]).run().ok();
    let program = Tool::penstock();
    let refused = program.args(["ech", "new", "--public-name", "not a name"]).arg(directory.path()).run();
    let refused = refused.exits_with(1);
    assert!(refused.stderr.contains("the public name is not a host name"), "{}", refused.stderr);
}
