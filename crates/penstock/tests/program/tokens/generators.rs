//! Each format beside the part that defines it.

use std::process::{Child, Command};

use penstock_testkit::{Client, Tool, until};
use tempfile::TempDir;

use super::{Keys, SECRET, has, in_an_hour, node, python};

/// nginx with a location that needs links, on a port of its own.
struct Nginx {
    process: Child,
    port: u16,
    _directory: TempDir,
}

impl Nginx {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().display();
        std::fs::create_dir_all(directory.path().join("s")).unwrap();
        std::fs::write(directory.path().join("s/a b.ts"), "nginx").unwrap();
        let port = penstock_testkit::unused_address().port();
        let config = format!(
            "daemon off; master_process off; user root; pid {root}/pid; error_log {root}/error;
             events {{}}
             http {{
               access_log off; client_body_temp_path {root}/1; proxy_temp_path {root}/2;
               fastcgi_temp_path {root}/3; uwsgi_temp_path {root}/4; scgi_temp_path {root}/5;
               server {{
                 listen 127.0.0.1:{port};
                 location /s/ {{
                   root {root};
                   secure_link $arg_md5,$arg_expires;
                   secure_link_md5 \"$secure_link_expires$uri$remote_addr {SECRET}\";
                   if ($secure_link = \"\") {{ return 403; }}
                   if ($secure_link = \"0\") {{ return 410; }}
                 }}
               }}
             }}"
        );
        let file = directory.path().join("nginx.conf");
        std::fs::write(&file, config).unwrap();
        let process = Command::new("nginx").arg("-c").arg(file).spawn().unwrap();
        until("nginx", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        Self { process, port, _directory: directory }
    }

    fn status(&self, target: &str) -> u16 {
        let url = format!("http://127.0.0.1:{}{target}", self.port);
        let curl = Tool::new("curl").args(["-s", "-o", "/dev/null", "-w", "%{http_code}", &url]);
        curl.run().ok().text().trim().parse().unwrap()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _is_over = self.process.kill();
        let _status = self.process.wait();
    }
}

#[test]
fn links_are_judged_as_nginx_judges_them() {
    let keys = Keys::new();
    let nginx = Nginx::start();
    let server = keys
        .setup("origin: {directory: root}", "{format: secure_link, key: SECRET, expired: 410, leeway: 0s}")
        .start();
    std::fs::create_dir(server.root().join("s")).unwrap();
    server.write("s/a b.ts", "here");
    let mut client = Client::plain(&server);
    let mut both = |target: &str| (client.get(target).status, nginx.status(target));
    let link = |end: u64, path: &str, address: &str| {
        let script = "printf %s \"$1\" | openssl md5 -binary | openssl base64 | tr +/ -_ | tr -d =";
        let text = format!("{end}{path}{address} {SECRET}");
        let made = Tool::new("sh").args(["-c", script, "sh", &text]).run().ok();
        format!("/s/a%20b.ts?md5={}&expires={end}", made.text().trim())
    };
    let end = in_an_hour();
    let good = link(end, "/s/a b.ts", "127.0.0.1");
    assert_eq!(both(&good), (200, 200));
    for (target, status) in [
        (link(end, "/s/a c.ts", "127.0.0.1"), 403),
        (link(end, "/s/a b.ts", "127.0.0.2"), 403),
        (link(1_700_000_000, "/s/a b.ts", "127.0.0.1"), 410),
        (good.replace("md5=", "md5=A"), 403),
        (good.replace("expires=", "expires=1"), 403),
        (good.replace("&expires", "&x"), 403),
        ("/s/a%20b.ts".to_owned(), 403),
    ] {
        assert_eq!(both(&target), (status, status), "{target}");
    }
    let own = keys.sign("secure_link", "secret.key", &["/s/a%20b.ts", "--client", "127.0.0.1"]);
    assert_eq!(both(&own), (200, 200), "{own}");
}

#[test]
fn tokens_of_akamais_generator_are_verified_and_ours_are_the_same() {
    if !has("bin/python3") {
        return;
    }
    let keys = Keys::new();
    let server =
        keys.setup("origin: {directory: root}", "{format: akamai, key: SECRET, cookie: hdntl}").start();
    std::fs::create_dir_all(server.root().join("vod/1")).unwrap();
    server.write("vod/1/a b.ts", "bytes");
    let (key, end) = (keys.path("secret.key"), in_an_hour().to_string());
    let made = |arguments: &[&str]| {
        let common = ["akamai", &key, &end];
        python(&common.iter().chain(arguments).copied().collect::<Vec<_>>())
    };
    let mut client = Client::plain(&server);
    let mut ask =
        |token: &str| client.get(&format!("/vod/1/a%20b.ts?hdnts={}", token.replace(' ', "%20"))).status;
    for good in [
        &["acl", "/vod/1/*"][..],
        &["acl", "/ads/*!/vod/*.ts", "ip=127.0.0.1", "start_time=now", "session_id=s 7", "payload=a=b"],
        &["acl", "/vod/1/*", "escape_early=1", "session_id=s 7", "payload=/x"],
        &["url", "/vod/1/a b.ts"],
        &["url", "/vod/1/a b.ts", "escape_early=1"],
    ] {
        assert_eq!(ask(&made(good)), 200, "{good:?}");
    }
    for wrong in [
        &["acl", "/vod/2/*"][..],
        &["acl", "/vod/1/*", "ip=192.0.2.7"],
        &["acl", "/vod/1/*", "algorithm=sha1"],
        &["acl", "/vod/1/*", "algorithm=md5"],
        &["acl", "/vod/1/*", "salt=pepper"],
        &["url", "/vod/1/a c.ts"],
    ] {
        assert_eq!(ask(&made(wrong)), 403, "{wrong:?}");
    }
    let own = keys.sign("akamai", "secret.key", &["/vod/1/a%20b.ts", "--prefix", "/vod/1/", "--id", "s-7"]);
    let own = own.split_once("hdnts=").unwrap().1.replace("%2F", "/").replace("%2A", "*");
    let end = own.split_once("exp=").unwrap().1.split('~').next().unwrap();
    assert_eq!(own, python(&["akamai", &key, end, "acl", "/vod/1/*", "session_id=s-7"]));
    assert_eq!(ask(&own), 200);
}

#[test]
fn urls_of_cloudfronts_signer_are_verified() {
    if !has("bin/python3") {
        return;
    }
    let keys = Keys::new();
    let (private, public) = (keys.path("private.pem"), keys.path("public.pem"));
    Tool::new("openssl").args(["genrsa", "-out", &private, "2048"]).run().ok();
    Tool::new("openssl").args(["rsa", "-in", &private, "-pubout", "-out", &public]).run().ok();
    let tokens = "{format: cloudfront, keys: [{id: K2JCJMDEHXQW5F, file: DIR/public.pem}]}";
    let server = keys.setup("origin: {directory: root}", tokens).start();
    std::fs::create_dir_all(server.root().join("vod/1")).unwrap();
    server.write("vod/1/a.ts", "bytes");
    let end = in_an_hour().to_string();
    let mut client = Client::tls(&server);
    let mut ask = |url: &str| client.get(url.trim_start_matches("https://localhost")).status;
    let made = |url: &str, more: &[&str]| {
        let common = ["cloudfront", &private, &end, url];
        python(&common.iter().chain(more).copied().collect::<Vec<_>>())
    };
    let url = "https://localhost/vod/1/a.ts?v=1";
    let below = "https://localhost/vod/1/*";
    assert_eq!(ask(&made(url, &[])), 200);
    assert_eq!(ask(&made(url, &[])), 200, "the signature is remembered");
    assert_eq!(ask(&made(url, &[below, "127.0.0.0/8"])), 200);
    assert_eq!(ask(&made(url, &["http*://localhost/*.ts?v=?", "0.0.0.0/0"])), 200);
    for wrong in [
        made(url, &[]).replace("v=1", "v=2"),
        made("http://localhost/vod/1/a.ts?v=1", &[]).replace("http://", "https://"),
        made(url, &[below, "192.0.2.0/24"]),
        made(url, &["https://localhost/vod/2/*", "127.0.0.0/8"]),
        made(url, &["https://other.example/*", "127.0.0.0/8"]),
        made(url, &[]).replace("K2JC", "K2JD"),
    ] {
        assert_eq!(ask(&wrong), 403, "{wrong}");
    }
    let own = |more: &[&str]| {
        let common = [url, "--key-id", "K2JCJMDEHXQW5F"];
        keys.sign("cloudfront", "private.pem", &common.iter().chain(more).copied().collect::<Vec<_>>())
    };
    assert_eq!(ask(&own(&[])), 200);
    assert_eq!(ask(&own(&["--prefix", "/vod/1/", "--client", "127.0.0.1"])), 200);
    let cookies = own(&["--prefix", "/vod/", "--in", "cookie"]);
    let pairs: Vec<_> = cookies.lines().map(|line| line.split(';').next().unwrap()).collect();
    assert_eq!(pairs.len(), 4, "{cookies}");
    let shown = client.get_with("/vod/1/a.ts", &format!("Cookie: {}\r\n", pairs.join("; ")));
    assert_eq!(shown.status, 200, "{cookies}");
}

#[test]
fn a_renewed_common_access_token_comes_by_field_or_cookie_and_another_author_reads_it() {
    if !has("node_modules/@eyevinn/cat") {
        return;
    }
    let keys = Keys::new();
    let tokens = "{format: cat, key: JWKS, issuer: me, cookie: cat}";
    let server = keys.setup("origin: {directory: root}", tokens).start();
    server.write("a", "bytes");
    let mut client = Client::tls(&server);
    let end = in_an_hour();
    for (terms, place, comes_by) in [
        (r#""type": "header""#, "CTA-Common-Access-Token: ", "CTA-Common-Access-Token"),
        (r#""type": "automatic""#, "CTA-Common-Access-Token: ", "CTA-Common-Access-Token"),
        (r#""type": "cookie", "cookie-name": "cat""#, "CTA-Common-Access-Token: ", "Set-Cookie"),
        (r#""type": "automatic""#, "Cookie: cat=", "Set-Cookie"),
    ] {
        let terms = format!("{{{terms}, \"expadd\": 9000, \"deadline\": 7200}}");
        let claims = format!("{{\"iss\": \"me\", \"exp\": {end}, \"cti\": \"0b71\", \"catr\": {terms}}}");
        let soon = node(&["make", SECRET, &claims]);
        let response = client.get_with("/a", &format!("{place}{soon}\r\n"));
        let given = response.field(comes_by).unwrap_or_else(|| panic!("a renewed token: {terms}"));
        let pair = given.split(';').next().unwrap();
        let renewed = pair.strip_prefix("cat=").unwrap_or(pair);
        let read = node(&["read", SECRET, renewed, "https://localhost/a"]);
        let claims: serde_json::Value = serde_json::from_str(&read).unwrap();
        assert!(claims["exp"].as_u64().unwrap() > end + 3600 && claims["cti"] == "0b71", "{read}");
        let again = format!("CTA-Common-Access-Token: {renewed}\r\n");
        assert_eq!(client.get_with("/a", &again).status, 200, "{terms}");
    }
}

#[test]
fn common_access_tokens_of_another_author_are_verified_and_ours_by_it() {
    if !has("node_modules/@eyevinn/cat") {
        return;
    }
    let keys = Keys::new();
    let server = keys.setup("origin: {directory: root}", "{format: cat, key: JWKS, issuer: me}").start();
    std::fs::create_dir_all(server.root().join("vod/1")).unwrap();
    server.write("vod/1/a.ts", "bytes");
    let mut client = Client::tls(&server);
    let mut ask = |token: &str| {
        let of_query = client.get(&format!("/vod/1/a.ts?CAT={token}")).status;
        let field = format!("CTA-Common-Access-Token: {token}\r\n");
        assert_eq!(client.get_with("/vod/1/a.ts", &field).status, of_query);
        of_query
    };
    for (more, status) in [
        ("", 200),
        (r#", "catu": {"path": {"prefix-match": "/vod/1/"}, "scheme": {"exact-match": "https"}}"#, 200),
        (r#", "catu": {"path": {"prefix-match": "/vod/2/"}}"#, 403),
        (r#", "catu": {"path": {"regex-match": ["/vod/.*"]}}"#, 403),
        (r#", "catu": {"host": {"exact-match": "other.example"}}"#, 403),
        (r#", "catm": ["GET"], "catnip": ["127.0.0.0/8"], "catreplay": 0"#, 200),
        (r#", "catm": ["POST"]"#, 403),
        (r#", "catnip": ["192.0.2.7", 64496]"#, 403),
        (r#", "catv": 1"#, 200),
        (r#", "catv": 2"#, 403),
        (r#", "catreplay": 1"#, 403),
        (r#", "catreplay": 2"#, 403),
        // Not understood.
        (r#", "catpor": [0.5]"#, 403),
        (r#", "geohash": "u281""#, 403),
        (r#", "catgeocoord": [[52.5, 13.4, 1000]]"#, 403),
        (r#", "cattpk": "ab""#, 403),
        (r#", "catifdata": "x""#, 403),
        (r#", "catif": {"exp": [403, {}]}"#, 403),
        (r#", "catr": {"type": "cookie", "expadd": 120}"#, 200),
        (r#", "catgeoiso3166": ["DE"]"#, 403),
        (r#", "nbf": 4000000000"#, 403),
    ] {
        assert_eq!(ask(&of_another_author(more)), status, "{more}");
    }
    let url = "https://localhost/vod/1/a.ts";
    let own: Vec<&str> = [url]
        .into_iter()
        .chain("--prefix /vod/1/ --issuer me --client 127.0.0.1 --id 7".split(' '))
        .collect();
    let own = keys.sign("cat", "keys.json", &own);
    let token = own.split_once("CAT=").unwrap().1;
    assert_eq!(ask(token), 200);
    let read = node(&["read", SECRET, token, url]);
    assert!(read.contains(r#""catu":{"path":{"prefix-match":"/vod/1/"}}"#), "{read}");
    assert!(read.contains(r#""catnip":["127.0.0.1"]"#) && read.contains(r#""cti":"37""#), "{read}");
}

/// A token of one hour with these claims beside the usual ones.
fn of_another_author(more: &str) -> String {
    let claims = format!("{{\"iss\": \"me\", \"exp\": {}, \"cti\": \"0b71\"{more}}}", in_an_hour());
    node(&["make", SECRET, &claims])
}

#[test]
fn limits_count_by_the_subject_of_common_access_tokens_of_both_authors() {
    if !has("node_modules/@eyevinn/cat") {
        return;
    }
    let keys = Keys::new();
    let limits = "origin: {directory: root}\n  limits: {client: subject, requests: {rate: 1/h, burst: 1}}";
    let limited = keys.setup(limits, "{format: cat, key: JWKS, issuer: me}").start();
    limited.write("a", "bytes");
    let mut client = Client::tls(&limited);
    let mut status_of = |subject: &str| {
        let token = of_another_author(&format!(r#", "sub": "{subject}""#));
        client.get(&format!("/a?CAT={token}")).status
    };
    assert_eq!(["ann", "ann", "bob"].map(&mut status_of), [200, 429, 200]);
    let whole = keys.sign("cat", "keys.json", &["/a", "--issuer", "me", "--subject", "ann"]);
    assert_eq!(client.get(&whole).status, 429, "the subject that has asked");
    let token = whole.split_once("CAT=").unwrap().1;
    let read = node(&["read", SECRET, token, "https://localhost/a"]);
    assert!(read.contains(r#""sub":"ann""#), "{read}");
}
