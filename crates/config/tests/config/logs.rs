//! The access log.

use std::num::NonZeroU32;
use std::path::Path;

use penstock_config::{AccessLog, LogFormat, LogSample};

use super::fixture::{Fixture, around};

fn log(keys: &str) -> AccessLog {
    Fixture::new().read(&around(&format!("log: {{access: {{{keys}}}}}"))).unwrap().log.access.unwrap()
}

#[test]
fn the_section_of_an_access_log_says_where_what_and_which() {
    let all = log("path: stdout");
    assert_eq!(all, AccessLog::of("/dev/stdout".into()));
    assert_eq!(log("path: syslog").path, Path::new("/dev/log"));
    assert_eq!(log("path: stderr, format: combined").format, LogFormat::Combined);
    assert_eq!(log("path: a.log, format: fields").format, LogFormat::Fields(LogFormat::FIELDS.to_vec()));
    let some = log("path: a.log, format: fields, fields: [status, tls.version]");
    assert_eq!(some.format, LogFormat::Fields(vec!["status", "tls.version"]));
    assert_eq!(log("path: a.log, fields: [time]").format, LogFormat::Json(Some(vec!["time"])));
    assert_eq!(log("path: a.log, sample: 1/100").sample, LogSample::OneIn(NonZeroU32::new(100).unwrap()));
    assert_eq!(log("path: a.log, sample: errors").sample, LogSample::Errors);
    assert!(!all.connections && log("path: a.log, connections: true").connections);
    assert_eq!(log("path: a.log, sites: [\"*\"]").sites, Some(vec!["*".to_owned()]));
}

#[test]
fn a_wrong_access_log_is_told_what_to_write() {
    for (keys, fault) in [
        ("format: json", "access: there is no path; write path: FILE, stdout or syslog"),
        ("path: stdout, format: xml", "format: `xml` is unknown; write json, combined or fields"),
        (
            "path: stdout, sample: 1/0",
            "sample: `1/0` is no sample; write 1/100 for every hundredth response, or errors",
        ),
        (
            "path: stdout, sample: 50%",
            "sample: `50%` is no sample; write 1/100 for every hundredth response, or errors",
        ),
        ("path: stdout, sites: [a.test]", "sites: `a.test` is not the first host of a site; write some of *"),
    ] {
        let text = around(&format!("log: {{access: {{{keys}}}}}"));
        assert_eq!(Fixture::new().faults(&text), [format!("edge.yaml:3: {fault}")], "{keys}");
    }
    let faults = Fixture::new().faults(&around("log: {access: {path: stdout, fields: [speed]}}"));
    assert!(
        faults[0].starts_with("edge.yaml:3: fields: there is no field `speed`; write some of time, "),
        "{faults:?}"
    );
}

#[test]
fn logs_of_quic_connections_have_clients_and_bounds() {
    let fixture = Fixture::new();
    let read = |keys: &str| fixture.read(&around(&format!("log: {{qlog: {{directory: logs, {keys}}}}}")));
    let qlog = read("clients: [192.0.2.7, \"2001:db8::/32\"], file_size: 1MiB").unwrap().log.qlog.unwrap();
    assert_eq!((qlog.files, qlog.file_bytes), (100, 1 << 20));
    assert_eq!(qlog.directory, fixture.path().join("logs"));
    for (address, expected) in [("192.0.2.7", true), ("192.0.2.8", false), ("2001:db8:1::", true)] {
        assert_eq!(qlog.clients.contains(address.parse().unwrap()), expected, "{address}");
    }
    for (keys, fault) in [
        ("files: 3", "qlog: it has no directory or no clients"),
        ("clients: [all]", "clients: `all` is no network"),
        ("clients: []", "clients: there are 0 networks"),
        ("clients: [192.0.2.7], files: 0", "files: 0 is out of range"),
        ("clients: [192.0.2.7], file_size: 1KiB", "file_size: 1KiB is out of range"),
    ] {
        let found = fixture.shown(&read(keys).unwrap_err());
        assert!(found[0].contains(fault), "{keys}: {found:?}");
    }
}
