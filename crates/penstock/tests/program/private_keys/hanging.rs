//! Handshakes and downloads while a hardware module hangs.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use penstock_testkit::{Client, Content, Server, Setup, SoftToken, TlsOptions, Tool, client_hello, until};
use rustix::process::Signal;

use super::faults::{LOCAL, begin_handshake, under_way, wild};
use super::{NEW, connect, options, plain};

/// A server whose certificate `ec` has its key in SoftHSM, behind a module that can be made to hang.
struct Hanging {
    server: Server,
    film: Content,
    uri: String,
    /// While this file exists the module hangs.
    hangs: PathBuf,
    _token: SoftToken,
}

const LENGTH: u64 = 20_000_000;

impl Hanging {
    fn start() -> Self {
        let server = plain().start();
        // Larger than the buffers of a connection.
        let film = server.file("film.mp4", LENGTH);
        let module = server.directory().join("hanging.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/private_keys/hanging_module.c");
        let compiler = Tool::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&module);
        compiler.arg(source).arg(format!("-DSOFTHSM=\"{}\"", SoftToken::MODULE)).run().ok();
        let token = SoftToken::make(server.directory());
        token.import("ec", &server.certificates().path("ec.key"));
        let uri = SoftToken::uri("ec").replace(SoftToken::MODULE, module.to_str().unwrap());
        let hangs = server.directory().join("softhsm2.conf.hangs");
        Self { server, film, uri, hangs, _token: token }
    }

    /// Has the token sign with this deadline; `more` are keys of the certificate.
    fn put_in_force(&self, setup: Setup, deadline: &str, more: &str) {
        let key = format!("{{pkcs11: \"{}\", deadline: {deadline}}}", self.uri);
        let tls = format!("certificates:\n- {{chain: ec.crt, key: {key}{more}}}\n{LOCAL}");
        self.server.reload(&setup.tls(&tls));
    }

    fn until_signed(&self) {
        until("a signature", || connect(&self.server, NEW, "ECDSA+SHA256").ok());
    }

    fn hang(&self) {
        fs::write(&self.hangs, "").unwrap();
    }

    fn go_on(&self) {
        fs::remove_file(&self.hangs).unwrap();
    }

    fn operations(&self, result: &str) -> f64 {
        let label = format!("result=\"{result}\"");
        self.server.metrics().sum("penstock_hsm_operations_total", &[&label])
    }
}

#[test]
fn one_worker_goes_on_and_can_be_stopped_while_a_hardware_module_hangs() {
    let edge = Hanging::start();
    let server = &edge.server;
    edge.put_in_force(plain(), "60s", "");
    edge.until_signed();
    let signed = edge.operations("ok");
    let mut download = Client::tls_with(server, &wild());
    download.begin("/film.mp4");
    let mut body = download.body(100_000).unwrap();
    edge.hang();
    let mut waiting = begin_handshake(server);
    // A key of this machine signs meanwhile, and the download ends before the operation.
    wild().handshake(server, TcpStream::connect(server.https()).unwrap()).unwrap();
    body.extend(download.body(LENGTH - 100_000).unwrap());
    assert_eq!((under_way(server), edge.operations("ok")), (1.0, signed));
    assert!(body == edge.film.all(), "a download of other bytes");
    edge.go_on();
    let mut record = [0];
    waiting.read_exact(&mut record).unwrap();
    assert_eq!(record, [22], "a handshake record");
    // With a short deadline each handshake ends, and soon without an operation.
    edge.put_in_force(plain(), "300ms", "");
    edge.until_signed();
    server.expect_warning("failed repeatedly");
    edge.hang();
    for _ in 0..20 {
        let error = connect(server, NEW, "ECDSA+SHA256").expect_err("no key signs");
        assert!(error.contains("TLSV1_ALERT_INTERNAL_ERROR"), "{error}");
    }
    let timed_out = edge.operations("timed_out");
    assert!((1.0..20.0).contains(&timed_out), "{timed_out} of 20 waited for the deadline");
    edge.go_on();
    edge.until_signed();
    // Threads in the module keep no process from its end.
    edge.hang();
    drop(begin_handshake(server));
    server.signal(Signal::TERM);
    assert!(edge.server.wait().success());
}

#[test]
fn a_local_copy_signs_while_a_hardware_module_hangs() {
    let edge = Hanging::start();
    let server = &edge.server;
    edge.put_in_force(plain(), "300ms", ", fallback: ec.key");
    let fallbacks = || server.metrics().sum("penstock_private_key_fallbacks_total", &[]);
    until("a signature of the token", || {
        connect(server, NEW, "ECDSA+SHA256").unwrap();
        (edge.operations("ok") >= 1.0).then_some(())
    });
    server.expect_warning("local keys sign instead");
    server.expect_warning("failed repeatedly");
    let before = fallbacks();
    edge.hang();
    for _ in 0..20 {
        connect(server, NEW, "ECDSA+SHA256").unwrap();
    }
    assert_eq!(fallbacks(), before + 20.0);
    let timed_out = edge.operations("timed_out");
    assert!((1.0..20.0).contains(&timed_out), "{timed_out} of 20 waited for the deadline");
    edge.go_on();
    until("a signature of the token", || {
        let before = fallbacks();
        connect(server, NEW, "ECDSA+SHA256").unwrap();
        (fallbacks() == before).then_some(())
    });
}

#[test]
fn a_network_whose_handshakes_wait_for_a_hardware_module_leaves_places_for_others() {
    const PLACES: usize = 8;
    let edge = Hanging::start();
    let server = &edge.server;
    edge.put_in_force(plain(), "60s", "");
    edge.until_signed();
    let limits = format!("handshakes_per_network: {PLACES}, handshake_deadline: 1m");
    let behind_balancer = plain().listeners(&["tls: true, proxy_protocol: true", ""]).limits(&limits);
    edge.put_in_force(behind_balancer, "60s", "");
    edge.hang();
    let hello = client_hello(server, &options(NEW, "ECDSA+SHA256"));
    let client = |address: &str, hello: &[u8]| {
        let mut socket = TcpStream::connect(server.https()).unwrap();
        // The server may have closed it already.
        drop(
            write!(socket, "PROXY TCP4 {address} 127.0.0.1 4000 443\r\n")
                .and_then(|()| socket.write_all(hello)),
        );
        socket
    };
    let waiting: Vec<TcpStream> =
        (1..=2 * PLACES).map(|number| client(&format!("192.0.2.{number}"), &hello)).collect();
    server.counted("penstock_connections_refused_total", &["reason=\"network\""], PLACES as f64);
    until("the operations", || (under_way(server) == PLACES as f64).then_some(()));
    for number in 0..20 {
        wild().handshake(server, client(&format!("198.51.{number}.1"), &[])).unwrap();
    }
    assert_eq!(under_way(server), PLACES as f64);
    // Those that leave free their places at once, and not after the deadline.
    drop(waiting);
    until("their places", || (under_way(server) == 0.0).then_some(()));
    wild().handshake(server, client("192.0.2.1", &[])).unwrap();
    edge.go_on();
    TlsOptions::default().handshake(server, client("192.0.2.1", &[])).unwrap();
}
