//! Mistakes that work or almost work: each is named with its remedy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, UNIX_EPOCH};

use penstock_config::{Config, Environment};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::fixture::{Fixture, around};

fn warnings(fixture: &Fixture, text: &str) -> Vec<String> {
    fixture.shown(&fixture.read(text).unwrap().warnings)
}

#[test]
fn an_admin_listener_that_is_not_on_loopback_is_warned_of() {
    let fixture = Fixture::new();
    for address in ["0.0.0.0:9600", "192.0.2.1:9600", "\"[::]:9600\""] {
        let bare = address.trim_matches('"');
        assert_eq!(
            warnings(&fixture, &around(&format!("admin: {{address: {address}}}"))),
            [format!(
                "edge.yaml:3: address: every machine that reaches {bare} can read metrics and purge the cache; write a \
                 loopback address such as 127.0.0.1:9600, restrict the port by a firewall, or add token: FILE"
            )]
        );
    }
    for address in ["127.0.0.1:9600", "127.0.0.2:1", "\"[::1]:9600\""] {
        assert_eq!(warnings(&fixture, &around(&format!("admin: {{address: {address}}}"))), [""; 0]);
    }
}

#[test]
fn the_token_of_the_admin_listener_is_a_line_in_a_private_file() {
    let fixture = Fixture::new();
    let write = |text: &str, mode| {
        let path = fixture.path().join("admin.token");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let yaml = around("admin: {token: admin.token}");
    let missing = fixture.faults(&yaml);
    assert!(missing[0].contains("token: ") && missing[0].contains("cannot be read"), "{missing:?}");
    write("0123456789abcdef\n", 0o600);
    let token = fixture.read(&yaml).unwrap().admin.unwrap().token.unwrap();
    assert_eq!(token.expose(), b"0123456789abcdef");
    write("0123456789abcdef\n", 0o644);
    let open = fixture.faults(&yaml);
    assert!(open[0].contains("may be read by every user") && open[0].contains("chmod 600"), "{open:?}");
    for wrong in
        ["", "too short\n", "0123456789 abcdef\n", "0123456789abcdef\nand more\n", "0123456789abcd\u{e9}f\n"]
    {
        write(wrong, 0o600);
        let faults = fixture.faults(&yaml);
        assert!(faults[0].contains("no line of at least 16 visible ASCII characters"), "{wrong}: {faults:?}");
    }
}

#[test]
fn names_of_the_admin_listener_are_dns_names() {
    let fixture = Fixture::new();
    let config = fixture.read(&around("admin: {hosts: [Edge1.Example.COM., edge2]}")).unwrap();
    assert_eq!(config.admin.unwrap().hosts, ["edge1.example.com", "edge2"]);
    for wrong in ["edge1:9600", "https://edge1", "a..b", "\"*\""] {
        let bare = wrong.trim_matches('"');
        assert_eq!(
            fixture.faults(&around(&format!("admin: {{hosts: [{wrong}]}}"))),
            [format!(
                "edge.yaml:3: hosts: `{bare}` is not a DNS name; write a name without a port, such as edge1.example.com"
            )]
        );
    }
}

#[test]
fn a_user_has_to_exist_and_not_to_be_root() {
    let fixture = Fixture::new();
    let user = fixture.read(&around("user: \"65534:65533\"")).unwrap().user.unwrap();
    assert_eq!((user.uid, user.gid), (65534, 65533));
    assert_eq!(
        fixture.faults(&around("user: no-such-user")),
        ["edge.yaml:3: user: there is no user `no-such-user`; write a name of /etc/passwd, or uid:gid"]
    );
    for root in ["root", "\"0:0\""] {
        assert_eq!(
            fixture.faults(&around(&format!("user: {root}"))),
            ["edge.yaml:3: user: root keeps all privileges; write another user, such as penstock"]
        );
    }
}

#[test]
fn a_key_that_every_user_may_read_is_warned_of() {
    let fixture = Fixture::new();
    let lines = around("tls: {certificates: [{chain: ec.crt, key: ec.key}]}");
    assert_eq!(warnings(&fixture, &lines), [""; 0]);
    let open = |name: &str| {
        fs::set_permissions(fixture.path().join(name), PermissionsExt::from_mode(0o644)).unwrap()
    };
    open("ec.key");
    assert_eq!(
        warnings(&fixture, &lines),
        ["edge.yaml:3: key: DIR/ec.key may be read by every user of this machine; run chmod 600 on it"]
    );
    fs::create_dir(fixture.path().join("all")).unwrap();
    for name in ["ec.crt", "ec.key", "other.crt", "other.key"] {
        fs::copy(fixture.path().join(name), fixture.path().join("all").join(name)).unwrap();
    }
    open("all/other.key");
    assert_eq!(
        warnings(&fixture, &around("tls: {certificates: [{directory: all}]}")),
        [
            "edge.yaml:3: directory: 2 keys in DIR/all, the first DIR/all/ec.key, may be read by every user of this \
          machine; run chmod 600 on them"
        ]
    );
}

#[test]
fn a_secret_that_clients_can_download_is_warned_of() {
    let fixture = Fixture::new();
    let exposed = |key: &str, file: &str| {
        format!(
            "edge.yaml:3: {key}: DIR/video/{file} lies in DIR/video, which a site serves: clients can download it; move it \
             elsewhere, and replace it if it was served"
        )
    };
    let at = |name: &str| fixture.path().join(name);
    for directory in ["video/keys", "video/.hidden", "beside"] {
        fs::create_dir(at(directory)).unwrap();
        for name in ["ec.crt", "ec.key"] {
            fs::copy(at(name), at(directory).join(name)).unwrap();
        }
    }
    let said = |tls: &str| warnings(&fixture, &around(&format!("tls: {{{tls}}}")));
    let pair = |directory: &str| format!("certificates: [{{chain: ec.crt, key: {directory}/ec.key}}]");
    assert_eq!(said(&pair("video/keys")), [exposed("key", "keys/ec.key")]);
    assert_eq!(said(&pair("video/../video/keys")).len(), 1);
    assert_eq!(said(&pair("video/.hidden")), [""; 0], "it has a hidden name");
    assert_eq!(said(&pair("beside")), [""; 0]);
    std::os::unix::fs::symlink(at("video"), at("link")).unwrap();
    std::os::unix::fs::symlink(at("ec.key"), at("video/link.key")).unwrap();
    assert_eq!(said(&pair("link/keys")).len(), 1, "it leads to a directory that is served");
    let linked = "certificates: [{chain: ec.crt, key: video/link.key}]";
    assert_eq!(said(linked), [""; 0], "a link out of the directory is not served");
    assert_eq!(said("certificates: [{directory: video/keys}]"), [exposed("directory", "keys/ec.key")]);
    let listeners = "listeners: [{address: 127.0.0.1:8443, tls: true}, {address: 127.0.0.1:8080}]";
    let sites = "sites: [{hosts: [a.example.com], origin: {directory: video}, dot_files: allow}]";
    let acme = "tls: {acme: {agree_to_terms: true, ca_file: ec.crt, storage: video/.acme}}";
    assert_eq!(
        warnings(&fixture, &format!("{listeners}\n{sites}\n{acme}\n")),
        [exposed("storage", ".acme")],
        "hidden names are served there"
    );
}

#[test]
fn swapped_files_are_told_apart() {
    assert_eq!(
        Fixture::new().faults(&around("tls: {certificates: [{chain: ec.key, key: ec.crt}]}")),
        [
            "edge.yaml:3: chain: DIR/ec.key is a private key, and DIR/ec.crt a certificate; write chain: DIR/ec.crt, key: \
          DIR/ec.key"
        ]
    );
}

/// A leaf with its key, the two intermediates that signed it, and the root.
fn four_levels(fixture: &Fixture) -> [String; 4] {
    let authority = |name: &str| {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params, KeyPair::generate().unwrap())
    };
    let (root_params, root_key) = authority("root");
    let (upper_params, upper_key) = authority("upper");
    let (params, key) = authority("intermediate");
    let root = root_params.self_signed(&root_key).unwrap().pem();
    let upper = upper_params.signed_by(&upper_key, &Issuer::new(root_params, root_key)).unwrap().pem();
    let intermediate = params.signed_by(&key, &Issuer::new(upper_params, upper_key)).unwrap().pem();
    let leaf_key = KeyPair::generate().unwrap();
    let leaf_params = CertificateParams::new(vec!["leaf.example.com".to_owned()]).unwrap();
    let leaf = leaf_params.signed_by(&leaf_key, &Issuer::new(params, key)).unwrap().pem();
    let file = fixture.path().join("leaf.key");
    fs::write(&file, leaf_key.serialize_pem()).unwrap();
    fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
    [leaf, intermediate, upper, root]
}

#[test]
fn the_order_of_a_chain_counts() {
    let fixture = Fixture::new();
    let [leaf, intermediate, upper, root] = four_levels(&fixture);
    let lines = around("tls: {certificates: [{chain: chain.pem, key: leaf.key}]}");
    let write = |parts: &[&String]| {
        let text: String = parts.iter().map(|part| part.as_str()).collect();
        fs::write(fixture.path().join("chain.pem"), text).unwrap();
    };
    for sound in [&[&leaf][..], &[&leaf, &intermediate], &[&leaf, &intermediate, &upper, &root]] {
        write(sound);
        assert_eq!(warnings(&fixture, &lines), [""; 0]);
    }
    write(&[&intermediate, &leaf]);
    assert_eq!(
        fixture.faults(&lines),
        [
            "edge.yaml:3: key: DIR/leaf.key belongs to certificate 2 in DIR/chain.pem, not to the first; put that \
          certificate first, then its issuer, and so on"
        ]
    );
    for wrong in [&[&leaf, &root, &intermediate][..], &[&leaf, &intermediate, &root, &upper]] {
        write(wrong);
        assert_eq!(
            warnings(&fixture, &lines),
            [
                "edge.yaml:3: chain: the certificates in DIR/chain.pem are in the wrong order; put the issuer of each \
          certificate right behind it"
            ]
        );
    }
    write(&[&leaf, &intermediate, &root]);
    assert_eq!(
        warnings(&fixture, &lines),
        [
            "edge.yaml:3: chain: certificate 3 in DIR/chain.pem is not the issuer of certificate 2; put the issuer of \
          each certificate right behind it, and remove all others"
        ]
    );
}

#[test]
fn values_of_other_programs_are_told_what_to_write() {
    let fixture = Fixture::new();
    for (lines, fault) in [
        ("cache: {slice: 1MB}", "slice: 1MB is not a multiple of 4KiB; write 1MiB"),
        ("cache: {slice: 65537}", "slice: 65537 is not a multiple of 4KiB; write 68KiB"),
        (
            "log: {access: stdout}",
            "access: `stdout` would be a file of that name; write /dev/stdout, or ./stdout for a file",
        ),
        (
            "log: {access: \"-\"}",
            "access: `-` would be a file of that name; write /dev/stdout, or ./- for a file",
        ),
        (
            "log: {access: stderr}",
            "access: `stderr` would be a file of that name; write /dev/stderr, or ./stderr for a file",
        ),
    ] {
        assert_eq!(fixture.faults(&around(lines)), [format!("edge.yaml:3: {fault}")], "{lines}");
    }
    assert!(fixture.read(&around("log: {access: ./stdout}")).is_ok());
    for socket in ["unix:run/origin.sock", "http://unix:/run/origin.sock", "/run/origin.sock"] {
        let text = format!(
            "listeners: [{{address: 127.0.0.1:80}}]\nsites: [{{origin: {{http: [\"{socket}\"]}}}}]\n"
        );
        assert_eq!(
            fixture.faults(&text),
            [format!(
                "edge.yaml:2: http: `{socket}` is not the path of a Unix socket; write unix:/run/app.sock, or \
                 unix:/run/app.sock:/path, with at most 107 bytes"
            )]
        );
    }
}

/// Renewed at two thirds of its life, such a certificate never has 14 days left.
#[test]
fn a_certificate_with_a_short_life_is_warned_of_in_the_last_sixth_of_it() {
    let fixture = Fixture::new();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["video.example.com".to_owned()]).unwrap();
    (params.not_before, params.not_after) =
        (rcgen::date_time_ymd(2019, 12, 26), rcgen::date_time_ymd(2020, 1, 1));
    let both = params.self_signed(&key).unwrap().pem() + &key.serialize_pem();
    fs::create_dir(fixture.path().join("short")).unwrap();
    fs::write(fixture.path().join("short/video.pem"), &both).unwrap();
    fs::write(fixture.path().join("short.pem"), &both).unwrap();
    for (certificate, said) in [
        (
            "{chain: short.pem, key: short.pem}",
            "chain: the certificate in DIR/short.pem expires within a day",
        ),
        (
            "{directory: short}",
            "directory: one certificate in DIR/short, the first DIR/short/video.pem, which",
        ),
    ] {
        let text = around(&format!("tls: {{certificates: [{certificate}]}}"));
        let at = |hours: u64| {
            let now = UNIX_EPOCH + Duration::from_secs((18_262 * 24 - hours) * 3600);
            let config = Config::from_text_in(&text, &fixture.file(), &Environment::at(now)).unwrap();
            let ends = config.warnings.into_iter().filter(|one| one.what.contains("expires"));
            fixture.shown(&ends.collect::<Vec<_>>())
        };
        assert_eq!((at(5 * 24), at(25)), (vec![], vec![]), "{certificate}");
        let [warning] = at(23).try_into().unwrap();
        assert!(warning.contains(said), "{warning}");
    }
}
