//! Where a response came from, and what the request to the origin took.

use penstock_testkit::origin::{Origin, answer, field};
use penstock_testkit::{Client, Setup, Tool, memory_directory, until};

const FRESH: &str = "ETag: \"v1\"\r\nCache-Control: max-age=600\r\n";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn a_line_says_which_tier_a_response_came_from_and_what_its_request_to_the_origin_took() {
    let origin = Origin::start(|_, _, stream| answer(stream, "200 OK", FRESH, &vec![7; 50_000]));
    let memory = memory_directory();
    let cache = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display());
    let server = Setup::new().sites(&origin.sites()).section(&cache).start();
    let mut client = Client::plain(&server);
    client.get("/film?first");
    let line = server.logged("/film?first");
    assert_eq!((&line["cache"], &line["tier"]), (&"miss".into(), &"origin".into()), "{line}");
    let upstream = &line["upstream"];
    assert_eq!(upstream["url"], origin.url(), "{line}");
    for step in ["connect_ms", "ttfb_ms"] {
        assert!(upstream[step].as_f64().is_some_and(|time| time >= 0.0), "{step}: {line}");
    }
    // The client may have the last byte before the end of the request to the origin was noted.
    let mut number = 0;
    let whole = until("a request with its whole time", || {
        number += 1;
        let target = format!("/whole?{number}");
        client.get(&target);
        let upstream = server.logged(&target)["upstream"].clone();
        assert!(upstream["connect_ms"].is_null(), "the connection was open: {upstream}");
        upstream["duration_ms"].is_number().then_some(upstream)
    });
    assert!(whole["duration_ms"].as_f64() >= whole["ttfb_ms"].as_f64(), "{whole}");
    for (number, range) in [(1, ""), (2, "Range: bytes=40000-40009\r\n")] {
        let target = format!("/film?first&{number}");
        client.get(&target);
        client.get_with(&target, range);
        let hit = until("the second line", || {
            server.access_log().into_iter().filter(|line| line["target"] == target).nth(1)
        });
        assert_eq!((&hit["cache"], &hit["tier"]), (&"hit".into(), &"memory".into()), "{hit}");
        assert!(hit["upstream"].is_null(), "{hit}");
    }
    let curl = Tool::curl(&server).args(["--http2", "-k", "-o", "/dev/null"]);
    curl.arg(server.url("/other")).run().ok();
    let line = server.logged("/other");
    assert_eq!((&line["tier"], &line["upstream"]["url"]), (&"origin".into(), &origin.url().into()), "{line}");
}

#[test]
fn a_trace_goes_on_at_the_origin_with_and_without_the_cache() {
    let origin = Origin::start(|head, _, stream| {
        let parent = field(head, "traceparent").unwrap_or("none").to_owned();
        let state = field(head, "tracestate").unwrap_or("none").to_owned();
        answer(stream, "200 OK", FRESH, format!("{parent} {state}").as_bytes())
    });
    let memory = memory_directory();
    let cache = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display());
    let url = origin.url();
    let sites = format!(
        "- {{hosts: [cached.test], origin: {{http: [\"{url}\"]}}}}\n\
         - {{hosts: [relayed.test], origin: {{http: [\"{url}\"], cache: off}}}}"
    );
    let server = Setup::new().sites(&sites).section(&cache).start();
    let mut client = Client::plain(&server);
    for host in ["cached.test", "relayed.test"] {
        let asked = format!(
            "GET /{host} HTTP/1.1\r\nHost: {host}\r\ntraceparent: {PARENT}\r\ntracestate: a=1\r\n\r\n"
        );
        assert_eq!(client.request(asked).text(), format!("{PARENT} a=1"), "{host}");
        let line = server.logged(&format!("/{host}"));
        assert_eq!(
            (&line["tier"], &line["upstream"]["url"]),
            (&"origin".into(), &url.clone().into()),
            "{line}"
        );
    }
    // The trace is that of the request that was sent on, not of the ones that find its object.
    let plain = client.request("GET /cached.test HTTP/1.1\r\nHost: cached.test\r\n\r\n");
    assert_eq!(plain.text(), format!("{PARENT} a=1"));
    let without = client.request("GET /b HTTP/1.1\r\nHost: cached.test\r\n\r\n");
    assert_eq!(without.text(), "none none");
}

#[test]
fn a_response_without_an_origin_has_no_upstream_and_one_that_an_origin_failed_names_it() {
    let dead = penstock_testkit::ReservedAddress::reserve();
    let memory = memory_directory();
    let cache = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display());
    let sites = format!(
        "- {{hosts: [dead.test], origin: {{http: [\"http://{}\"]}}}}\n\
         - {{hosts: [files.test], origin: {{directory: root}}}}",
        dead.address()
    );
    let server = Setup::new().sites(&sites).section(&cache).start();
    server.tolerate_warning("is out: ");
    server.file("clip.mp4", 1_000);
    let mut client = Client::plain(&server);
    assert_eq!(client.request("GET /clip.mp4 HTTP/1.1\r\nHost: files.test\r\n\r\n").status, 200);
    let line = server.logged("/clip.mp4");
    assert!(line["tier"].is_null() && line["upstream"].is_null(), "{line}");
    assert_eq!(client.request("GET /x HTTP/1.1\r\nHost: dead.test\r\n\r\n").status, 502);
    let line = server.logged("/x");
    assert_eq!(line["upstream"]["url"], format!("http://{}", dead.address()), "{line}");
    assert!(line["tier"].is_null() && line["upstream"]["ttfb_ms"].is_null(), "{line}");
}
