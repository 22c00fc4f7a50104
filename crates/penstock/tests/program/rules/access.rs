//! By address, by page, by password.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use penstock_testkit::{Certificates, Client, Server, Tool, until};

use super::{get, server, setup};

const FORBIDDEN: u16 = 403;
const UNAUTHORIZED: u16 = 401;

/// `secret`, by `htpasswd -B`.
pub(super) const BCRYPT: &str = "$2y$05$pndtqEbds39wXEeg9OuoNO.J9uKgRcE.9BV1/g7JxkSDtjyvAGI0e";

/// `dora` with `secret`, by `htpasswd -B -C 10`.
const DEAR: &str = "dora:$2y$10$RB.nap3zP0D4w/n5SAn0Se9PN6/os0sq8CZiyj63x11k.dubRUzRO";

/// `geheim`, by `argon2`.
const ARGON2: &str =
    "$argon2id$v=19$m=8192,t=2,p=1$WHnnKTMEKaOiueLL1KxjmQ$FAeROYRi24TpC1L7JCnqsvBwqgzDAYWoPNAtFdeOdzU";

#[test]
fn addresses_outside_of_the_allowed_networks_and_within_the_denied_ones_get_403() {
    let server = server("access: {allow: [192.0.2.0/24, \"2001:db8::/32\"], deny: [192.0.2.7]}");
    server.write("a.mp4", "x");
    for (address, status) in [
        ("192.0.2.1", 200),
        ("192.0.2.7", FORBIDDEN),
        ("198.51.100.1", FORBIDDEN),
        ("2001:db8::9", 200),
        ("2001:db9::9", FORBIDDEN),
    ] {
        assert_eq!(get(&server, address, "").status, status, "{address}");
    }
    server.counted("penstock_request_rejections_total", &["reason=\"address_denied\""], 3.0);
}

#[test]
fn a_list_in_a_file_is_followed_and_rubbish_keeps_the_old_one_and_is_said_once() {
    let server = setup("").start();
    server.write("a.mp4", "x");
    let list = server.directory().join("bad.txt");
    fs::write(&list, "192.0.2.1\n").unwrap();
    server.reload(&setup("access: {deny: [bad.txt]}"));
    let status = |address: &str| get(&server, address, "").status;
    assert_eq!((status("192.0.2.1"), status("192.0.2.2")), (FORBIDDEN, 200));
    fs::write(&list, "192.0.2.2 # another\n").unwrap();
    until("the other list", || (status("192.0.2.2") == FORBIDDEN).then_some(()));
    assert_eq!(status("192.0.2.1"), 200);
    server.expect_warning("bad.txt line 1 is no address or network: `rubbish`");
    fs::write(&list, "rubbish\n").unwrap();
    until("the warning", || {
        assert_eq!((status("192.0.2.1"), status("192.0.2.2")), (200, FORBIDDEN));
        server.log().iter().any(|line| line.contains("rubbish")).then_some(())
    });
    fs::write(&list, "192.0.2.1\n").unwrap();
    until("the third list", || (status("192.0.2.1") == FORBIDDEN).then_some(()));
    server.logs("rubbish", 1);
    assert_eq!(status("192.0.2.2"), 200);
}

#[test]
fn addresses_of_other_countries_and_unknown_ones_get_403_as_the_lists_say() {
    let server = setup("").start();
    server.write("a.mp4", "x");
    // Made by `mmdb_writer`: 192.0.2.0/24 is DE, 198.51.100.0/24 and 2001:db8:1::/48 XX, 2001:db8::/48 FR.
    fs::write(server.directory().join("geo.mmdb"), include_bytes!("countries.mmdb")).unwrap();
    for (rules, allowed) in [
        ("deny: [xx]", [true, false, true, false, true]),
        ("allow: [DE, FR]", [true, false, true, false, false]),
        ("allow: [DE, XX], deny: [XX]", [true, false, false, false, false]),
    ] {
        server.reload(&setup(&format!("access: {{countries: {{file: geo.mmdb, {rules}}}}}")));
        let addresses = ["192.0.2.9", "198.51.100.9", "2001:db8::9", "2001:db8:1::9", "203.0.113.1"];
        let statuses = addresses.map(|address| get(&server, address, "").status);
        assert_eq!(statuses, allowed.map(|allowed| if allowed { 200 } else { FORBIDDEN }), "{rules}");
    }
    server.counted("penstock_request_rejections_total", &["reason=\"country_denied\""], 9.0);
}

#[test]
fn only_clients_with_a_listed_certificate_may_use_the_site() {
    let server = setup("").start();
    server.write("a.mp4", "x");
    for name in ["player", "a.edge.example", "other.example"] {
        server.certificates().leaf(name, &[name], &rcgen::KeyPair::generate().unwrap());
    }
    let tls = "client_certificates: {ca: authority.crt, mode: optional}";
    let rules = setup("access: {certificates: [player, \"*.edge.example\"]}");
    server.reload(&rules.tls(&format!("{}\n{tls}", Certificates::yaml(&["ec"]))));
    let status = |arguments: &[&str]| {
        let curl = Tool::curl(&server).args(["-o", "/dev/null", "-w", "%{http_code}"]).args(arguments);
        curl.arg(server.url("/a.mp4")).directory(server.directory()).run().ok().text()
    };
    for version in ["--http1.1", "--http2"] {
        for (name, expected) in [("player", "200"), ("a.edge.example", "200"), ("other.example", "403")] {
            let (certificate, key) = (format!("{name}.crt"), format!("{name}.key"));
            assert_eq!(status(&[version, "--cert", &certificate, "--key", &key]), expected, "{name}");
        }
        assert_eq!(status(&[version]), "403");
    }
    assert_eq!(get(&server, "192.0.2.1", "").status, FORBIDDEN);
}

#[test]
fn only_pages_of_the_listed_hosts_may_use_the_site() {
    let server = server("access: {referers: [player.example, \"*.cdn.example\"]}");
    server.write("a.mp4", "x");
    let url = server.url("/a.mp4");
    let status = |arguments: &[&str]| {
        let curl = Tool::curl(&server).args(["-o", "/dev/null", "-w", "%{http_code}"]).args(arguments);
        curl.arg(&url).run().ok().text()
    };
    assert_eq!(status(&["-e", "https://player.example/watch"]), "200");
    assert_eq!(status(&["-e", "https://a.b.cdn.example/"]), "200");
    for wrong in
        [&["-e", "https://other.example/"][..], &[], &["-e", "https://player.example.other.example/"]]
    {
        assert_eq!(status(wrong), "403", "{wrong:?}");
    }
}

/// A site of files for the users of a file.
fn with_users() -> Server {
    let server = setup("").start();
    server.write("a.mp4", "x");
    users(&server, &format!("anna:{BCRYPT}\nbert:{ARGON2}\n"));
    server.reload(&setup("access: {basic: {file: users, realm: Films}}"));
    server
}

fn users(server: &Server, text: &str) {
    let file = server.directory().join("users");
    fs::write(&file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn users_with_their_password_are_served_by_both_versions_and_others_are_asked_for_it() {
    let server = with_users();
    let url = server.url("/a.mp4");
    let status = |arguments: &[&str]| {
        let curl = Tool::curl(&server).args(["-o", "/dev/null", "-w", "%{http_code}"]).args(arguments);
        curl.arg(&url).run().ok().text()
    };
    for version in ["--http1.1", "--http2"] {
        for (user, expected) in [
            ("anna:secret", "200"),
            ("bert:geheim", "200"),
            ("anna:geheim", "401"),
            ("anna:", "401"),
            ("carl:secret", "401"),
        ] {
            assert_eq!(status(&[version, "-u", user]), expected, "{version} {user}");
            // What was right is remembered, what was wrong is not taken.
            assert_eq!(status(&[version, "-u", user]), expected, "{version} {user}");
        }
        assert_eq!(status(&[version]), "401");
    }
    let response = Client::tls(&server).get("/a.mp4");
    assert_eq!(response.status, UNAUTHORIZED);
    assert_eq!(response.field("www-authenticate"), Some("Basic realm=\"Films\", charset=\"UTF-8\""));
}

#[test]
fn a_password_that_is_taken_out_of_the_file_is_no_longer_right() {
    let server = with_users();
    let url = server.url("/a.mp4");
    let status = |user: &str| {
        let curl = Tool::curl(&server).args(["-o", "/dev/null", "-w", "%{http_code}", "-u", user]);
        curl.arg(&url).run().ok().text()
    };
    assert_eq!(status("anna:secret"), "200");
    users(&server, &format!("anna:{ARGON2}\n"));
    until("the other password", || (status("anna:secret") == "401").then_some(()));
    assert_eq!((status("anna:geheim").as_str(), status("bert:geheim").as_str()), ("200", "401"));
    let shown = server.log().join("\n") + &format!("{:?}", server.access_log());
    assert!(!shown.contains("secret") && !shown.contains("YW5uYT"), "{shown}");
}

#[test]
fn many_wrong_passwords_are_refused_without_work_and_files_are_served_meanwhile() {
    let server = with_users();
    // Dear enough that requests come faster than they are verified.
    users(&server, &format!("{DEAR}\n"));
    server.reload(&setup("access: {basic: {file: users}}"));
    let mut clients: Vec<Client<_>> = (0..80).map(|_| Client::tls(&server)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let user = base64_of(&format!("dora:wrong{number}"));
        client.send(format!("GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {user}\r\n\r\n"));
    }
    let statuses: Vec<u16> = clients.iter_mut().map(|client| client.response().unwrap().status).collect();
    assert!(statuses.iter().all(|status| [UNAUTHORIZED, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&UNAUTHORIZED) && statuses.contains(&503), "{statuses:?}");
    let user = base64_of("dora:secret");
    until("the right password", || {
        let response = Client::tls(&server).get_with("/a.mp4", &format!("Authorization: Basic {user}\r\n"));
        (response.status == 200).then_some(())
    });
}

fn base64_of(text: &str) -> String {
    boring::base64::encode_block(text.as_bytes())
}
