//! What players are told of their connection: CMSD-Dynamic.

use penstock_testkit::origin::{Origin, answer};
use penstock_testkit::{Client, Setup, Tool};

use super::Edge;

/// The round-trip time and the throughput of a value; panics if it is none.
fn told(value: &str) -> (u64, Option<u64>) {
    let mut parts = value.strip_prefix("\"penstock\";").unwrap_or_else(|| panic!("{value}")).split(';');
    let last = parts.next_back().and_then(|part| part.strip_prefix("rtt=")).expect("a time");
    let throughput =
        parts.next().map(|part| part.strip_prefix("etp=").expect("a throughput").parse().unwrap());
    assert_eq!(parts.next(), None, "{value}");
    (last.parse().unwrap(), throughput)
}

#[test]
fn the_throughput_is_told_once_the_connection_has_measured_it_and_the_round_trip_time_at_once() {
    let sites = "- {hosts: [localhost], origin: {directory: root}, cmsd: true, cors: {origins: [\"*\"]}}";
    let server = Setup::new().sites(sites).start();
    server.file("large.m4s", 3_000_000);
    server.write("small.m4s", "a");
    for mut client in [Client::plain(&server).boxed(), Client::tls(&server).boxed()] {
        let first = client.get("/small.m4s");
        assert_eq!(told(first.field("CMSD-Dynamic").unwrap()).1, None, "nothing is measured yet");
        assert!(first.field("Access-Control-Expose-Headers").unwrap().contains("CMSD-Dynamic"));
        client.get("/large.m4s");
        let (_, throughput) = told(client.get("/small.m4s").field("CMSD-Dynamic").unwrap());
        assert!(throughput.is_some_and(|kilobits| kilobits > 0));
    }
    let two =
        Tool::curl(&server).args(["--http2", "-D", "-", "-o", "/dev/null"]).arg(server.url("/large.m4s"));
    let heads = two.args(["--next", "-s", "-D", "-", "-o", "/dev/null"]).arg(server.url("/small.m4s"));
    let heads = heads.arg("--cacert").arg(server.certificates().authority()).run().ok().text();
    let values: Vec<_> =
        heads.lines().filter_map(|line| line.strip_prefix("cmsd-dynamic: ")).map(told).collect();
    assert!(values.len() == 2 && values[1].1.is_some(), "{heads}");
}

#[test]
fn over_quic_it_is_what_quic_has_measured() {
    if !crate::http3::has_client() {
        return;
    }
    let sites = "- {hosts: [localhost], origin: {directory: root}, cmsd: true}";
    let server = Setup::new().listeners(&["tls: true, protocols: [h1, h2, h3]", ""]).sites(sites).start();
    server.file("large.m4s", 3_000_000);
    let value = crate::http3::field_of_second(&server, "/large.m4s", "cmsd-dynamic");
    assert!(told(&value).1.is_some_and(|kilobits| kilobits > 0), "{value}");
}

#[test]
fn without_it_nothing_is_told_and_what_an_origin_says_stays_unless_the_site_says_it() {
    let origin = Origin::start(|_, _, stream| {
        let fields =
            "Cache-Control: max-age=60\r\nCMSD-Static: ot=v\r\nCMSD-Dynamic: \"origin\";etp=1;rtt=2\r\n";
        answer(stream, "200 OK", fields, b"a")
    });
    let url = origin.url();
    let sites = format!(
        "- {{hosts: [off.test], origin: {{http: [\"{url}\"]}}, routes: [{{path: /on/*, cmsd: true}}]}}\n\
         - {{hosts: [on.test], origin: {{http: [\"{url}\"]}}, cmsd: true}}"
    );
    let edge = Edge::before(&sites);
    let mut client = Client::plain(&edge.server);
    let mut ask = |host: &str, path: &str| {
        let response = client.request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(response.field("CMSD-Static"), Some("ot=v"));
        response.field("CMSD-Dynamic").unwrap().to_owned()
    };
    for _ in 0..2 {
        assert_eq!(ask("off.test", "/a"), "\"origin\";etp=1;rtt=2");
        told(&ask("on.test", "/a"));
        told(&ask("off.test", "/on/a"));
    }
}
