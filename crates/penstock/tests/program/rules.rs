//! Routes, redirects and other rules, with curl as the client.

use penstock_testkit::origin::{Origin, answer, target};
use penstock_testkit::{Server, Setup, Tool, memory_directory};

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
