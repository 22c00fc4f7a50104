//! Certificates from directories, and files that change under a running server.

use std::fs;
use std::path::{Path, PathBuf};

use penstock_testkit::{Certificates, Server, Setup, Tool, rsa_key, until};
use rcgen::KeyPair;

use super::{connect, shown};

/// The certificates `ec` and `rsa` as the default, and a directory.
fn tls() -> String {
    format!(
        "{}\n- {{directory: certs}}",
        Certificates::yaml(&["ec"]).replace("[{", "\n- {").replace("}]", "}")
    )
}

/// A server with an empty directory of certificates, filled before they are read.
fn server_with(fill: impl Fn(&Server, &Path)) -> Server {
    let server = Setup::new().start();
    let directory = directory(&server);
    fs::create_dir(&directory).unwrap();
    fill(&server, &directory);
    server.reload(&Setup::new().tls(&tls()));
    server
}

fn directory(server: &Server) -> PathBuf {
    server.directory().join("certs")
}

/// A chain and its key, as PEM.
fn pair(server: &Server, name: &str, host: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    (server.certificates().pem(name, &[host], &key), key.serialize_pem())
}

fn write_pair(server: &Server, [chain_at, key_at]: [PathBuf; 2], name: &str, host: &str) {
    let (chain, key) = pair(server, name, host);
    fs::create_dir_all(chain_at.parent().unwrap()).unwrap();
    fs::write(chain_at, chain).unwrap();
    fs::write(key_at, key).unwrap();
}

/// Puts one file with chain and key in place, whole from its first moment.
fn place_combined(server: &Server, at: &Path, name: &str, host: &str) {
    let (chain, key) = pair(server, name, host);
    place(server, at, chain + &key);
}

/// Puts a file in place, whole from its first moment: a server that looked at half of it would rightly complain.
fn place(server: &Server, at: &Path, text: String) {
    let aside = server.directory().join("aside");
    fs::write(&aside, text).unwrap();
    fs::rename(aside, at).unwrap();
}

/// The common name that a client of this host is shown.
fn for_host(server: &Server, host: &str) -> String {
    shown(server, &["-servername", host])
}

fn faults(server: &Server, reason: &str) -> f64 {
    server.metrics().sum("penstock_certificate_faults", &[&format!("reason=\"{reason}\"")])
}

#[test]
fn a_directory_offers_what_certbot_haproxy_lego_and_mkcert_put_into_it() {
    let server = server_with(|server, certs| {
        let at = |one: &str, other: &str| [certs.join(one), certs.join(other)];
        write_pair(server, at("live/a.test/fullchain.pem", "live/a.test/privkey.pem"), "certbot", "a.test");
        fs::write(certs.join("live/a.test/cert.pem"), "says nothing new").unwrap();
        fs::write(certs.join("live/README"), "of certbot").unwrap();
        write_pair(server, at("b.test.crt", "b.test.key"), "lego", "b.test");
        write_pair(server, at("d.test.pem", "d.test-key.pem"), "mkcert", "*.d.test");
        let (chain, key) = pair(server, "haproxy", "c.test");
        fs::write(certs.join("c.test.pem"), format!("{chain}{key}")).unwrap();
        fs::write(certs.join("e.test.ecdsa"), {
            let (chain, key) = pair(server, "haproxy-ecdsa", "e.test");
            key + &chain
        })
        .unwrap();
        let rsa = KeyPair::from_pem(rsa_key()).unwrap();
        let chain = server.certificates().pem("haproxy-rsa", &["e.test"], &rsa);
        fs::write(certs.join("e.test.rsa"), chain + &rsa.serialize_pem()).unwrap();
        fs::write(certs.join("notes.txt"), "not a certificate").unwrap();
    });
    for (host, certificate) in [
        ("a.test", "certbot"),
        ("b.test", "lego"),
        ("c.test", "haproxy"),
        ("any.d.test", "mkcert"),
        ("e.test", "haproxy-ecdsa"),
        ("localhost", "ec"),
        ("unknown.test", "ec"),
    ] {
        assert_eq!(for_host(&server, host), certificate, "{host}");
    }
    let rsa = ["-servername", "e.test", "-sigalgs", "RSA-PSS+SHA256"];
    assert_eq!(shown(&server, &rsa), "haproxy-rsa");
    assert_eq!(server.metrics().sum("penstock_certificates", &[]), 7.0);
    assert_eq!(server.metrics().sum("penstock_certificate_faults", &[]), 0.0);
}

#[test]
fn the_first_clients_of_a_name_wait_together_until_its_certificate_is_read() {
    let server = server_with(|server, certs| {
        for number in 0..20 {
            let at = |end: &str| certs.join(format!("{number}.{end}"));
            write_pair(
                server,
                [at("crt"), at("key")],
                &format!("number-{number}"),
                &format!("{number}.test"),
            );
        }
    });
    let server = &server;
    std::thread::scope(|scope| {
        for client in 0..40 {
            scope.spawn(move || {
                let number = client % 20;
                assert_eq!(for_host(server, &format!("{number}.test")), format!("number-{number}"));
            });
        }
    });
}

#[test]
fn certificates_added_renewed_or_removed_in_a_directory_take_effect_without_a_reload() {
    let server = server_with(|server, certs| place_combined(server, &certs.join("a.pem"), "old", "a.test"));
    assert_eq!(for_host(&server, "a.test"), "old");
    let aside = server.directory().join("b.test");
    write_pair(&server, [aside.join("fullchain.pem"), aside.join("privkey.pem")], "added", "b.test");
    let live = directory(&server).join("b.test");
    fs::rename(aside, &live).unwrap();
    until("the added one", || (for_host(&server, "b.test") == "added").then_some(()));
    place_combined(&server, &directory(&server).join("a.pem"), "renewed", "a.test");
    until("the renewed one", || (for_host(&server, "a.test") == "renewed").then_some(()));
    fs::rename(live, server.directory().join("gone")).unwrap();
    until("the default in its place", || (for_host(&server, "b.test") == "ec").then_some(()));
    assert!(server.metrics().sum("penstock_certificate_changes_total", &["outcome=\"applied\""]) >= 3.0);
    assert_eq!(server.metrics().sum("penstock_reloads_total", &[]), 1.0, "the one of the beginning");
}

#[test]
fn certificates_that_the_configuration_names_are_followed_too() {
    let server = Setup::new().start();
    let both = server.certificates().path("both.pem");
    place_combined(&server, &both, "old", "localhost");
    server.reload(&Setup::new().tls("certificates: [{chain: both.pem, key: both.pem}]"));
    assert_eq!(for_host(&server, "localhost"), "old");
    place_combined(&server, &both, "renewed", "localhost");
    until("the renewed one", || (for_host(&server, "localhost") == "renewed").then_some(()));
    server.expect_warning("both.pem: cannot read the certificate chain");
    fs::remove_file(&both).unwrap();
    until("the loss to be seen", || (faults(&server, "unreadable") == 1.0).then_some(()));
    assert_eq!(for_host(&server, "localhost"), "renewed");
}

#[test]
fn half_a_renewal_changes_nothing_and_is_said_once() {
    let server = server_with(|server, certs| {
        write_pair(server, [certs.join("a.crt"), certs.join("a.key")], "old", "a.test");
    });
    assert_eq!(for_host(&server, "a.test"), "old");
    server.expect_warning("a.crt: the private key does not belong");
    let (chain, key) = pair(&server, "renewed", "a.test");
    place(&server, &directory(&server).join("a.crt"), chain);
    until("the fault to be seen", || (faults(&server, "key_mismatch") == 1.0).then_some(()));
    assert_eq!(for_host(&server, "a.test"), "old");
    // Another change has everything looked at again, and there is nothing new to say.
    place_combined(&server, &directory(&server).join("b.pem"), "second", "b.test");
    until("the second one", || (for_host(&server, "b.test") == "second").then_some(()));
    server.logs("does not belong", 1);
    assert_eq!(for_host(&server, "a.test"), "old");
    place(&server, &directory(&server).join("a.key"), key);
    until("the whole renewal", || (for_host(&server, "a.test") == "renewed").then_some(()));
    until("the fault to be gone", || (faults(&server, "key_mismatch") == 0.0).then_some(()));
}

#[test]
fn unusable_certificates_are_named_by_check_and_by_the_server_and_the_others_serve() {
    let server = Setup::new().start();
    let certs = directory(&server);
    fs::create_dir(&certs).unwrap();
    write_pair(&server, [certs.join("good.crt"), certs.join("good.key")], "good", "good.test");
    write_pair(&server, [certs.join("odd.crt"), certs.join("odd.key")], "odd", "odd.test");
    fs::write(certs.join("odd.key"), pair(&server, "x", "x.test").1).unwrap();
    fs::write(certs.join("lone.crt"), pair(&server, "lone", "lone.test").0).unwrap();
    fs::write(certs.join("noise.pem"), "noise").unwrap();
    let said = ["lone.crt: there is no key", "noise.pem: the certificate chain holds no certificate"];
    for words in said {
        server.expect_warning(words);
    }
    server.reload(&Setup::new().tls(&tls()));
    assert_eq!(for_host(&server, "good.test"), "good");
    // Its key is read at the first handshake that needs it, which then gets the default certificate.
    server.expect_warning("odd.crt: the private key does not belong");
    assert_eq!(for_host(&server, "odd.test"), "ec");
    until("the two faults", || {
        (faults(&server, "no_certificate") == 1.0 && faults(&server, "no_key") == 1.0).then_some(())
    });
    let check = Tool::penstock().args(["check", "-c"]);
    let check = check.arg(server.directory().join("penstock.yaml")).run().ok();
    for words in said.iter().chain(&["odd.crt: the private key does not belong"]) {
        assert!(check.stderr.contains(words), "{words}: {}", check.stderr);
    }
    // What the library makes of a client without any common ground has not changed.
    assert!(connect(&server, &["-servername", "good.test", "-sigalgs", "RSA-PSS+SHA256"]).code != 0);
}
