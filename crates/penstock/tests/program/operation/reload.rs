//! SIGHUP: another configuration, and no connection lost.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use penstock_testkit::{Certificates, Client, Server, Setup, TlsOptions, TlsStream, until, unused_address};
use rcgen::KeyPair;
use rustix::process::Signal;

use super::{LARGE, downloading, finish, text_of};

fn server(setup: &Setup) -> Server {
    let server = setup.start();
    server.write("a.txt", "a\n");
    server
}

fn reloads(server: &Server, outcome: &str) -> f64 {
    server.metrics().sum("penstock_reloads_total", &[&format!("outcome=\"{outcome}\"")])
}

/// Puts the configuration on disk in force, and waits until it is.
fn reload(server: &Server) {
    let before = reloads(server, "applied");
    server.signal(Signal::HUP);
    until("the reload", || (reloads(server, "applied") > before).then_some(()));
}

/// Has the server refuse the configuration on disk, and gives what it said.
fn refused_reload(server: &Server, setup: &Setup, faults: &[&str]) {
    server.configure(setup);
    faults.iter().for_each(|fault| server.expect_warning(fault));
    server.expect_warning("kept the running configuration");
    let before = reloads(server, "rejected");
    server.signal(Signal::HUP);
    until("the reload to be refused", || (reloads(server, "rejected") > before).then_some(()));
    for fault in faults {
        server.wait_for_log(fault);
    }
}

fn subject<S: Read + Write>(client: &Client<TlsStream<S>>) -> String {
    let certificate = client.stream.facts().peer_certificate().unwrap();
    let name = certificate.subject_name().entries().next().unwrap();
    name.data().as_utf8().unwrap().to_string()
}

#[test]
fn a_new_certificate_is_shown_to_new_clients_while_an_old_download_goes_on() {
    let setup = Setup::new().tls(&Certificates::yaml(&["ec"]));
    let server = server(&setup);
    let file = server.file("large.mp4", LARGE);
    let mut old = downloading(Client::tls(&server));
    let mut idle = Client::tls(&server);
    assert_eq!((subject(&old).as_str(), subject(&idle).as_str()), ("ec", "ec"));
    // The server follows the files by itself, too, and may look between the two.
    server.tolerate_warning("ec.crt: the private key does not belong");
    // In place, as a renewal does it; then a switch to another file.
    server.certificates().leaf("renewed", &["localhost"], &KeyPair::generate().unwrap());
    for kind in ["crt", "key"] {
        let path = |name: &str| server.certificates().path(&format!("{name}.{kind}"));
        fs::copy(path("renewed"), path("ec")).unwrap();
    }
    reload(&server);
    until("the renewed certificate", || (subject(&Client::tls(&server)) == "renewed").then_some(()));
    server.configure(&setup.tls(&Certificates::yaml(&["rsa"])));
    reload(&server);
    until("the other certificate", || (subject(&Client::tls(&server)) == "rsa").then_some(()));
    assert_eq!(idle.get("/a.txt").text(), "a\n");
    file.assert_range(0..LARGE, &finish(&mut old));
    assert_eq!(old.get("/a.txt").text(), "a\n");
}

#[test]
fn a_new_site_answers_on_connections_that_are_open_already() {
    let setup = Setup::new().sites("- {hosts: [localhost], origin: {directory: root}}");
    let server = server(&setup);
    fs::create_dir(server.directory().join("second")).unwrap();
    fs::write(server.directory().join("second/b.txt"), "b\n").unwrap();
    let request = "GET /b.txt HTTP/1.1\r\nHost: new.example\r\n\r\n";
    let (mut plain, mut tls) = (Client::plain(&server), Client::tls(&server));
    assert_eq!(plain.request(request).status, 421);
    assert_eq!(tls.request(request).status, 421);
    let sites = "- {hosts: [localhost], origin: {directory: root}}\n\
                 - {hosts: [new.example], origin: {directory: second}, headers: {cors: \"*\"}}";
    server.configure(&setup.clone().sites(sites));
    reload(&server);
    for client in [&mut plain.boxed(), &mut tls.boxed()] {
        until("the new site", || (client.request(request).status == 200).then_some(()));
        assert_eq!(client.request(request).field("Access-Control-Allow-Origin"), Some("*"));
        assert_eq!(client.get("/a.txt").text(), "a\n");
    }
    // And gone again.
    server.configure(&setup);
    reload(&server);
    until("the site to be gone", || {
        let mut client = Client::plain(&server);
        (client.request(request).status == 421).then_some(())
    });
}

#[test]
fn listeners_come_and_go_and_their_connections_stay() {
    let setup = Setup::new().listeners(&["tls: true", ""]);
    let server = server(&setup);
    let file = server.file("large.mp4", LARGE);
    let added = unused_address();
    let more = setup.clone().listeners(&["tls: true", "", &format!("address: {added}")]);
    server.configure(&more);
    reload(&server);
    until("the added listener", || TcpStream::connect(added).ok().map(drop));
    let mut kept = Client::connect(added);
    assert_eq!(kept.get("/a.txt").text(), "a\n");
    let mut running = downloading(Client::connect(added));
    server.configure(&setup);
    reload(&server);
    until("the removed listener to refuse", || TcpStream::connect(added).err().map(drop));
    assert_eq!(kept.get("/a.txt").text(), "a\n");
    file.assert_range(0..LARGE, &finish(&mut running));
    assert_eq!(Client::plain(&server).get("/a.txt").text(), "a\n");
    assert_eq!(Client::tls(&server).get("/a.txt").text(), "a\n");
    // Both at once, and the port is taken up again.
    server.configure(&setup.listeners(&["tls: true", &format!("address: {added}, tls: true")]));
    let plain = server.http();
    reload(&server);
    until("the plain listener to refuse", || TcpStream::connect(plain).err().map(drop));
    until("the added listener to speak TLS", || {
        let socket = TcpStream::connect(added).ok()?;
        let stream = TlsOptions::default().handshake(&server, socket).ok()?;
        (Client::over(stream).get("/a.txt").text() == "a\n").then_some(())
    });
}

#[test]
fn an_address_may_change_between_one_interface_and_all() {
    let address = unused_address();
    let with =
        |ip: &str| Setup::new().listeners(&["tls: true", &format!("address: {ip}:{}", address.port())]);
    let server = server(&with("127.0.0.1"));
    for ip in ["0.0.0.0", "127.0.0.1"] {
        let mut kept = Client::connect(address);
        assert_eq!(kept.get("/a.txt").text(), "a\n");
        server.configure(&with(ip));
        reload(&server);
        assert_eq!(kept.get("/a.txt").text(), "a\n", "an old connection, now {ip}");
        until("a new connection to be served", || {
            let mut client = Client::connect(address);
            client.stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
            (client.response().ok()?.text() == "a\n").then_some(())
        });
    }
}

#[test]
fn listeners_that_are_written_alike_all_stay() {
    // Two ports of the system's choice: the harness replaces such an address of 127.0.0.1.
    let alike = "address: 127.0.0.2:0";
    let setup = Setup::new().listeners(&["tls: true", alike, alike]);
    let server = server(&setup);
    for _ in 0..3 {
        reload(&server);
        for place in 0..3 {
            until("every listener to answer", || TcpStream::connect(server.listener(place)).ok().map(drop));
        }
        assert_eq!(Client::connect(server.listener(1)).get("/a.txt").text(), "a\n");
        assert_eq!(Client::connect(server.listener(2)).get("/a.txt").text(), "a\n");
    }
}

#[test]
fn another_option_of_a_listener_loses_no_connection() {
    let address = unused_address();
    let with = |backlog: u32| {
        Setup::new().listeners(&["tls: true", &format!("address: {address}, backlog: {backlog}")])
    };
    let server = server(&with(1000));
    let mut kept = Client::connect(address);
    for backlog in 1001..1006 {
        server.configure(&with(backlog));
        reload(&server);
        assert_eq!(kept.get("/a.txt").text(), "a\n");
        assert_eq!(Client::connect(address).get("/a.txt").text(), "a\n");
    }
}

#[test]
fn changed_limits_hold_for_the_next_request_of_every_connection() {
    let setup = Setup::new();
    let server = server(&setup);
    let long = format!("X: {}\r\n", "x".repeat(2000));
    let (mut plain, mut tls) = (Client::plain(&server), Client::tls(&server));
    assert_eq!(plain.get_with("/a.txt", &long).status, 200);
    assert_eq!(tls.get_with("/a.txt", &long).status, 200);
    server.configure(&setup.limits("head_bytes: 1KiB, target_bytes: 100, idle_timeout: 1s"));
    reload(&server);
    for client in [&mut plain.boxed(), &mut tls.boxed()] {
        // The deadline of an idle connection that waits already is the old one, so it has to ask once.
        assert_eq!(client.get("/a.txt").text(), "a\n");
        assert_eq!(client.get_with("/a.txt", &long).status, 431);
        client.assert_closed();
    }
    let mut idle = Client::tls(&server);
    assert_eq!(idle.get(&format!("/a.txt?{}", "q".repeat(200))).status, 414);
    let mut idle = Client::tls(&server);
    assert_eq!(idle.get("/a.txt").text(), "a\n");
    idle.assert_closed();
}

#[test]
fn a_configuration_with_faults_changes_nothing_and_each_fault_is_said() {
    let setup = Setup::new();
    let server = server(&setup);
    let file = server.file("large.mp4", LARGE);
    let mut running = downloading(Client::tls(&server));
    let text = text_of(&setup);
    let broken = text.replace("workers:", "worker:").replace("connections:", "conections:");
    refused_reload(
        &server,
        &setup.clone().whole(&broken),
        &[
            "penstock.yaml:1: unknown key `worker`; write `workers`",
            "unknown key `conections`; write `connections`",
        ],
    );
    // A key that belongs to another certificate: halfway through a renewal.
    let halfway = text.replace("key: ec.key", "key: other.key");
    refused_reload(&server, &setup.clone().whole(&halfway), &["other.key"]);
    let no_root = text.replace("{directory: root}", "{directory: nowhere}");
    refused_reload(&server, &setup.clone().whole(&no_root), &["nowhere"]);
    refused_reload(&server, &setup.clone().whole("listeners: ["), &["penstock.yaml:"]);
    assert_eq!(Client::plain(&server).get("/a.txt").text(), "a\n");
    assert_eq!(subject(&Client::tls(&server)), "ec");
    file.assert_range(0..LARGE, &finish(&mut running));
    server.configure(&setup);
    reload(&server);
    assert_eq!(Client::tls(&server).get("/a.txt").text(), "a\n");
}

#[test]
fn a_reload_that_fails_halfway_leaves_listeners_and_logs_as_they_were() {
    let setup = Setup::new();
    let server = server(&setup);
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = stranger.local_addr().unwrap();
    let added = unused_address();
    // Everything but the last listener would work: another log, a listener more, one less.
    let listeners = ["tls: true", &format!("address: {added}"), &format!("address: {taken}")];
    let text = text_of(&setup.clone().listeners(&listeners)).replace("access.jsonl", "other.jsonl");
    let mut kept = Client::plain(&server);
    assert_eq!(kept.get("/a.txt?1").text(), "a\n");
    let descriptors = server.descriptors();
    for _ in 0..3 {
        refused_reload(&server, &setup.clone().whole(&text), &[&format!("cannot listen on {taken}")]);
    }
    assert_eq!(kept.get("/a.txt?2").text(), "a\n");
    drop(kept);
    assert!(TcpStream::connect(added).is_err(), "a listener of the refused configuration is open");
    assert_eq!(Client::plain(&server).get("/a.txt?3").text(), "a\n");
    for target in ["/a.txt?1", "/a.txt?2", "/a.txt?3"] {
        server.logged(target);
    }
    assert_eq!(server.metrics().sum("penstock_access_log_dropped_total", &[]), 0.0);
    // The file in the memo of the other worker, and what its listeners keep in reserve, may have come on top.
    until("the descriptors to be given back", || (server.descriptors() <= descriptors + 3).then_some(()));
}

#[test]
fn the_access_log_is_reopened_after_a_rotation_and_loses_nothing() {
    const EACH: usize = 200;
    let setup = Setup::new();
    let server = server(&setup);
    let log = server.directory().join("access.jsonl");
    let mut client = Client::plain(&server);
    for round in 0..3 {
        for number in 0..EACH {
            client.get(&format!("/a.txt?{round}-{number}"));
        }
        fs::rename(&log, server.directory().join(format!("access.{round}"))).unwrap();
        reload(&server);
        until("the new file", || log.exists().then_some(()));
    }
    client.get("/a.txt?last");
    server.logged("/a.txt?last");
    let lines = |name: &str| fs::read_to_string(server.directory().join(name)).unwrap().lines().count();
    let all: usize = ["access.0", "access.1", "access.2", "access.jsonl"].map(lines).iter().sum();
    assert_eq!(all, 3 * EACH + 1);
    assert!(["access.0", "access.1", "access.2"].iter().all(|name| lines(name) > 0), "a file was never used");
}

#[test]
fn the_access_log_can_move_begin_and_end() {
    let setup = Setup::new();
    let server = server(&setup);
    let mut client = Client::tls(&server);
    client.get("/a.txt?old");
    let (on, off) = (text_of(&setup), text_of(&setup).replace("log: {access: access.jsonl}\n", ""));
    server.configure(&setup.clone().whole(&on.replace("access.jsonl", "moved.jsonl")));
    reload(&server);
    let moved = || fs::read_to_string(server.directory().join("moved.jsonl")).unwrap();
    until("a line in the moved log", || {
        client.get("/a.txt?moved");
        moved().contains("/a.txt?moved").then_some(())
    });
    server.configure(&setup.clone().whole(&off));
    reload(&server);
    until("requests to leave no line", || {
        let before = moved();
        client.get("/a.txt?off");
        client.get("/a.txt?off");
        (moved() == before).then_some(())
    });
    server.configure(&setup);
    reload(&server);
    until("a line in the first log", || {
        client.get("/a.txt?on");
        server.access_log().iter().any(|line| line["target"] == "/a.txt?on").then_some(())
    });
    assert!(server.access_log().iter().any(|line| line["target"] == "/a.txt?old"));
    assert!(!moved().contains("/a.txt?on"));
}

#[test]
fn many_reloads_in_a_row_leave_nothing_behind() {
    let setup = Setup::new();
    let server = server(&setup);
    let mut kept = Client::tls(&server);
    assert_eq!(kept.get("/a.txt").text(), "a\n");
    assert_eq!(Client::plain(&server).get("/a.txt").text(), "a\n");
    reload(&server);
    let (descriptors, memory) = (server.descriptors(), server.memory());
    for number in 0..50 {
        server.configure(&setup.clone().limits(&format!("head_fields: {}", 50 + number)));
        reload(&server);
        assert_eq!(kept.get("/a.txt").text(), "a\n");
    }
    // Signals that come faster than they are obeyed.
    for _ in 0..50 {
        server.signal(Signal::HUP);
    }
    assert_eq!(kept.get("/a.txt").text(), "a\n");
    until("the descriptors to be given back", || (server.descriptors() <= descriptors + 2).then_some(()));
    let grown = server.memory().saturating_sub(memory);
    // Certificates, keys and contexts of 100 configurations would be more.
    assert!(grown < 8 << 20, "50 reloads took {grown} bytes");
}

#[test]
fn workers_change_only_with_a_restart_and_the_server_says_so() {
    let setup = Setup::new();
    let server = server(&setup);
    server.expect_warning("workers and affinity change only with a restart");
    server.configure(&setup.workers(1));
    reload(&server);
    server.wait_for_log("workers and affinity change only with a restart");
    assert_eq!(Client::tls(&server).get("/a.txt").text(), "a\n");
}
