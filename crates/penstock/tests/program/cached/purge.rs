//! Purging: what came before is not served after, by any worker, nor by the next process.

use std::io::{Read, Write};
use std::net::TcpStream;

use penstock_testkit::origin::{Origin, answer, write};
use penstock_testkit::{Client, Gate, Server, Tool};
use rustix::process::Signal;

use super::Edge;

/// An origin whose every answer is another one, with these fields.
fn counting(fields: &'static str) -> Origin {
    Origin::counting(fields)
}

const LONG: &str = "Cache-Control: max-age=600\r\n";

/// Asks the admin listener; status and body.
fn admin(server: &Server, request: &str) -> (u16, serde_json::Value) {
    let mut stream = TcpStream::connect(server.admin()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let body = text.split_once("\r\n\r\n").unwrap().1;
    (status, serde_json::from_str(body).unwrap_or_default())
}

pub(crate) fn purge(server: &Server, query: &str) -> u64 {
    let request =
        format!("POST /cache/purge?{query} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    let (status, body) = admin(server, &request);
    assert_eq!(status, 200, "{body}");
    body["purged"].as_u64().unwrap()
}

#[test]
fn a_purged_url_is_fetched_again_and_others_are_not() {
    let origin = counting(LONG);
    let edge = Edge::of(&origin);
    // Several connections: more than one worker has seen them.
    let get = |path: &str| Client::plain(&edge.server).get(path).text().to_owned();
    for _ in 0..4 {
        assert_eq!((get("/a?x=1"), get("/a?x=2")), ("0".to_owned(), "1".to_owned()));
    }
    assert_eq!(purge(&edge.server, "url=https://localhost/a?x=1"), 1);
    for _ in 0..4 {
        assert_eq!((get("/a?x=1"), get("/a?x=2")), ("2".to_owned(), "1".to_owned()));
    }
    assert_eq!(purge(&edge.server, "url=https://localhost/nothing"), 0);
    assert_eq!(purge(&edge.server, "url=/a%3Fx=2"), 1, "a path is that path on every site");
    assert_eq!(get("/a?x=2"), "3");
    let metrics = edge.server.metrics();
    assert_eq!(metrics.sum("penstock_cache_purges_total", &["kind=\"url\""]), 3.0);
    assert_eq!(metrics.sum("penstock_cache_purged_objects_total", &[]), 2.0);
}

#[test]
fn prefixes_and_everything_are_purged() {
    let origin = counting(LONG);
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    for path in ["/vod/1/a", "/vod/1/b?c", "/vod/2/a"] {
        client.get(path);
    }
    assert_eq!(purge(&edge.server, "prefix=https://localhost/vod/1/"), 2);
    assert_eq!((client.get("/vod/1/a").text(), client.get("/vod/2/a").text()), ("3", "2"));
    assert_eq!(purge(&edge.server, "everything=1"), 2);
    assert_eq!(client.get("/vod/2/a").text(), "4");
}

#[test]
fn tags_purge_what_has_them_and_are_not_shown_to_clients() {
    let origin = Origin::start(|head, number, stream| {
        let tags = if head.contains("/a") {
            "Surrogate-Key: film-1 news\r\nSurrogate-Key: x\r\n"
        } else {
            "Cache-Tag: film-2, news\r\n"
        };
        answer(stream, "200 OK", &format!("{LONG}{tags}"), format!("{number}").as_bytes())
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    let (a, b) = (client.get("/a"), client.get("/b"));
    assert_eq!((a.field("Surrogate-Key"), b.field("Cache-Tag")), (None, None));
    assert_eq!(purge(&edge.server, "tag=film-2"), 1);
    assert_eq!((client.get("/a").text(), client.get("/b").text()), ("0", "2"));
    assert_eq!(purge(&edge.server, "tag=film"), 0, "a tag is a whole word");
    assert_eq!(purge(&edge.server, "tag=news"), 2);
    assert_eq!((client.get("/a").text(), client.get("/b").text()), ("3", "4"));
    assert_eq!(purge(&edge.server, "tag=x"), 1);
}

#[test]
fn a_soft_purge_makes_stale_what_is_then_confirmed_or_served_meanwhile() {
    let origin = Origin::start(|head, _, stream| {
        let fields = "ETag: \"v1\"\r\nCache-Control: max-age=600\r\n";
        if head.to_ascii_lowercase().contains("if-none-match: \"v1\"") {
            answer(stream, "304 Not Modified", fields, b"")
        } else {
            answer(stream, "200 OK", fields, b"body")
        }
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    client.get("/a");
    assert_eq!(purge(&edge.server, "url=https://localhost/a&soft=1"), 1);
    for _ in 0..2 {
        assert_eq!(client.get("/a").text(), "body");
    }
    assert_eq!((edge.fetched("answered"), edge.fetched("not_modified")), (1.0, 1.0));
    let origin = counting("Cache-Control: max-age=600, stale-while-revalidate=600\r\n");
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    client.get("/a");
    purge(&edge.server, "url=https://localhost/a&soft=1");
    let stale = client.get("/a");
    assert_eq!(stale.text(), "0");
    assert!(stale.field("Cache-Status").unwrap().contains("stale-while-revalidate"), "{}", stale.head);
}

#[test]
fn a_response_under_way_when_it_is_purged_is_not_stored() {
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |_, number, stream| {
        if number == 0 {
            held.pass();
        }
        write(stream, format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n{LONG}\r\n{number}"))
    });
    let edge = Edge::of(&origin);
    let mut early = Client::plain(&edge.server);
    early.ask("/a");
    gate.wait_for_arrivals(1);
    purge(&edge.server, "url=https://localhost/a");
    let mut late = Client::plain(&edge.server);
    late.ask("/a");
    gate.let_one_pass();
    assert_eq!(early.response().unwrap().text(), "0", "it asked before the purge");
    assert_eq!(late.response().unwrap().text(), "1");
    assert_eq!(Client::plain(&edge.server).get("/a").text(), "1");
}

#[test]
fn the_next_process_does_not_serve_what_was_purged() {
    let origin = counting("Cache-Control: max-age=600\r\nSurrogate-Key: film\r\n");
    let mut edge = Edge::of(&origin);
    let get = |edge: &Edge, path: &str| Client::plain(&edge.server).get(path).text().to_owned();
    assert_eq!((get(&edge, "/a"), get(&edge, "/b"), get(&edge, "/c")), ("0".into(), "1".into(), "2".into()));
    purge(&edge.server, "url=https://localhost/a");
    edge.server.start_again(Signal::KILL);
    assert_eq!(get(&edge, "/c"), "2", "it has kept what was not purged");
    assert_eq!(get(&edge, "/a"), "3");
    edge.server.start_again(Signal::KILL);
    // No request has restored them in this process.
    purge(&edge.server, "tag=film");
    assert_eq!(get(&edge, "/a"), "4");
    edge.server.start_again(Signal::KILL);
    assert_eq!((get(&edge, "/a"), get(&edge, "/b"), get(&edge, "/c")), ("4".into(), "5".into(), "6".into()));
}

#[test]
fn the_method_purge_and_the_command_do_the_same() {
    let origin = counting(LONG);
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    assert_eq!(client.get("/a?b").text(), "0");
    let (status, body) = admin(&edge.server, "PURGE /a?b HTTP/1.1\r\nHost: localhost:8443\r\n\r\n");
    assert_eq!((status, &body["purged"]), (200, &serde_json::json!(1)));
    assert_eq!(client.get("/a?b").text(), "1");
    let file = edge.server.directory().join("penstock.yaml");
    let command = |arguments: &[&str]| {
        let tool = Tool::penstock().args(["cache", "purge", "-c"]).arg(&file);
        tool.args(arguments).run()
    };
    assert_eq!(command(&["--url", "https://localhost/a?b"]).ok().text(), "purged 1 object\n");
    assert_eq!(client.get("/a?b").text(), "2");
    assert_eq!(command(&["--tag", "none", "--soft"]).ok().text(), "purged 0 objects\n");
    assert!(command(&["--url", "a.mp4"]).exits_with(2).stderr.contains("is not a URL"));
    command(&["--url", "/a", "--tag", "b"]).exits_with(2);
}

#[test]
fn an_impossible_purge_is_refused_with_a_reason() {
    let origin = counting(LONG);
    let sites = format!(
        "{}\n  hosts: [video.test]\n- {{hosts: [files.test], origin: {{directory: root}}}}",
        origin.sites()
    );
    let edge = Edge::before(&sites);
    for (target, why) in [
        ("url=https://other.test/a", "no site answers to other.test"),
        ("url=https://files.test/a", "the site of files.test serves a directory"),
        ("prefix=video.test", "is not a URL"),
        ("tag=a%20b", "is not one tag"),
    ] {
        let request =
            format!("POST /cache/purge?{target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        let (status, body) = admin(&edge.server, &request);
        assert_eq!(status, 400, "{target}");
        assert!(body["error"].as_str().unwrap().contains(why), "{body}");
    }
}
