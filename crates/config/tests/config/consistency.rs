//! Parts of a configuration that do not fit together.

use crate::fixture::Fixture;

/// What is inconsistent in a configuration with these listeners and sites and a certificate for `ec.example.com`.
fn said(listeners: &str, sites: &str, tls: &str) -> Vec<String> {
    let fixture = Fixture::new();
    let text = format!(
        "listeners: {listeners}\nsites:\n{sites}tls: {{certificates: [{{chain: ec.crt, key: ec.key}}]{tls}}}\n"
    );
    let config = fixture.read(&text).unwrap_or_else(|faults| panic!("{:?}", fixture.shown(&faults)));
    fixture.shown(&config.inconsistencies())
}

const BOTH: &str = "[{address: 127.0.0.1:443, tls: true, name: safe}, {address: 127.0.0.1:80, name: plain}]";

#[test]
fn a_host_of_a_site_on_https_that_no_certificate_is_for_is_named_with_its_line() {
    let sites = "- {hosts: [ec.example.com, other.example.com], origin: {directory: video}}\n\
                 - {hosts: [\"*.example.com\", \"*.example.org\", \"*\", 127.0.0.1], origin: {directory: video}}\n";
    let wanted = |line: usize, host: &str| {
        format!(
            "edge.yaml:{line}: hosts: no certificate is for {host}: clients get another one over HTTPS, and refuse it; \
             add one to tls.certificates, or let the site answer on listeners without TLS only"
        )
    };
    assert_eq!(said(BOTH, sites, ""), [wanted(3, "other.example.com"), wanted(4, "*.example.org")]);
}

#[test]
fn a_host_whose_certificate_is_ordered_needs_no_other() {
    let sites = "- {hosts: [other.example.com, \"*.example.org\"], origin: {directory: video}}\n";
    let said = said(BOTH, sites, ", acme: {agree_to_terms: true, ca_file: ec.crt}");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("no certificate is for *.example.org"), "{said:?}");
}

#[test]
fn a_host_that_answers_without_tls_only_needs_no_certificate() {
    let sites = "- {hosts: [other.example.com], listeners: [plain], origin: {directory: video}}\n";
    assert_eq!(said(BOTH, sites, ""), [""; 0]);
    assert_eq!(said(BOTH, &sites.replace("[plain]", "[safe]"), "").len(), 1);
    let plain = "[{address: 127.0.0.1:80, name: plain}]";
    assert_eq!(said(plain, sites, ""), [""; 0]);
}

#[test]
fn a_plain_listener_beside_required_client_certificates_is_named_with_its_line() {
    let (required, optional) =
        (", client_certificates: {ca: ec.crt}", ", client_certificates: {ca: ec.crt, mode: optional}");
    let every = "- {origin: {directory: video}}\n";
    assert_eq!(
        said(BOTH, every, required),
        [
            "edge.yaml:1: client_certificates: they are required, and 127.0.0.1:80 serves without TLS to everyone; \
          add redirect: https to this listener, or name the others and add listeners: to each site"
        ]
    );
    let redirected = BOTH.replace("name: plain", "redirect: https");
    let bound = "- {listeners: [safe], origin: {directory: video}}\n";
    for (listeners, sites, tls) in [
        (BOTH, every, optional),
        (BOTH, every, ""),
        (redirected.as_str(), every, required),
        (BOTH, bound, required),
    ] {
        assert_eq!(said(listeners, sites, tls), [""; 0], "{listeners} {sites} {tls}");
    }
}

#[test]
fn players_that_ask_too_seldom_to_leave_a_node_that_drains_are_named_with_the_line() {
    let plain = "[{address: 127.0.0.1:80}]";
    let with = |keys: &str, cluster: &str| {
        let sites = format!(
            "- {{origin: {{directory: video}},\n  steering: {{hls: /s, pathways: [{{id: edge1}}]{keys}}}}}\n{cluster}"
        );
        said(plain, &sites, "")
    };
    let cluster = "cluster: {self: edge1, nodes: [{name: edge1, address: \"127.0.0.1:1\"}]}\n";
    let fault = "edge.yaml:4: steering: players ask every 60s, and a node that drains is gone 5s after the signal; \
                 write a limits.lame_duck that is longer than ttl, or a shorter ttl";
    assert_eq!(with("", cluster), [fault]);
    assert_eq!(with(", ttl: 4s", cluster), [""; 0]);
    assert_eq!(with("", &format!("limits: {{lame_duck: 61s}}\n{cluster}")), [""; 0]);
    assert_eq!(with("", ""), [""; 0], "nothing drains");
}
