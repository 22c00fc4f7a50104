//! Routes, redirects and other rules, with curl as the client.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use penstock_testkit::origin::{Origin, answer, field, target};
use penstock_testkit::{Server, Setup, Tool, memory_directory, until};

/// What curl prints of each response, in this form.
fn curl(server: &Server, form: &str, arguments: &[&str], url: &str) -> String {
    let curl = Tool::curl(server).args(["-o", "/dev/stdout", "-w", form]).args(arguments.iter().copied());
    curl.arg(url).run().ok().text()
}

#[test]
fn curl_follows_a_listener_from_http_to_https_and_a_moved_path() {
    let setup = Setup::new().listeners(&["tls: true", "redirect: https"]);
    let server = setup
        .sites(
            "- origin: {directory: root}\n  headers: {hsts: 1d}\n  routes:\n  \
             - {path: /old/*, redirect: {to: \"/{rest}\", status: 301}}",
        )
        .start();
    server.write("clip.txt", "bytes");
    let form = "\n%{num_redirects} %{url_effective} %header{strict-transport-security}";
    let text = curl(&server, form, &["--location"], &server.plain_url("/old/clip.txt?a=b"));
    let url = server.url("/clip.txt?a=b");
    assert_eq!(text, format!("bytes\n2 {url} max-age=86400"));
    let form = "%{http_code} %header{location} %header{strict-transport-security}";
    let text = curl(&server, form, &[], &server.plain_url("/x"));
    assert_eq!(text, format!("308 Permanent Redirect\n308 {} ", server.url("/x")));
}

#[test]
fn curl_gets_each_route_from_its_origin_and_the_log_names_it() {
    let origin = Origin::start(|head, _, stream| {
        answer(stream, "200 OK", "Cache-Control: max-age=60\r\n", target(head).as_bytes())
    });
    let sites = format!(
        "- origin: {{http: [\"{}\"]}}\n  routes:\n  \
         - {{path: /live/*, rewrite: \"/ingest/{{rest}}\"}}\n  \
         - {{path: \"*.txt\", origin: {{directory: root}}}}\n  \
         - {{path: /robots, respond: {{status: 202, body: \"none\"}}}}",
        origin.url()
    );
    let memory = memory_directory();
    let cache = format!("cache: {{memory: {{directory: {}, size: 64MiB}}}}", memory.path().display());
    let server = Setup::new().sites(&sites).section(&cache).start();
    server.write("a.txt", "file");
    for (path, text, route) in [
        ("/live/a.m4s", "/ingest/a.m4s 200", Some("/live/*")),
        ("/live/../live/%61.m4s", "/ingest/a.m4s 200", Some("/live/*")),
        ("/a.txt", "file 200", Some("*.txt")),
        ("/robots", "none 202", Some("/robots")),
        ("/b", "/b 200", None),
    ] {
        for http in ["--http1.1", "--http2"] {
            let found = curl(&server, " %{http_code}", &["--path-as-is", http], &server.url(path));
            assert_eq!(found, text, "{path} {http}");
        }
        assert_eq!(server.logged(path)["route"].as_str(), route, "{path}");
    }
    assert_eq!(origin.asked().len(), 2, "one for each object");
}

#[test]
fn curl_sees_the_fields_that_rules_set_and_the_origin_its_secret() {
    let origin = Origin::start(|head, _, stream| {
        let key = field(head, "x-origin-key").unwrap_or("no key");
        answer(stream, "200 OK", "Cache-Control: max-age=60\r\nX-Powered-By: a\r\n", key.as_bytes())
    });
    let memory = memory_directory();
    let key = memory.path().join("origin.key");
    fs::write(&key, "a secret of 16 bytes\n").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let sites = format!(
        "- origin: {{http: [\"{}\"]}}\n  headers:\n    \
         response: {{remove: [X-Powered-By], set: {{X-Cache: \"{{cache_status}} {{client}}\"}}}}\n    \
         request: {{set: {{X-Origin-Key: \"{{file.{}}}\"}}}}\n  \
         cors: {{origins: [\"https://a.example\", \"https://b.example\"], credentials: true}}",
        origin.url(),
        key.display()
    );
    let cache = format!("cache: {{memory: {{directory: {}/tier, size: 64MiB}}}}", memory.path().display());
    let server = Setup::new().sites(&sites).section(&cache).start();
    let form = " %header{x-cache} [%header{x-powered-by}] %header{access-control-allow-origin}";
    for (status, http) in [("miss", "--http2"), ("hit", "--http1.1")] {
        let arguments = [http, "-H", "Origin: https://b.example"];
        let text = curl(&server, form, &arguments, &server.url("/a"));
        assert_eq!(text, format!("a secret of 16 bytes {status} 127.0.0.1 [] https://b.example"));
    }
    assert!(server.log().iter().all(|line| !line.contains("a secret")), "no line of the log shows it");
}

#[test]
fn the_field_server_is_what_the_rules_of_a_route_say() {
    let routes = "- origin: {directory: root}\n  headers: {cors: \"*\"}\n  routes:\n  \
         - {path: /none, headers: {response: {remove: [server]}}}\n  \
         - {path: /other, headers: {response: {set: {Server: edge}}}}";
    let server = Setup::new().sites(routes).start();
    for name in ["none", "other", "a", "b"] {
        server.write(name, "text");
    }
    let urls: Vec<String> =
        ["a", "none", "b", "other", "none"].map(|name| server.url(&format!("/{name}"))).into();
    for http in ["--http1.1", "--http2"] {
        // On one connection, which remembers heads.
        let arguments =
            [&[http, "-w", "%header{server}|"][..], &urls[1..].iter().map(|url| &**url).collect::<Vec<_>>()]
                .concat();
        let text = curl(&server, "%header{server}|", &arguments, &urls[0]).replace("text", "");
        assert_eq!(text, "|penstock|edge||penstock|", "{http}");
    }
}

#[test]
fn the_name_of_a_request_is_the_same_for_client_origin_and_log() {
    let origin = Origin::start(|head, _, stream| {
        let name = field(head, "x-request-id").unwrap_or("none");
        answer(stream, "200 OK", "", name.as_bytes())
    });
    let sites = format!(
        "- origin: {{http: [\"{}\"], cache: off}}\n  headers:\n    \
         response: {{set: {{X-Request-ID: \"{{request_id}}\"}}}}\n    \
         request: {{set: {{X-Request-ID: \"{{request_id}}\"}}}}",
        origin.url()
    );
    let server = Setup::new().sites(&sites).start();
    let mut names = Vec::new();
    for (http, path) in [("--http1.1", "/a"), ("--http2", "/b")] {
        let arguments = [http, "-H", "X-Request-ID: mine"];
        let text = curl(&server, " %header{x-request-id}", &arguments, &server.url(path));
        let (at_origin, at_client) = text.split_once(' ').unwrap();
        assert_eq!((at_origin, at_client.len()), (at_client, 32), "{http}");
        assert_eq!(server.logged(path)["request_id"], at_client, "{http}");
        names.push(at_client.to_owned());
    }
    assert_ne!(names[0], names[1]);
}

#[test]
fn the_id_of_a_client_reaches_origin_log_and_its_own_response_alone() {
    let origin = Origin::start(|head, _, stream| {
        let id = field(head, "x-request-id").unwrap_or("none");
        answer(
            stream,
            "200 OK",
            &format!("Cache-Control: max-age=60\r\nX-Request-Id: {id}\r\n"),
            id.as_bytes(),
        )
    });
    let memory = memory_directory();
    let cache = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display());
    let sites = format!("- origin: {{http: [\"{}\"]}}\n  request_id: preserve", origin.url());
    let server = Setup::new().sites(&sites).section(&cache).start();
    let form = " %{http_code} %header{x-request-id}";
    // Found by the second: the object of the first.
    for (http, id) in [("--http1.1", "first"), ("--http2", "second")] {
        let arguments = [http, "-H", &format!("X-Request-Id: {id}")];
        assert_eq!(curl(&server, form, &arguments, &server.url("/a")), format!("first 200 {id}"), "{http}");
    }
    let text = curl(&server, form, &["-H", "X-Request-Id: of-an-error", "-X", "TRACE"], &server.url("/b"));
    assert!(text.ends_with(" 405 of-an-error"), "{text}");
    let text = curl(&server, form, &["-H", "X-Request-Id: not, plain"], &server.url("/c"));
    let (at_origin, at_client) = text.split_once(" 200 ").unwrap();
    assert_eq!((at_origin, at_client.len()), (at_client, 32));
    let logged = until("four lines", || Some(server.access_log()).filter(|lines| lines.len() == 4));
    let logged: Vec<&str> = logged.iter().map(|line| line["request_id"].as_str().unwrap()).collect();
    assert_eq!(logged, ["first", "second", "of-an-error", at_client]);
    if crate::http3::has_client() {
        let id = crate::http3::field_of_second(&server, "/a", "x-request-id");
        assert_eq!(id.len(), 32, "neither that of the fetch nor that of the request before: {id}");
        let lines = until("lines of HTTP/3", || Some(server.access_log()).filter(|lines| lines.len() == 6));
        assert_eq!(lines[5]["request_id"], id);
        assert_ne!(lines[4]["request_id"], id);
    }
}

#[test]
fn curl_gets_the_page_of_the_maintenance_while_its_file_exists() {
    let directory = memory_directory();
    let (file, page) = (directory.path().join("maintenance"), directory.path().join("down.html"));
    fs::write(&page, "<p>back soon").unwrap();
    let sites = format!(
        "- origin: {{directory: root}}\n  maintenance: {}\n  error_pages: [{{status: [503], file: {}}}]",
        file.display(),
        page.display()
    );
    let server = Setup::new().sites(&sites).start();
    server.write("a.txt", "bytes");
    let get = || curl(&server, " %{http_code} %header{content-type}", &[], &server.url("/a.txt"));
    let plain = "bytes 200 text/plain; charset=utf-8";
    assert_eq!(get(), plain);
    fs::write(&file, "").unwrap();
    let down = "<p>back soon 503 text/html; charset=utf-8";
    until("the page", || (get() == down).then_some(()));
    fs::remove_file(&file).unwrap();
    until("the file again", || (get() == plain).then_some(()));
}
