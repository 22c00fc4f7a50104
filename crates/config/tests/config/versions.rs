//! Versions of TLS, the old ones among them.

use penstock_tls::{LEGACY_SUITES, Legacy};

use crate::fixture::{Fixture, around};

#[test]
fn old_versions_are_a_warning_and_bring_their_suites() {
    let fixture = Fixture::new();
    for (versions, legacy, warned) in [
        ("[\"1.0\", \"1.1\", \"1.2\", \"1.3\"]", Legacy::Tls10, "TLS 1.0 and 1.1 are"),
        ("[1.2, 1.1, 1.0]", Legacy::Tls10, "TLS 1.0 and 1.1 are"),
        ("[1.1, 1.2]", Legacy::Tls11, "TLS 1.1 is"),
    ] {
        let config = fixture.read(&around(&format!("tls: {{versions: {versions}}}"))).unwrap();
        assert_eq!(config.tls.legacy, Some(legacy), "{versions}");
        assert!(LEGACY_SUITES.iter().all(|suite| config.tls.suites.contains(&suite)));
        assert_eq!(
            fixture.shown(&config.warnings),
            [format!(
                "edge.yaml:3: versions: {warned} broken and forbidden (RFC 8996), and fails audits such as PCI DSS; \
                 remove it when penstock_handshakes_total{{version}} shows no old clients any more"
            )]
        );
    }
    let usual = fixture.read(&around("")).unwrap().tls;
    assert_eq!(usual.legacy, None);
    assert!(!usual.suites.iter().any(|suite| suite.is_legacy()));
}

#[test]
fn old_versions_do_not_come_with_gaps_or_without_their_suites() {
    let fixture = Fixture::new();
    for (tls, fault) in [
        ("versions: [1.0, 1.2]", "versions: TLS 1.0 is enabled without TLS 1.1; add \"1.1\""),
        ("versions: [1.1]", "versions: old versions are enabled without TLS 1.2; add \"1.2\""),
        ("versions: [1.0, 1.1, 1.3]", "versions: old versions are enabled without TLS 1.2; add \"1.2\""),
        (
            "ciphers: {tls12: [ECDHE-RSA-AES128-SHA, ECDHE-RSA-AES128-GCM-SHA256]}",
            "tls12: ECDHE-RSA-AES128-SHA is only for clients of TLS 1.0 and 1.1; remove it, or add \"1.0\" and \"1.1\" \
             to versions",
        ),
        (
            "versions: [1.1, 1.2], ciphers: {tls12: [ECDHE-RSA-AES128-GCM-SHA256]}",
            "tls12: TLS 1.1 and older know none of these suites; add ECDHE-ECDSA-AES128-SHA and \
             ECDHE-RSA-AES128-SHA, or remove the key",
        ),
    ] {
        let faults = fixture.faults(&around(&format!("tls: {{{tls}}}")));
        assert_eq!(faults, [format!("edge.yaml:3: {fault}")], "{tls}");
    }
    let listed = "tls: {versions: [1.1, 1.2], ciphers: {tls12: [ECDHE-RSA-AES128-GCM-SHA256, AES128-SHA]}}";
    let names: Vec<&str> =
        fixture.read(&around(listed)).unwrap().tls.suites[3..].iter().map(|one| one.openssl_name).collect();
    assert_eq!(names, ["ECDHE-RSA-AES128-GCM-SHA256", "AES128-SHA"]);
}
