//! Servers, and what breaks them.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::Duration;

use penstock_testkit::origin::{Origin, answer};
use penstock_testkit::{
    Certificates, Client, Content, Keyserver, ReservedAddress, Server, Setup, SoftToken, memory_directory,
    until,
};
use rcgen::KeyPair;
use rustix::process::{Resource, Rlimit, Signal, prlimit};

use tempfile::TempDir;

use super::Case;
use crate::cached::disk::{Tiered, film};
use crate::cluster::{self, Cluster};
use crate::fleet::Fleet;
use crate::numbers::logs::ask_until_lines_are_dropped;
use crate::private_keys::scripted::{Script, Scripted};
use crate::private_keys::{certificates, connect, plain, use_keyservers, with_fallback};
use crate::tls_extras::ocsp::Authority;

const NEW: boring::ssl::SslVersion = boring::ssl::SslVersion::TLS1_3;
const EC: &str = "ECDSA+SHA256";

type Alerts = &'static [&'static str];

const STOPPED: Alerts = &["PenstockDown"];
const ORIGIN: Alerts = &["PenstockOriginDown", "PenstockOriginFails", "PenstockServerErrors"];
const SLOW: Alerts = &["PenstockFirstByteSlow"];
const CERTIFICATES: Alerts = &["PenstockCertificateEnds", "PenstockCertificateUnusable"];
const ORDERS: Alerts = &["PenstockOrdersFail"];
const RELOAD: Alerts = &["PenstockReloadRejected"];
const LOG: Alerts = &["PenstockAccessLogDrops"];
const DESCRIPTORS: Alerts = &["PenstockDescriptors"];
const REFUSED: Alerts = &["PenstockConnectionsRefused"];
const HANDSHAKES: Alerts = &["PenstockHandshakesFail"];
const MEMORY: Alerts = &["PenstockMemoryTierDown"];
const DISK: Alerts = &["PenstockDiskDown"];
const DAMAGED: Alerts = &["PenstockDiskDamaged"];
const STAPLE: Alerts = &["PenstockStapleEnds"];
const NODE: Alerts = &["PenstockNodeDown", "PenstockPurgesMissed"];
const STORE: Alerts = &["PenstockFleetStoreAway", "PenstockFleetPurgesWaiting"];
const MISSED: Alerts = &["PenstockFleetPurgesMissed"];
const MISSES: Alerts = &["PenstockFleetEdgePurgesMissing"];
const FULL: Alerts = &["PenstockFleetStoreFull"];
const FORGED: Alerts = &["PenstockFleetForged"];
const SECRET: Alerts = &["PenstockFleetMisconfigured"];
const KEYSERVER: Alerts = &["KeyserverDown", "PrivateKeyFallback"];
const KEYSERVER_ENDS: Alerts = &["KeyserverCertificateEnds", "PenstockCertificateEnds"];
const LIAR: Alerts = &["KeyserverLies", "PenstockHandshakesFail"];
const TOKEN: Alerts = &["HardwareModuleDown"];

/// All that fire here.
pub(super) const ALERTS: [Alerts; 25] = [
    STOPPED,
    ORIGIN,
    SLOW,
    CERTIFICATES,
    ORDERS,
    RELOAD,
    LOG,
    DESCRIPTORS,
    REFUSED,
    HANDSHAKES,
    MEMORY,
    DISK,
    NODE,
    STORE,
    MISSES,
    FULL,
    FORGED,
    SECRET,
    KEYSERVER,
    LIAR,
    TOKEN,
    DAMAGED,
    STAPLE,
    MISSED,
    KEYSERVER_ENDS,
];

/// Their servers, all well.
pub(super) fn all() -> Vec<Case> {
    let mut cases = vec![
        stopped(),
        origin_away(),
        origin_slow(),
        certificates_end(),
        orders_fail(),
        reload_rejected(),
        log_unread(),
        descriptors(),
        connections_refused(),
        handshakes_fail(),
        memory_gone(),
        disk_gone(),
        node_gone(),
        keyserver_gone(),
        keyserver_lies(),
        token_gone(),
        disk_damaged(),
        staple_ends(),
        keyserver_ends(),
    ];
    let of_stores =
        [store_gone(), edge_misses(), store_full(), purge_forged(), secret_differs(), purges_missed()];
    cases.extend(of_stores.into_iter().flatten());
    cases
}

/// A case that is broken by a function of its server.
fn case(
    name: &'static str,
    server: Server,
    alerts: Alerts,
    mut break_it: impl FnMut(&Server) + 'static,
) -> Case {
    // What a broken server says is examined by other tests.
    server.tolerate_warning("");
    Case { name, admin: server.admin(), alerts, break_it: Box::new(move || break_it(&server)) }
}

/// Posts an order to purge everything.
fn purge(server: &Server, query: &str) {
    let path = format!("/cache/purge?everything=1{query}");
    let request = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    Client::connect(server.admin()).request(request.as_str());
}

/// A server in front of an origin, with a memory tier of its own.
fn in_front_of(sites: &str) -> (Server, TempDir) {
    let memory = memory_directory();
    let cache = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display());
    (Setup::new().sites(sites).section(&cache).start(), memory)
}

fn stopped() -> Case {
    let server = Setup::new().start();
    let (name, admin) = ("stopped", server.admin());
    let mut server = Some(server);
    Case { name, admin, alerts: STOPPED, break_it: Box::new(move || drop(server.take())) }
}

fn origin_away() -> Case {
    let origin = Setup::new().start();
    let sites = format!("- origin: {{http: [\"http://{}\"]}}", origin.http());
    let (server, memory) = in_front_of(&sites);
    Client::plain(&server).get("/a");
    let mut origin = Some(origin);
    case("origin", server, ORIGIN, move |server| {
        let _kept = &memory;
        drop(origin.take());
        Client::plain(server).get("/b");
    })
}

fn origin_slow() -> Case {
    let origin = Origin::start(|_, number, stream| {
        thread::sleep(Duration::from_millis(if number == 0 { 0 } else { 1_200 }));
        answer(stream, "200 OK", "Cache-Control: no-store\r\n", b"late")
    });
    let (server, memory) = in_front_of(&origin.sites());
    Client::plain(&server).get("/a");
    case("slow", server, SLOW, move |server| {
        let _kept = &memory;
        Client::plain(server).get("/b");
    })
}

fn certificates_end() -> Case {
    let tls = format!(
        "{}\n- {{directory: certs}}",
        Certificates::yaml(&["ec"]).replace("[{", "\n- {").replace("}]", "}")
    );
    let server = Setup::new().start();
    let directory = server.directory().join("certs");
    fs::create_dir(&directory).unwrap();
    server.reload(&Setup::new().tls(&tls));
    case("certificates", server, CERTIFICATES, move |server| {
        if !directory.join("a.test.pem").exists() {
            let two_days = Duration::from_secs(2 * 24 * 3600);
            server.certificates().leaf_that_ends(
                "ec",
                &["localhost"],
                &KeyPair::generate().unwrap(),
                two_days,
            );
            fs::write(directory.join("a.test.pem"), "no certificate").unwrap();
        }
    })
}

/// An authority that cannot be reached.
fn orders_fail() -> Case {
    let nowhere = ReservedAddress::reserve();
    let acme = format!(
        "acme: {{agree_to_terms: true, directory: \"https://{nowhere}/dir\", ca_file: authority.crt, storage: acme}}"
    );
    let server = Setup::new().start();
    let mut is_broken = false;
    case("orders", server, ORDERS, move |server| {
        let _stays_closed = &nowhere;
        if !std::mem::replace(&mut is_broken, true) {
            let sites = "- {hosts: [a.example], origin: {directory: root}}";
            server.reload(&Setup::new().tls(&acme).sites(sites));
        }
    })
}

fn reload_rejected() -> Case {
    let server = Setup::new().start();
    case("reload", server, RELOAD, |server| {
        server.configure(&Setup::new().whole("workers: none"));
        server.signal(Signal::HUP);
    })
}

fn log_unread() -> Case {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let receiver = UnixDatagram::bind(&path).unwrap();
    let fields = "fields: [status, target, referer, user_agent]";
    let server = Setup::new().log(&format!("access: {{path: {}, {fields}}}", path.display())).start();
    case("log", server, LOG, move |server| {
        let _unread = (&directory, &receiver);
        ask_until_lines_are_dropped(server);
    })
}

fn descriptors() -> Case {
    case("descriptors", Setup::new().start(), DESCRIPTORS, |server| {
        let open = server.descriptors() as u64;
        let most = Some(open + open / 20 + 1);
        prlimit(Some(server.pid()), Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
    })
}

fn connections_refused() -> Case {
    let server = Setup::new().workers(1).limits("connections: 4").start();
    server.file("film.mp4", 32_000_000);
    let mut downloads = Vec::new();
    case("refused", server, REFUSED, move |server| {
        // Idle connections would be closed for others.
        while downloads.len() < 4 {
            let mut client = Client::plain(server);
            client.begin("/film.mp4");
            downloads.push(client);
        }
        TcpStream::connect(server.http()).unwrap();
    })
}

fn handshakes_fail() -> Case {
    case("handshakes", Setup::new().start(), HANDSHAKES, |server| {
        let mut client = TcpStream::connect(server.https()).unwrap();
        client.write_all(b"\x16\x03\x01\0\x04\x01\0\0\0").unwrap();
    })
}

fn memory_gone() -> Case {
    let above = memory_directory();
    let directory = above.path().join("tier");
    let origin = Origin::answering("200 OK", "Cache-Control: max-age=600\r\n", "a film");
    let cache = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", directory.display());
    let server = Setup::new().sites(&origin.sites()).section(&cache).start();
    Client::plain(&server).get("/a");
    case("memory", server, MEMORY, move |server| {
        let _above = &above;
        if directory.is_dir() {
            for file in fs::read_dir(&directory).unwrap() {
                fs::File::create(file.unwrap().path()).unwrap();
            }
            fs::remove_dir_all(&directory).unwrap();
            fs::write(&directory, "no directory").unwrap();
        }
        // What is in memory is lost, and the response that notices it is cut.
        drop(Client::plain(server).try_get("/a"));
        drop(Client::plain(server).try_get("/b"));
    })
}

fn disk_gone() -> Case {
    let body = Content::new(7, 100_000);
    let origin = film(&body);
    let tiered = Tiered::of(&origin);
    tiered.server.tolerate_warning("");
    let admin = tiered.server.admin();
    let break_it = Box::new(move || {
        let tiered = &tiered;
        // It may be gone already.
        drop(fs::remove_dir_all(tiered.disk.path()));
    });
    Case { name: "disk", admin, alerts: DISK, break_it }
}

fn disk_damaged() -> Case {
    // More than the memory tier holds.
    let body = Content::new(8, 3_000_000);
    let origin = film(&body);
    let tiered = Tiered::of(&origin);
    tiered.server.tolerate_warning("");
    tiered.have_on_disk("/film.mp4", &body);
    let admin = tiered.server.admin();
    let break_it = Box::new(move || {
        let (tiered, _origin) = (&tiered, &origin);
        for path in tiered.segments() {
            let bytes = fs::read(&path).unwrap();
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            for place in (1000..bytes.len()).step_by(40_000) {
                file.write_all_at(&[bytes[place] ^ 1], place as u64).unwrap();
            }
        }
        body.assert_range(0..body.len, &Client::plain(&tiered.server).get("/film.mp4").body);
    });
    Case { name: "damaged", admin, alerts: DAMAGED, break_it }
}

fn staple_ends() -> Case {
    let server = Setup::new().start();
    let authority = Authority::new(&server);
    authority.leaf(None);
    authority.staple_for('V', ["-ndays", "2"]);
    server.reload(
        &Setup::new().tls("certificates: [{chain: leaf.crt, key: leaf.key, ocsp: {file: staple.der}}]"),
    );
    until("the OCSP response", || {
        let end = server.metrics().sum("penstock_staple_next_update_timestamp_seconds", &[]);
        (end > 0.0).then_some(())
    });
    case("staple", server, STAPLE, move |_| authority.staple_for('V', ["-nmin", "60"]))
}

fn node_gone() -> Case {
    let origin = Origin::answering("200 OK", "Cache-Control: max-age=600\r\n", "a film");
    let mut cluster = Cluster::of(2, &origin);
    cluster.servers.iter().for_each(|server| server.tolerate_warning(""));
    let admin = cluster.servers[0].admin();
    let break_it = Box::new(move || {
        let cluster = &mut cluster;
        cluster.servers.truncate(1);
        // It says that one node has not confirmed.
        drop(cluster::purge::purge(&cluster.servers[0], &["--everything"]));
    });
    Case { name: "node", admin, alerts: NODE, break_it }
}

fn store_gone() -> Option<Case> {
    let mut fleet = Fleet::start()?;
    let server = fleet.edge("a", "");
    Some(case("store", server, STORE, move |server| {
        let fleet = &mut fleet;
        fleet.store.kill();
        purge(server, "&fleet=1");
    }))
}

/// A server that is stopped until the end of the test.
struct Stopped(Server);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.signal(Signal::CONT);
    }
}

/// An edge that sees another one miss a purge.
fn edge_misses() -> Option<Case> {
    let fleet = Fleet::start()?;
    let [one, other] = ["a", "b"].map(|name| fleet.edge(name, ""));
    other.tolerate_warning("");
    purge(&one, "&fleet=1");
    let (other, mut is_broken) = (Stopped(other), false);
    Some(case("misses", one, MISSES, move |one| {
        let _kept = &fleet;
        if !std::mem::replace(&mut is_broken, true) {
            other.0.signal(Signal::STOP);
            purge(one, "&fleet=1");
        }
    }))
}

fn store_full() -> Option<Case> {
    let fleet = Fleet::start()?;
    let server = fleet.edge("a", "");
    Some(case("full", server, FULL, move |_| {
        let fleet = &fleet;
        assert_eq!(fleet.store.command(&["CONFIG", "SET", "maxmemory", "1"]).trim(), "OK");
    }))
}

fn purge_forged() -> Option<Case> {
    let fleet = Fleet::start()?;
    let server = fleet.edge("a", "");
    purge(&server, "&fleet=1");
    let stream = fleet.store.name("penstock:*:purges");
    Some(case("forged", server, FORGED, move |_| {
        let fleet = &fleet;
        assert!(fleet.store.command(&["XADD", &stream, "*", "p", "e0"]).contains('-'));
    }))
}

fn secret_differs() -> Option<Case> {
    let fleet = Fleet::start()?;
    let server = fleet.edge("a", "");
    let key = fleet.path().join("other.key");
    fs::write(&key, "e".repeat(64)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let (store, key) = (fleet.store.address(), key.display().to_string());
    let other =
        Setup::new().section(&format!("fleet: {{valkey: \"redis://{store}\", secret: {key}, name: b}}"));
    let mut stranger = None;
    Some(case("secret", server, SECRET, move |_| {
        let _kept = &fleet;
        stranger.get_or_insert_with(|| other.start()).tolerate_warning("");
    }))
}

/// An edge that was down while the store lost purges.
fn purges_missed() -> Option<Case> {
    let fleet = Fleet::start()?;
    let [one, mut other] = ["a", "b"].map(|name| fleet.edge(name, ""));
    one.tolerate_warning("");
    other.tolerate_warning("");
    purge(&one, "&fleet=1");
    let admin = other.admin();
    let mut is_broken = false;
    let break_it = Box::new(move || {
        let fleet = &fleet;
        if std::mem::replace(&mut is_broken, true) {
            return;
        }
        other.signal(Signal::KILL);
        other.wait();
        purge(&one, "&fleet=1");
        let stream = fleet.store.name("penstock:*:purges");
        assert_eq!(fleet.store.command(&["XTRIM", &stream, "MAXLEN", "0"]), "2\n");
        other.start_again(Signal::KILL);
    });
    Some(Case { name: "missed", admin, alerts: MISSED, break_it })
}

/// A keyserver whose certificate, which is also one of the edge, ends soon.
fn keyserver_ends() -> Case {
    let server = plain().start();
    let mut keyserver = Keyserver::start(&server, "ending");
    let address = keyserver.address();
    use_keyservers(&server, &[address], &certificates(&[address], ""));
    let mut is_broken = false;
    case("ending", server, KEYSERVER_ENDS, move |server| {
        let keyserver = &mut keyserver;
        if !std::mem::replace(&mut is_broken, true) {
            let files = server.certificates();
            let key = KeyPair::from_pem(&fs::read_to_string(files.path("ec.key")).unwrap()).unwrap();
            let three_days = Duration::from_secs(3 * 24 * 3600);
            files.leaf_that_ends("ec", &["localhost", "127.0.0.1"], &key, three_days);
            // The edge connects to it by itself.
            keyserver.start_again();
        }
    })
}

fn keyserver_gone() -> Case {
    let server = plain().start();
    let mut keyserver = Keyserver::start(&server, "one");
    use_keyservers(&server, &[keyserver.address()], &with_fallback(&[keyserver.address()], ""));
    connect(&server, NEW, EC).unwrap();
    case("keyserver", server, KEYSERVER, move |server| {
        keyserver.kill();
        connect(server, NEW, EC).unwrap();
    })
}

fn keyserver_lies() -> Case {
    let server = plain().start();
    let keyserver = Scripted::start(&server, Script::Slow(Duration::ZERO));
    let address = keyserver.address.address();
    use_keyservers(&server, &[address], &certificates(&[address], ""));
    connect(&server, NEW, EC).unwrap();
    case("liar", server, LIAR, move |server| {
        keyserver.follow(Script::Wrong);
        connect(server, NEW, EC).expect_err("the signature is wrong");
    })
}

fn token_gone() -> Case {
    let server = plain().start();
    let token = SoftToken::make(server.directory());
    token.import("ec", &server.certificates().path("ec.key"));
    let tls = |object: &str| {
        let uri = SoftToken::uri(object);
        plain().tls(&format!("certificates:\n- chain: ec.crt\n  key: {{pkcs11: \"{uri}\"}}\n"))
    };
    server.reload(&tls("ec"));
    until("the token", || (server.metrics().sum("penstock_hsm_up", &[]) == 1.0).then_some(()));
    case("token", server, TOKEN, move |server| {
        // A token that another module has: the one in use stays open when its files are gone.
        server.reload(&plain().tls(&format!(
            "certificates:\n- chain: ec.crt\n  key: {{pkcs11: \"{}\"}}\n",
            SoftToken::uri("ec").replace("token=edge", "token=gone")
        )));
    })
}
