//! Methods, conditions, fields, encodings and keep-alive, as curl and a client of raw bytes see them.

use std::fs;
use std::os::unix::fs::MetadataExt;

use penstock_testkit::origin::{Origin, answer, target};
use penstock_testkit::{Client, Setup, Stream, Tool, memory_directory};

#[test]
fn a_file_arrives_over_https_and_http_with_its_type_and_length() {
    let server = Setup::new().start();
    let file = server.file("clip.mp4", 70_000);
    for response in [Client::tls(&server).get("/clip.mp4"), Client::plain(&server).get("/clip.mp4")] {
        assert_eq!(response.status, 200);
        assert_eq!(response.field("Content-Type"), Some("video/mp4"));
        assert_eq!(response.field("Content-Length"), Some("70000"));
        assert_eq!(response.field("Accept-Ranges"), Some("bytes"));
        assert_eq!(response.field("Connection"), None);
        file.assert_range(0..70_000, &response.body);
    }
}

#[test]
fn the_validators_are_those_of_the_file() {
    let server = Setup::new().start();
    let path = server.write("clip.ts", "packets");
    let mut client = Client::plain(&server);
    let before = client.get("/clip.ts");
    let modified = before.field("Last-Modified").unwrap();
    let seconds = Tool::new("date").args(["+%s", "-u", "-d", modified]).run().ok().text();
    assert_eq!(seconds.trim(), fs::metadata(&path).unwrap().mtime().to_string());
    assert!(
        before.field("ETag").is_some_and(|tag| tag.starts_with('"') && tag.ends_with('"')),
        "a strong tag"
    );
    assert_eq!(client.get("/clip.ts").field("ETag"), before.field("ETag"), "the same while nothing changes");
    let date = before.field("Date").unwrap();
    assert!(Tool::new("date").args(["-u", "-d", date]).run().ok().text().len() > 1, "{date} is a date");
}

#[test]
fn each_kind_of_media_has_its_type() {
    let server = Setup::new().start();
    let mut client = Client::plain(&server);
    for (name, content_type) in [
        ("a.m3u8", "application/vnd.apple.mpegurl"),
        ("a.mpd", "application/dash+xml"),
        ("a.ts", "video/mp2t"),
        ("a.m4s", "video/iso.segment"),
        ("a.mp4", "video/mp4"),
        ("A.MP4", "video/mp4"),
        ("a.m4a", "audio/mp4"),
        ("a.vtt", "text/vtt"),
        ("a.webm", "video/webm"),
        ("a.jpg", "image/jpeg"),
        ("a.html", "text/html; charset=utf-8"),
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.unknown", "application/octet-stream"),
        ("plain", "application/octet-stream"),
    ] {
        server.write(name, "x");
        assert_eq!(client.get(&format!("/{name}")).field("Content-Type"), Some(content_type), "{name}");
    }
}

#[test]
fn head_is_get_without_a_body() {
    let server = Setup::new().start();
    server.file("clip.mp4", 70_000);
    server.write("list.m3u8", "#EXTM3U\n".repeat(100));
    let without_date =
        |head: &str| head.lines().filter(|line| !line.starts_with("Date: ")).collect::<Vec<_>>().join("\n");
    for (path, fields) in [
        ("/clip.mp4", ""),
        ("/clip.mp4", "If-None-Match: *\r\n"),
        ("/list.m3u8", ""),
        ("/list.m3u8", "Accept-Encoding: br\r\n"),
        ("/none.mp4", ""),
    ] {
        let mut client = Client::tls(&server);
        // Once before: the first request for an encoding may be the one that makes it.
        client.get_with(path, fields);
        let get = client.get_with(path, fields);
        let head = client.head_with(path, fields);
        assert_eq!(without_date(&head.head), without_date(&get.head), "{path} {fields}");
        client.assert_open();
    }
    let mut client = Client::tls(&server);
    let ranged = client.head_with("/clip.mp4", "Range: bytes=0-9\r\n");
    assert_eq!((ranged.status, ranged.field("Content-Length")), (200, Some("70000")), "Range is for GET");
    client.assert_open();
}

#[test]
fn options_names_the_methods() {
    let server = Setup::new().start();
    let mut client = Client::tls(&server);
    for target in ["*", "/", "/none.mp4"] {
        let response = client.request(format!("OPTIONS {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(response.status, 204, "{target}");
        assert_eq!(response.field("Allow"), Some("GET, HEAD, OPTIONS"), "{target}");
    }
}

#[test]
fn other_methods_are_405_and_the_connection_stays() {
    let server = Setup::new().start();
    server.write("a.mp4", "x");
    let mut client = Client::tls(&server);
    for method in ["DELETE", "PATCH", "PROPFIND", "M-SEARCH", "get"] {
        let response = client.request(format!("{method} /a.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(response.status, 405, "{method}");
        assert_eq!(response.field("Allow"), Some("GET, HEAD, OPTIONS"), "{method}");
    }
    let body = "Content-Length: 5\r\n\r\nhello";
    assert_eq!(client.request(format!("POST /a.mp4 HTTP/1.1\r\nHost: localhost\r\n{body}")).status, 405);
    let chunks = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert_eq!(client.request(format!("POST /a.mp4 HTTP/1.1\r\nHost: localhost\r\n{chunks}")).status, 405);
    client.assert_open();
}

#[test]
fn an_upload_that_waits_for_100_continue_is_refused_at_once() {
    let server = Setup::new().start();
    let film = server.directory().join("film.mp4");
    fs::write(&film, vec![7; 8 << 20]).unwrap();
    let curl = Tool::curl(&server).args(["-H", "Expect: 100-continue", "--expect100-timeout", "40"]);
    // Without an answer curl would begin to send after that timeout, and then count what it sent.
    let curl = curl.args(["-w", "%{http_code} %{size_upload}", "-o", "/dev/null", "-T"]).arg(&film);
    assert_eq!(curl.arg(server.url("/film.mp4")).run().ok().text(), "405 0");
}

#[test]
fn an_upload_that_does_not_wait_is_refused_behind_its_body_or_before_its_end_with_the_same_status() {
    let server = Setup::new().start();
    let film = server.directory().join("film.mp4");
    for size in [60_000, 110_000] {
        fs::write(&film, vec![7; size]).unwrap();
        let curl = Tool::curl(&server).args(["-H", "Expect:", "-w", "%{http_code}", "-o", "/dev/null", "-T"]);
        let finished = curl.arg(&film).arg(server.url("/film.mp4")).run();
        // Some versions call it a failed upload, but only after they have read the answer.
        assert_eq!(finished.text(), "405", "{}", finished.stderr);
    }
}

#[test]
fn http_1_0_closes_unless_asked_to_stay() {
    let server = Setup::new().start();
    let file = server.file("clip.mp4", 70_000);
    let output = Tool::curl(&server).arg("--http1.0").arg(server.url("/clip.mp4")).run().ok();
    file.assert_range(0..70_000, &output.stdout);

    let mut client = Client::plain(&server);
    let response = client.request("GET /clip.mp4 HTTP/1.0\r\n\r\n");
    assert_eq!((response.status, response.field("Connection")), (200, None));
    file.assert_range(0..70_000, &response.body);
    client.assert_closed();

    let mut client = Client::plain(&server);
    let response = client.request("GET /clip.mp4 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(response.field("Connection"), Some("keep-alive"));
    client.assert_open();
}

#[test]
fn connection_close_is_obeyed() {
    let server = Setup::new().start();
    let file = server.file("clip.mp4", 700_000);
    let mut client = Client::tls(&server);
    let response = client.get_with("/clip.mp4", "Connection: close\r\n");
    assert_eq!(response.field("Connection"), Some("close"));
    file.assert_range(0..700_000, &response.body);
    client.assert_closed();
}

#[test]
fn the_absolute_form_names_the_host() {
    let server = Setup::new()
        .sites("- {hosts: [localhost], origin: {directory: root}}\n- {hosts: [other.example], origin: {directory: /usr}}")
        .start();
    let file = server.file("clip.mp4", 1000);
    // A proxy gets the absolute form.
    let curl = Tool::curl(&server).arg("--proxy").arg(format!("http://{}", server.http()));
    file.assert_range(0..1000, &curl.arg("http://localhost/clip.mp4").run().ok().stdout);
    let mut client = Client::tls(&server);
    let request = "GET https://localhost/clip.mp4 HTTP/1.1\r\nHost: other.example\r\n\r\n";
    file.assert_range(0..1000, &client.request(request).body);
    client.assert_open();
}

#[test]
fn a_404_does_not_cost_the_connection() {
    let server = Setup::new().start();
    server.write("there.mp4", "x");
    let curl = Tool::curl(&server).args(["-w", "%{http_code} %{num_connects}\n", "-o", "/dev/null"]);
    let urls = [server.url("/none.mp4"), server.url("/none/either.mp4"), server.url("/there.mp4")];
    let curl = urls.into_iter().fold(curl, |curl, url| curl.args(["-o", "/dev/null"]).arg(url));
    assert_eq!(curl.run().ok().text(), "404 1\n404 0\n200 0\n");
}

#[test]
fn pages_for_people_are_tiny_and_plain() {
    let server = Setup::new().start();
    let response = Client::tls(&server).get("/none.mp4");
    assert_eq!(response.field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert!(response.body.len() < 100, "{}", response.text());
    assert!(response.text().contains("404"), "{}", response.text());
}

#[test]
fn a_file_that_curl_has_already_is_304() {
    let server = Setup::new().start();
    server.file("clip.mp4", 5000);
    let directory = server.directory();
    let fetch = |arguments: &[&str]| {
        let curl = Tool::curl(&server).directory(directory).args(["-w", "%{http_code} %{size_download}"]);
        curl.args(arguments).arg(server.url("/clip.mp4")).run().ok().text()
    };
    assert_eq!(fetch(&["-o", "copy", "--remote-time", "--etag-save", "tag"]), "200 5000");
    assert_eq!(fetch(&["-o", "again", "--etag-compare", "tag"]), "304 0");
    assert_eq!(fetch(&["-o", "again", "-z", "copy"]), "304 0");
    assert_eq!(fetch(&["-o", "again", "-z", "-2037-01-01"]), "200 5000", "unmodified since");
    assert_eq!(fetch(&["-o", "again", "-z", "2001-01-01"]), "200 5000", "modified since");

    server.file("clip.mp4", 6000);
    let changed = || (fetch(&["-o", "again", "--etag-compare", "tag"]) == "200 6000").then_some(());
    penstock_testkit::until("the new file under the old tag", changed);
}

#[test]
fn conditions_are_taken_in_their_order() {
    let server = Setup::new().start();
    server.file("clip.mp4", 5000);
    let mut client = Client::tls(&server);
    let tag = client.get("/clip.mp4").field("ETag").unwrap().to_owned();
    let (past, future) = ("Mon, 01 Jan 2001 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT");
    for (fields, status) in [
        (format!("If-None-Match: {tag}\r\n"), 304),
        (format!("If-None-Match: \"x\", W/{tag}\r\n"), 304),
        ("If-None-Match: *\r\n".to_owned(), 304),
        ("If-None-Match: \"x\"\r\n".to_owned(), 200),
        // The tag is the better witness; the date beside it does not count.
        (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {future}\r\n"), 200),
        (format!("If-Modified-Since: {future}\r\n"), 304),
        (format!("If-Modified-Since: {past}\r\n"), 200),
        ("If-Modified-Since: yesterday\r\n".to_owned(), 200),
        (format!("If-Match: {tag}\r\n"), 200),
        ("If-Match: \"x\"\r\n".to_owned(), 412),
        (format!("If-Unmodified-Since: {past}\r\n"), 412),
        (format!("If-Unmodified-Since: {future}\r\nIf-None-Match: {tag}\r\n"), 304),
    ] {
        let response = client.get_with("/clip.mp4", &fields);
        assert_eq!(response.status, status, "{fields}");
        if status == 304 {
            assert_eq!(response.field("ETag"), Some(&*tag), "{fields}");
        }
    }
    client.assert_open();
}

#[test]
fn manifests_are_compressed_for_clients_that_accept_it() {
    let server = Setup::new().start();
    let text: String = (0..500).map(|n| format!("#EXTINF:2.0,\nsegment-{n}.m4s\n")).collect();
    server.write("list.m3u8", &text);
    let mut tags = Vec::new();
    for accepted in [None, Some("gzip"), Some("br"), Some("gzip, deflate, br, zstd")] {
        let curl = Tool::curl(&server).args(["--dump-header", "/dev/stderr"]);
        let curl = match accepted {
            None => curl,
            Some(accepted) => curl.args(["--compressed", "-H"]).arg(format!("Accept-Encoding: {accepted}")),
        };
        let finished = curl.arg(server.url("/list.m3u8")).run().ok();
        // curl has decompressed it.
        assert_eq!(finished.text(), text, "{accepted:?}");
        let field = |name: &str| {
            let line = finished.stderr.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.map(str::to_owned)
        };
        let encoding = accepted.map(|accepted| if accepted.contains("br") { "br" } else { "gzip" });
        assert_eq!(field("Content-Encoding").as_deref(), encoding, "{accepted:?}");
        assert_eq!(field("Vary").as_deref(), Some("Accept-Encoding"), "{accepted:?}");
        let length: usize = field("Content-Length").unwrap().parse().unwrap();
        assert!(accepted.is_none() || length < text.len() / 4, "{accepted:?}: {length} bytes");
        tags.push(field("ETag").unwrap());
    }
    assert_eq!(tags[2], tags[3], "the same bytes have the same tag");
    tags.pop();
    tags.dedup();
    assert_eq!(tags.len(), 3, "other bytes have another tag: {tags:?}");

    let mut client = Client::tls(&server);
    for (tag, accepted) in tags.iter().zip(["identity", "gzip", "br"]) {
        let fields = format!("Accept-Encoding: {accepted}\r\nIf-None-Match: {tag}\r\n");
        let response = client.get_with("/list.m3u8", &fields);
        assert_eq!((response.status, response.field("ETag")), (304, Some(&**tag)), "{accepted}");
    }
    let crossed = format!("Accept-Encoding: br\r\nIf-None-Match: {}\r\n", tags[0]);
    assert_eq!(client.get_with("/list.m3u8", &crossed).status, 200, "the tag of other bytes");
}

#[test]
fn manifests_of_an_origin_come_compressed_from_the_cache_and_its_segments_do_not() {
    let segments: String = (0..500).map(|n| format!("#EXTINF:2.0,\nsegment-{n}.ts\n")).collect();
    let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:2\n{segments}#EXT-X-ENDLIST\n");
    let body = text.clone();
    let origin = Origin::start(move |head, _, stream| {
        let kind = if target(head).ends_with(".ts") { "video/mp2t" } else { "application/vnd.apple.mpegurl" };
        let fields = format!("Cache-Control: max-age=60\r\nETag: \"v1\"\r\nContent-Type: {kind}\r\n");
        answer(stream, "200 OK", &fields, body.as_bytes())
    });
    let memory = memory_directory();
    let cache = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display());
    let server = Setup::new().sites(&origin.sites()).section(&cache).start();
    for protocol in ["--http1.1", "--http2"] {
        for accepted in ["gzip", "br"] {
            let curl =
                Tool::curl(&server).args([protocol, "--compressed", "--dump-header", "/dev/stderr", "-H"]);
            let curl = curl.arg(format!("Accept-Encoding: {accepted}")).arg(server.url("/live/index.m3u8"));
            let finished = curl.run().ok();
            assert_eq!(finished.text(), text, "{protocol} {accepted}");
            let head = finished.stderr.to_ascii_lowercase();
            assert!(head.contains(&format!("content-encoding: {accepted}\r\n")), "{head}");
            assert!(head.contains(&format!("etag: \"v1-{accepted}\"\r\n")), "{head}");
        }
    }
    let mut client = Client::tls(&server);
    let segment = client.get_with("/live/1.ts", "Accept-Encoding: gzip, br\r\n");
    assert_eq!((segment.field("Content-Encoding"), segment.field("Vary")), (None, None));
    let known = "Accept-Encoding: gzip\r\nIf-None-Match: \"v1-gzip\"\r\n";
    assert_eq!(client.get_with("/live/index.m3u8", known).status, 304);
    assert_eq!(origin.asked().len(), 2);
}

#[test]
fn media_is_never_compressed() {
    let server = Setup::new().start();
    server.write("clip.m4s", vec![0; 10_000]);
    let response = Client::tls(&server).get_with("/clip.m4s", "Accept-Encoding: gzip, br\r\n");
    assert_eq!(response.field("Content-Encoding"), None);
    assert_eq!(response.field("Vary"), None);
    assert_eq!(response.body.len(), 10_000);
}

#[test]
fn a_changed_manifest_is_compressed_anew() {
    let server = Setup::new().start();
    let fetch = || {
        let curl = Tool::curl(&server).arg("--compressed").arg(server.url("/live.m3u8"));
        curl.run().ok().text()
    };
    for round in 1..=3 {
        let text = format!("#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:{round}\n").repeat(100);
        server.write("live.m3u8", &text);
        penstock_testkit::until("the new manifest", || (fetch() == text).then_some(()));
    }
}

#[test]
fn cors_and_hsts_belong_to_their_sites() {
    let server = Setup::new()
        .sites(
            "- {hosts: [video.example], origin: {directory: root}, headers: {cors: \"*\", hsts: 180d}}\n\
             - {hosts: [\"*.example\"], origin: {directory: root}, headers: {cors: \"https://player.example\"}}\n\
             - hosts: [preloaded.test]\n  origin: {directory: root}\n  \
             headers: {hsts: {max_age: 365d, include_subdomains: true, preload: true}}\n\
             - {hosts: [\"*\"], origin: {directory: root}}",
        )
        .start();
    server.write("a.mp4", "x");
    let fields = |url: String| {
        let curl = Tool::curl(&server).args(["--dump-header", "-", "-o", "/dev/null", "-k"]);
        let ports = (server.https().port(), server.http().port());
        let curl = curl.arg("--connect-to").arg(format!("::127.0.0.1:{}", ports.0));
        let text = curl.args(["-X", "GET"]).arg(url).run().ok().text();
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value[2..].to_owned())
        };
        (field("Access-Control-Allow-Origin"), field("Strict-Transport-Security"))
    };
    let some = |text: &str| Some(text.to_owned());
    for path in ["/a.mp4", "/none.mp4", "/"] {
        let found = fields(format!("https://video.example{path}"));
        assert_eq!(found, (some("*"), some("max-age=15552000")), "{path}");
        let found = fields(format!("https://other.example{path}"));
        assert_eq!(found, (some("https://player.example"), None), "{path}");
        assert_eq!(fields(format!("https://localhost{path}")), (None, None), "{path}");
        let found = fields(format!("https://preloaded.test{path}"));
        assert_eq!(found.1, some("max-age=31536000; includeSubDomains; preload"), "{path}");
    }
    // HSTS means nothing over plain HTTP (RFC 6797 §7.2).
    let plain = Client::plain(&server).request("GET /a.mp4 HTTP/1.1\r\nHost: VIDEO.example:80\r\n\r\n");
    assert_eq!(plain.field("Access-Control-Allow-Origin"), Some("*"));
    assert_eq!(plain.field("Strict-Transport-Security"), None);
}

#[test]
fn a_preflight_may_ask_for_ranges() {
    let server = Setup::new().sites("- {origin: {directory: root}, headers: {cors: \"*\"}}").start();
    let preflight = "Origin: https://player.example\r\nAccess-Control-Request-Method: GET\r\n\
                     Access-Control-Request-Headers: range\r\n";
    let request = format!("OPTIONS /clip.mp4 HTTP/1.1\r\nHost: localhost\r\n{preflight}\r\n");
    let response = Client::tls(&server).request(request);
    assert_eq!(response.status, 204);
    assert!(response.field("Access-Control-Allow-Methods").is_some_and(|methods| methods.contains("GET")));
    let headers = response.field("Access-Control-Allow-Headers").unwrap();
    assert!(headers.split(", ").any(|name| name.eq_ignore_ascii_case("range")), "{headers}");
    server.write("clip.mp4", "x");
    let exposed = Client::tls(&server).get("/clip.mp4");
    let exposed = exposed.field("Access-Control-Expose-Headers").unwrap();
    assert!(exposed.contains("Content-Range") && exposed.contains("Content-Length"), "{exposed}");
}

#[test]
fn pages_that_refuse_a_request_have_the_cors_fields_of_its_site() {
    let origin = Origin::start(|_, _, _| false);
    let memory = memory_directory();
    let server = Setup::new()
        .sites(&format!("- {{origin: {{http: [\"{}\"]}}, headers: {{cors: \"*\"}}}}", origin.url()))
        .section(&format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display()))
        .limits("body_bytes: 10")
        .start();
    let body = server.write("body", "x".repeat(2000));
    for (status, args) in [("413", ["-H", "Expect:"]), ("417", ["-H", "Expect: magic"])] {
        for version in ["--http1.1", "--http2"] {
            let curl = Tool::curl(&server).arg(version).args(args).args(["-i", "-o", "-", "--data-binary"]);
            let text = curl.arg(format!("@{}", body.display())).arg(server.url("/x")).run().text();
            assert!(text.lines().next().is_some_and(|line| line.contains(status)), "{version} {text}");
            assert!(text.to_ascii_lowercase().contains("access-control-allow-origin: *"), "{version} {text}");
        }
    }
    assert!(origin.asked().is_empty(), "{:?}", origin.asked());
}

#[test]
fn a_host_of_no_site_is_421() {
    let server = Setup::new().sites("- {hosts: [localhost], origin: {directory: root}}").start();
    server.write("a.mp4", "x");
    let mut client = Client::tls(&server);
    let ask = |client: &mut Client<_>, host: &str| {
        client.request(format!("GET /a.mp4 HTTP/1.1\r\nHost: {host}\r\n\r\n")).status
    };
    assert_eq!(ask(&mut client, "elsewhere.example"), 421);
    assert_eq!(ask(&mut client, "localhost.elsewhere.example"), 421);
    assert_eq!(ask(&mut client, "LOCALHOST"), 200);
    assert_eq!(ask(&mut client, "localhost:8443"), 200);
    assert_eq!(ask(&mut client, "localhost."), 200, "a final dot is the same name");
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let server = Setup::new().start();
    let files: Vec<_> = (0..20).map(|n| server.file(&format!("{n}.m4s"), 1000 * (20 - n))).collect();
    for round in 0..2 {
        let requests: String = (0..20)
            .map(|n| match n % 5 {
                3 => "GET /none.m4s HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
                4 => format!("HEAD /{n}.m4s HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                _ => format!("GET /{n}.m4s HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            })
            .collect();
        let check = |client: &mut Client<Box<dyn Stream>>| {
            client.send(&requests);
            for (n, file) in files.iter().enumerate() {
                match n % 5 {
                    3 => assert_eq!(client.response().unwrap().status, 404),
                    4 => assert_eq!(
                        client.response_to_head().unwrap().field("Content-Length"),
                        Some(&*file.len.to_string())
                    ),
                    _ => file.assert_range(0..file.len, &client.response().unwrap().body),
                }
            }
            client.assert_open();
        };
        if round == 0 {
            check(&mut Client::tls(&server).boxed());
        } else {
            check(&mut Client::plain(&server).boxed());
        }
    }
}
