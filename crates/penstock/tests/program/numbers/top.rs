//! What is asked for most, and by whom.

use std::io::Write;
use std::net::TcpStream;

use penstock_testkit::{Client, Setup, Tool, until};

use super::{status, top_entry};

#[test]
fn titles_and_refused_paths_are_counted_by_requests_and_bytes() {
    let server = Setup::new().sites("- {hosts: [localhost], origin: {directory: root}}").start();
    for name in ["vod/film/720p/1.m4s", "vod/film/720p/2.m4s", "vod/other/1.m4s"] {
        std::fs::create_dir_all(server.path(name).parent().unwrap()).unwrap();
        server.file(name, 50_000);
    }
    let mut client = Client::plain(&server);
    for _ in 0..3 {
        assert_eq!(client.get("/vod/film/720p/1.m4s").status, 200);
    }
    // Small enough to be sent without a task, and not: over HTTP/2.
    server.file("vod/film/small.vtt", 100);
    for path in ["/vod/film/720p/2.m4s", "/vod/film/small.vtt"] {
        Tool::curl(&server).args(["--http2", "-o", "/dev/null"]).arg(server.url(path)).run().ok();
    }
    assert_eq!(client.get("/vod/other/1.m4s").status, 200);
    assert_eq!(client.get("/vod/gone.m4s?token=secret").status, 404);
    let film = until("five responses", || {
        let film = top_entry(&server, "titles", "localhost/vod/film/");
        (film["requests"] == 5).then_some(film)
    });
    assert_eq!((&film["bytes"], &film["error"]), (&200_100.into(), &0.into()));
    assert_eq!(top_entry(&server, "titles_by_requests", "localhost/vod/film/"), film);
    let first = &status(&server)["top"]["titles"][0];
    assert_eq!(first["key"], "localhost/vod/film/", "the largest comes first");
    let refused = until("the refused path", || {
        Some(top_entry(&server, "not_found", "localhost/vod/gone.m4s")).filter(|entry| !entry.is_null())
    });
    assert_eq!(refused["requests"], 1);
}

#[test]
fn a_segment_of_the_path_names_the_title_if_a_pattern_says_so() {
    let sites = "- {hosts: [a.test], origin: {directory: root}, title_patterns: [\"/{title}/*\"]}\n\
                 - {hosts: [b.test], origin: {directory: root}}";
    let setup = Setup::new().sites(sites);
    let server = setup.section("metrics: {title_patterns: [\"/vod/{title}/*\"]}").start();
    for name in ["vod/film/720p/1.m4s", "clip.mp4"] {
        std::fs::create_dir_all(server.path(name).parent().unwrap()).unwrap();
        server.file(name, 1_000);
    }
    let mut client = Client::plain(&server);
    for host in ["a.test", "b.test"] {
        for path in ["/vod/film/720p/1.m4s", "/clip.mp4"] {
            // The player names something else, which counts only where no pattern matches.
            let said = "CMCD-Session: cid=\"player's\"";
            let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{said}\r\n\r\n");
            assert_eq!(client.request(head).status, 200, "{host}{path}");
        }
    }
    for title in ["a.test vod", "a.test player's", "b.test film", "b.test player's"] {
        let entry =
            until(title, || Some(top_entry(&server, "titles", title)).filter(|entry| !entry.is_null()));
        assert_eq!((&entry["requests"], &entry["bytes"]), (&1.into(), &1_000.into()), "{title}");
    }
}

#[test]
fn networks_and_user_agents_are_counted_and_what_clients_say_is_bounded_and_escaped() {
    let setup = Setup::new().listeners(&["proxy_protocol: true"]);
    let server = setup.sites("- {hosts: [localhost], origin: {directory: root}}").start();
    server.file("clip.mp4", 1_000);
    let long = "x".repeat(2_000);
    for (address, agent) in [
        ("192.0.2.7", "player/1.0"),
        ("192.0.2.9", "player/1.0"),
        ("198.51.100.1", "a \"quoted\\\" agent<script>"),
        ("198.51.100.1", &*long),
    ] {
        let mut socket = TcpStream::connect(server.http()).unwrap();
        socket.write_all(format!("PROXY TCP4 {address} 127.0.0.1 4000 443\r\n").as_bytes()).unwrap();
        let mut client = Client::over(socket);
        assert_eq!(client.get_with("/clip.mp4", &format!("User-Agent: {agent}\r\n")).status, 200);
    }
    let network = until("the responses", || {
        let network = top_entry(&server, "networks", "198.51.100.0/24");
        (network["requests"] == 2).then_some(network)
    });
    assert_eq!(network["bytes"], 2_000);
    for (table, key, requests) in [
        ("networks", "192.0.2.0/24", 2),
        ("user_agents", "player/1.0", 2),
        ("user_agents", "a \"quoted\\\" agent<script>", 1),
    ] {
        until(key, || (top_entry(&server, table, key)["requests"] == requests).then_some(()));
    }
    let status = status(&server);
    let lengths = status["top"]["user_agents"].as_array().unwrap().iter();
    assert_eq!(lengths.map(|entry| entry["key"].as_str().unwrap().len()).max(), Some(256));
    let scrape = server.metrics();
    assert!(scrape.0.keys().all(|series| !series.contains("player/1.0")), "no label has what a client says");
}
