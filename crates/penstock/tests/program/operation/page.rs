//! What the admin listener shows and who may see it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use penstock_testkit::origin::Origin;
use penstock_testkit::{Client, Server, Setup, Tool, memory_directory, until};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::{ask_admin, text_of};

fn status(server: &Server) -> Value {
    serde_json::from_str(&ask_admin(server, "/status.json").1).unwrap()
}

#[test]
fn commands_send_the_token_and_a_reload_replaces_it() {
    let server = Setup::new().start();
    let file = server.directory().join("admin.token");
    let write = |token: &str| {
        fs::write(&file, format!("{token}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let with_token = text_of(&Setup::new()).replace("address: ADMIN", "address: ADMIN, token: admin.token");
    assert!(with_token.contains("admin.token"), "{with_token}");
    let reload = |times| {
        server.configure(&Setup::new().whole(&with_token));
        server.signal(Signal::HUP);
        server.logs("INFO reloaded", times);
    };
    let bearer = |token: &str| {
        let url = format!("http://{}/metrics", server.admin());
        let field = format!("Authorization: Bearer {token}");
        Tool::curl(&server)
            .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", &field, &url])
            .run()
            .text()
    };
    write("0123456789abcdef");
    reload(1);
    assert_eq!((ask_admin(&server, "/metrics").0, ask_admin(&server, "/healthz").0), (401, 200));
    assert_eq!(
        (bearer("0123456789abcdef"), bearer("fedcba9876543210")),
        ("200".to_owned(), "401".to_owned())
    );
    let purge = || {
        let config = server.directory().join("penstock.yaml");
        let command = Tool::penstock().args(["cache", "purge", "--everything", "-c"]).arg(config);
        command.run().ok().text()
    };
    assert_eq!(purge().trim(), "purged 0 objects");
    write("fedcba9876543210");
    reload(2);
    assert_eq!(
        (bearer("0123456789abcdef"), bearer("fedcba9876543210")),
        ("401".to_owned(), "200".to_owned())
    );
}

/// A server of these sites, of which an origin may be out.
fn cached(sites: &str) -> (TempDir, Server) {
    let memory = memory_directory();
    let cache = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display());
    let server = Setup::new().sites(sites).section(&cache).start();
    server.tolerate_warning("origin http://127.0.0.1:1 is out");
    (memory, server)
}

#[test]
fn an_origin_that_is_out_is_said_in_words_and_counted_by_server() {
    let origin = Origin::answering("200 OK", "Cache-Control: max-age=60\r\n", "x");
    // Port 1 has no listener.
    let sites = format!(
        "- {{hosts: [good.test], origin: {{http: [\"{}\"]}}}}\n- {{hosts: [bad.test], origin: {{http: [\"http://127.0.0.1:1\"]}}}}",
        origin.url()
    );
    let (_memory, server) = cached(&sites);
    let ask = |host: &str, path: &str| {
        let mut client = Client::plain(&server);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        client.response().unwrap().status
    };
    assert_eq!(ask("good.test", "/a"), 200);
    for number in 0..10 {
        assert_eq!(ask("bad.test", &format!("/{number}")), 502);
    }
    let problem = until("the problem", || {
        let status = status(&server);
        let problems = status["problems"].as_array().unwrap().clone();
        problems.into_iter().find(|problem| problem["subject"] == "origins")
    });
    let what = problem["what"].as_str().unwrap();
    assert!(what.starts_with("origin http://127.0.0.1:1 is out: cannot connect"), "{what}");
    assert_eq!(problem["severity"], "critical");
    assert!(problem["since_timestamp_seconds"].as_u64().unwrap() > 1_700_000_000);
    let good = format!("target=\"{}\"", origin.url());
    let metrics = server.metrics();
    assert_eq!(metrics.sum("penstock_origin_target_requests_total", &[&good, "outcome=\"answered\""]), 1.0);
    assert_eq!(metrics.sum("penstock_origin_target_requests_total", &[&good]), 1.0);
    assert!(metrics.sum("penstock_origin_target_first_byte_seconds_sum", &[&good]) > 0.0);
    assert!(metrics.sum("penstock_origin_target_requests_total", &["127.0.0.1:1\""]) >= 1.0);
    let servers = &status(&server)["origins"]["servers"];
    let named = |url: &str| servers.as_array().unwrap().iter().find(|server| server["url"] == url).unwrap();
    assert_eq!(
        (&named(&origin.url())["up"], &named("http://127.0.0.1:1")["up"]),
        (&true.into(), &false.into())
    );
}

#[test]
fn the_history_counts_the_requests_that_metrics_count() {
    let server = Setup::new().start();
    server.file("a.mp4", 1000);
    let history = || -> Value { serde_json::from_str(&ask_admin(&server, "/history.json").1).unwrap() };
    until("the first two points", || {
        (history()["series"]["requests_per_second"].as_array().unwrap().len() >= 2).then_some(())
    });
    let mut client = Client::plain(&server);
    // Rates of seconds that last a little longer or shorter add up to about the number of requests.
    until("the requests", || {
        for _ in 0..30 {
            client.get("/a.mp4");
        }
        let history = history();
        let points = history["series"]["requests_per_second"].as_array().unwrap().clone();
        let sum: f64 = points.iter().filter_map(Value::as_f64).sum();
        (sum > 20.0).then_some(())
    });
}

/// The first lines of `penstock top`, once as text.
fn top(server: &Server, code: i32) -> String {
    let config = server.directory().join("penstock.yaml");
    Tool::penstock().args(["top", "--once", "-c"]).arg(config).run().exits_with(code).text()
}

#[test]
fn top_prints_the_numbers_once_and_draws_them_in_a_terminal() {
    let server = Setup::new().start();
    let text = until("a second point", || {
        let text = top(&server, 0);
        text.contains("requests                 0/s").then_some(text)
    });
    assert!(text.starts_with("Penstock 0.") && text.contains("up "), "{text}");
    let address = server.admin().to_string();
    let without = Tool::penstock().args(["top", "--admin", &address]).run().exits_with(2).stderr;
    assert!(without.contains("--once"), "{without}");
    // `script` gives it a terminal; the key ends it.
    let command =
        format!("stty rows 40 cols 120; exec {} top --admin {address}", penstock_testkit::program());
    let drawn =
        Tool::new("script").args(["-qec", &command, "/dev/null"]).env("TERM", "xterm").run_with_input(b"pq");
    let drawn = drawn.ok().text();
    assert!(drawn.contains("open connections"), "{drawn}");
}

#[test]
fn top_shows_titles_players_and_certificates_of_a_server_that_works() {
    let server = Setup::new().sites("- {hosts: [localhost], origin: {directory: root}}").start();
    fs::create_dir_all(server.path("film")).unwrap();
    server.file("film/a.m4s", 3_000);
    let mut client = Client::plain(&server);
    for number in 0..8 {
        let said = if number < 2 {
            "bl%3D0%2Cbr%3D3000%2Cbs%2Cmtp%3D1500"
        } else {
            "bl%3D20000%2Cbr%3D3000%2Cmtp%3D9000"
        };
        assert_eq!(client.get(&format!("/film/a.m4s?CMCD={said}")).status, 200);
    }
    let address = server.admin().to_string();
    let shown = |tab: &str| {
        let text =
            Tool::penstock().args(["top", "--once", "--admin", &address, "--show", tab]).run().ok().text();
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let titles = until("eight requests", || {
        let titles = shown("titles");
        titles.contains("localhost/film/ 8 23.4 KiB 25.0 %").then_some(titles)
    });
    assert_eq!(titles.matches("localhost/film/ 8 ").count(), 2, "by bytes and by requests: {titles}");
    let players = shown("players");
    assert!(players.contains("localhost 0 8 25.0 % 25.0 % 25.0 % 0"), "{players}");
    assert!(players.contains("title that starves times\nlocalhost/film/ 2"), "{players}");
    assert!(shown("certificates").contains("localhost ecdsa "), "{}", shown("certificates"));
    for (tab, words) in [
        ("nodes", "belongs to no cluster"),
        ("keys", "no private key is elsewhere"),
        ("store", "belongs to no fleet"),
    ] {
        assert!(shown(tab).contains(words), "{tab}: {}", shown(tab));
    }
    // The screen is drawn as a whole at first, so its texts are in one piece.
    for (tab, words) in
        [("titles", "title, by requests"), ("players", "title that starves"), ("certificates", "certificate")]
    {
        let command = format!(
            "stty rows 24 cols 80; exec {} top --show {tab} --admin {address}",
            penstock_testkit::program()
        );
        let terminal = Tool::new("script").args(["-qec", &command, "/dev/null"]).env("TERM", "xterm");
        let drawn = terminal.run_with_input(b"1234567\tq").ok().text();
        assert!(drawn.contains(words) && drawn.contains("7 store"), "{tab}: {drawn}");
    }
}

#[test]
fn top_exits_with_1_if_something_critical_is_wrong() {
    let sites =
        "- {hosts: [bad.test], origin: {http: [\"http://127.0.0.1:1\"]}}\n- origin: {directory: root}";
    let (_memory, server) = cached(sites);
    let mut client = Client::plain(&server);
    until("the origin to be out", || {
        client.request("GET /a HTTP/1.1\r\nHost: bad.test\r\n\r\n");
        let problems = status(&server)["problems"].as_array().unwrap().clone();
        problems.into_iter().find(|problem| problem["subject"] == "origins")
    });
    let text = top(&server, 1);
    assert!(text.contains("critical: origin http://127.0.0.1:1 is out: "), "{text}");
    assert!(text.contains("http://127.0.0.1:1       out, -, failed "), "{text}");
}
