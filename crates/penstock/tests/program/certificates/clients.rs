//! Certificates of clients.

use std::fs;
use std::time::Duration;

use penstock_testkit::{Certificates, Finished, Server, Setup, Tool, until};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};

const VERSIONS: [&str; 2] = ["-tls1_2", "-tls1_3"];
const BODY: &str = "a segment";

fn setup(ca: &str, mode: &str) -> Setup {
    let rules = format!("client_certificates: {{ca: {ca}, mode: {mode}}}");
    Setup::new().tls(&format!("{}\n{rules}", Certificates::yaml(&["ec"])))
}

/// A server that trusts its own authority, with a client's certificate `player`, and `stranger` and `expired` of the
/// authority `strangers.pem`.
fn server(mode: &str) -> Server {
    let server = setup("authority.crt", mode).start();
    server.write("a.mp4", BODY);
    let key = || KeyPair::generate().unwrap();
    server.certificates().leaf("player", &["player.example"], &key());
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Authority of strangers");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority_key = key();
    let write = |name: &str, pem: String| fs::write(server.directory().join(name), pem).unwrap();
    write("strangers.pem", params.self_signed(&authority_key).unwrap().pem());
    let authority = Issuer::new(params, authority_key);
    let stranger = key();
    let leaf = CertificateParams::new(["stranger.example".to_owned()]).unwrap();
    write("stranger.crt", leaf.signed_by(&stranger, &authority).unwrap().pem());
    write("stranger.key", stranger.serialize_pem());
    let mut leaf = CertificateParams::new(["expired.example".to_owned()]).unwrap();
    leaf.not_after = date_time_ymd(2020, 1, 1);
    write("expired.crt", leaf.signed_by(&stranger, &authority).unwrap().pem());
    write("expired.key", stranger.serialize_pem());
    server
}

/// Asks for this target, with this certificate if there is one.
fn ask(server: &Server, target: &str, certificate: Option<&str>, options: &[&str]) -> Finished {
    let mut client = Tool::s_client(server).arg("-ign_eof").args(options);
    if let Some(name) = certificate {
        let file = |end: &str| server.certificates().path(&format!("{name}.{end}"));
        client = client.arg("-cert").arg(file("crt")).arg("-key").arg(file("key"));
    }
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client.run_with_input(request.as_bytes())
}

/// The same; says whether the session was `New` or `Reused`, and which name the access log has for the client.
#[track_caller]
fn served(
    server: &Server,
    target: &str,
    certificate: Option<&str>,
    options: &[&str],
) -> (String, Option<String>) {
    let text = ask(server, target, certificate, options).ok().text();
    assert!(text.contains(BODY), "{text}");
    let state = text.lines().find_map(|line| line.split_once(", TLSv1.")).unwrap_or_else(|| panic!("{text}"));
    let name =
        server.logged(target)["tls"].get("client_certificate").map(|name| name.as_str().unwrap().to_owned());
    (state.0.to_owned(), name)
}

/// Asks and is refused, which is counted under this reason, with this alert.
#[track_caller]
fn refused(server: &Server, certificate: Option<&str>, version: &str, reason: &str, alert: &str) {
    let counts = || {
        let metrics = server.metrics();
        let failures = metrics.sum("penstock_handshake_failures_total", &[&format!("reason=\"{reason}\"")]);
        let alert = format!("alert=\"{alert}\"");
        (failures, metrics.sum("penstock_tls_alerts_total", &["direction=\"sent\"", &alert]))
    };
    let before = counts();
    let answer = ask(server, "/a.mp4", certificate, &[version]);
    assert!(!answer.text().contains("HTTP/1.1"), "{}", answer.text());
    until("the refusal to be counted", || {
        let after = counts();
        (after.0 > before.0 && after.1 > before.1).then_some(())
    });
}

#[test]
fn a_required_certificate_that_is_missing_ends_the_handshake() {
    let server = server("required");
    for (version, alert) in VERSIONS.into_iter().zip(["handshake_failure", "certificate_required"]) {
        refused(&server, None, version, "no_client_certificate", alert);
    }
    assert!(server.access_log().is_empty(), "no request was read");
}

#[test]
fn a_certificate_of_another_authority_is_refused_even_where_none_is_needed() {
    for mode in ["required", "optional"] {
        let server = server(mode);
        for version in VERSIONS {
            refused(&server, Some("stranger"), version, "client_certificate_rejected", "unknown_ca");
        }
        assert!(server.access_log().is_empty(), "no request was read");
    }
}

#[test]
fn clients_are_told_which_authorities_are_trusted_and_logged_by_name() {
    let server = server("required");
    let text = ask(&server, "/a.mp4", Some("player"), &["-tls1_3"]).ok().text();
    let (_, names) =
        text.split_once("Acceptable client certificate CA names\n").expect("names of authorities");
    assert!(names.lines().next().unwrap().contains("Test authority"), "{names}");
    for version in VERSIONS {
        let target = format!("/a.mp4?{version}");
        let (_, name) = served(&server, &target, Some("player"), &[version]);
        assert_eq!(name.as_deref(), Some("player"));
    }
}

#[test]
fn an_optional_certificate_may_be_missing_and_then_no_name_is_logged() {
    let server = server("optional");
    for version in VERSIONS {
        let without = served(&server, &format!("/a.mp4?none{version}"), None, &[version]);
        assert_eq!(without, ("New".to_owned(), None));
        let with = served(&server, &format!("/a.mp4?one{version}"), Some("player"), &[version]);
        assert_eq!(with, ("New".to_owned(), Some("player".to_owned())));
    }
}

#[test]
fn a_resumed_session_keeps_the_name_and_ends_with_its_authority() {
    let server = server("optional");
    let mut kept = Vec::new();
    // Without tickets TLS 1.2 resumes what the server keeps.
    let kinds: [&[&str]; 3] = [&["-tls1_2"], &["-tls1_2", "-no_ticket"], &["-tls1_3"]];
    for (number, options) in kinds.into_iter().enumerate() {
        let file = server.directory().join(format!("session{number}.pem")).to_str().unwrap().to_owned();
        let run = |what: &str, certificate, option: &str| {
            let options = [options, &[option, &file]].concat();
            served(&server, &format!("/a.mp4?{what}{number}"), certificate, &options)
        };
        let player = Some("player".to_owned());
        assert_eq!(run("first", Some("player"), "-sess_out"), ("New".to_owned(), player.clone()));
        // The client sends no certificate now: the name comes from the session.
        assert_eq!(run("again", None, "-sess_in"), ("Reused".to_owned(), player), "{options:?}");
        kept.push((options, file));
    }
    for (place, (ca, mode)) in
        [("strangers.pem", "optional"), ("authority.crt", "required")].into_iter().enumerate()
    {
        server.reload(&setup(ca, mode));
        let certificate = (mode == "required").then_some("player");
        for (number, (options, file)) in kept.iter().enumerate() {
            let options = [*options, &["-sess_in", file]].concat();
            let target = format!("/a.mp4?other{place}{number}");
            let (state, name) = served(&server, &target, certificate, &options);
            assert_eq!((state.as_str(), name.as_deref()), ("New", certificate), "{ca} {mode} {options:?}");
        }
    }
}

#[test]
fn an_expired_certificate_is_refused_as_such() {
    let server = server("required");
    server.reload(&setup("strangers.pem", "required"));
    for version in VERSIONS {
        refused(&server, Some("expired"), version, "client_certificate_rejected", "certificate_expired");
    }
}

#[test]
fn revoked_clients_are_refused_from_the_reload_on_even_if_they_resume() {
    let server = server("required");
    let certificates = server.certificates();
    certificates.leaf("lost", &["lost.example"], &KeyPair::generate().unwrap());
    let tls = "client_certificates: {ca: authority.crt, crl: revoked.pem}";
    let revoking = || Setup::new().tls(&format!("{}\n{tls}", Certificates::yaml(&["ec"])));
    const DAY: Duration = Duration::from_secs(24 * 3600);
    certificates.revoke("revoked.pem", &[], 7 * DAY);
    server.reload(&revoking());
    let file =
        |version: &str| server.directory().join(format!("lost{version}.pem")).to_str().unwrap().to_owned();
    for version in VERSIONS {
        let (_, name) =
            served(&server, "/a.mp4?before", Some("lost"), &[version, "-sess_out", &file(version)]);
        assert_eq!(name.as_deref(), Some("lost"));
    }
    certificates.revoke("revoked.pem", &["lost"], 7 * DAY);
    server.reload(&revoking());
    for version in VERSIONS {
        refused(&server, Some("lost"), version, "client_certificate_rejected", "certificate_revoked");
        let resumed = ask(&server, "/a.mp4", Some("lost"), &[version, "-sess_in", &file(version)]);
        assert!(!resumed.text().contains(BODY), "{}", resumed.text());
        served(&server, "/a.mp4?other", Some("player"), &[version]);
    }
}

#[test]
fn a_session_ends_with_the_list_that_its_client_was_compared_with() {
    const VALID: Duration = Duration::from_secs(12);
    let server = server("required");
    server.tolerate_warning("revoked.pem");
    server.certificates().revoke("revoked.pem", &[], VALID);
    let tls = "client_certificates: {ca: authority.crt, crl: revoked.pem}";
    server.reload(&Setup::new().tls(&format!("{}\n{tls}", Certificates::yaml(&["ec"]))));
    let file = |version: &str| server.directory().join(format!("{version}.pem")).to_str().unwrap().to_owned();
    for version in VERSIONS {
        served(&server, "/a.mp4?before", Some("player"), &[version, "-sess_out", &file(version)]);
    }
    until("the list to expire", || {
        (!ask(&server, "/a.mp4", Some("player"), &[VERSIONS[0]]).text().contains(BODY)).then_some(())
    });
    for version in VERSIONS {
        let resumed = ask(&server, "/a.mp4", Some("player"), &[version, "-sess_in", &file(version)]);
        assert!(!resumed.text().contains(BODY), "{}", resumed.text());
    }
}

#[test]
fn a_list_that_is_too_old_refuses_all_and_is_warned_of() {
    let server = server("required");
    // From this moment on a newer one should be there.
    server.certificates().revoke("revoked.pem", &[], Duration::ZERO);
    let tls = "client_certificates: {ca: authority.crt, crl: revoked.pem}";
    server.reload(&Setup::new().tls(&format!("{}\n{tls}", Certificates::yaml(&["ec"]))));
    server.expect_warning("revoked.pem expired today; fetch the newer one");
    for version in VERSIONS {
        refused(&server, Some("player"), version, "client_certificate_rejected", "certificate_expired");
    }
}

#[test]
fn early_data_of_a_session_has_the_name_too() {
    let tls = "client_certificates: {ca: authority.crt}\nearly_data: {}";
    let server = server("required");
    server.reload(&Setup::new().tls(&format!("{}\n{tls}", Certificates::yaml(&["ec"]))));
    let path = |name: &str| server.directory().join(name).to_str().unwrap().to_owned();
    let (session, request) = (path("session.pem"), path("request"));
    served(&server, "/a.mp4?full", Some("player"), &["-tls1_3", "-sess_out", &session]);
    fs::write(&request, "GET /a.mp4?early HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let client = Tool::s_client(&server).args(["-ign_eof", "-tls1_3", "-sess_in", &session]);
    let text = client.args(["-early_data", &request]).run().ok().text();
    assert!(text.contains("Early data was accepted") && text.contains(BODY), "{text}");
    assert_eq!(server.logged("/a.mp4?early")["tls"]["client_certificate"], "player");
}
