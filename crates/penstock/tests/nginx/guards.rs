//! Links, passwords, pages and what passes the cache: nginx and Penstock let in the same requests.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use penstock_testkit::origin::{Origin, answer};
use penstock_testkit::{ReservedAddress, Server, Tool};

use super::{Nginx, Place, compare_each, has_nginx};

const HOST: &str = "video.example.com";

/// `secret`, by `htpasswd -B`.
const BCRYPT: &str = "$2y$05$pndtqEbds39wXEeg9OuoNO.J9uKgRcE.9BV1/g7JxkSDtjyvAGI0e";

/// Both servers with a server of nginx with these lines.
struct Both {
    _nginx: Nginx,
    penstock: Server,
    address: ReservedAddress,
    translation: String,
    place: Place,
}

impl Both {
    fn start(http: &str, server: &str) -> Self {
        let address = ReservedAddress::reserve();
        let place = Place::of(&format!(
            "events {{\n}}\nhttp {{\n{http}\nserver {{\nlisten {address};\nserver_name {HOST};\n{server}\n}}\n}}\n"
        ));
        for name in ["links/a.ts", "cookies/a.ts", "users/a.ts", "users/open/a.ts", "pages/a.ts", "a.ts"] {
            place.file(&format!("video/{name}"), name.as_bytes());
        }
        let secrets = [
            ("files/users", format!("anna:{BCRYPT}\n")),
            // Longer paths stand in front.
            ("secure-link.key", "another enigma of it:".to_owned()),
            ("secure-link-2.key", "enigma of a site".to_owned()),
        ];
        for (name, text) in secrets {
            place.file(name, text.as_bytes());
            let path = place.directory.path().join(name);
            fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        }
        let _nginx = Nginx::start(&place.text, address.address());
        let (penstock, translation) = place.penstock(&[address.address()]);
        Self { _nginx, penstock, address, translation, place }
    }

    fn servers(&self) -> [SocketAddr; 2] {
        [self.address.address(), self.penstock.listener(0)]
    }

    /// Both have this status for a request of this target with these fields, and the same bytes.
    fn expect(&self, status: u16, target: &str, fields: &str) {
        let [nginx, penstock] = self.servers();
        let request = [(format!("GET {target}"), format!("Host: {HOST}\r\n{fields}"))];
        compare_each(nginx, penstock, &request, &["Content-Length"]);
        let theirs = penstock_testkit::Client::connect(nginx)
            .request(format!("{} HTTP/1.1\r\n{}\r\n", request[0].0, request[0].1));
        assert_eq!(theirs.status, status, "{target} {fields}");
    }
}

/// A link's digest over this text.
fn digest(text: &str) -> String {
    let script = "printf %s \"$1\" | openssl md5 -binary | openssl base64 | tr +/ -_ | tr -d =";
    Tool::new("sh").args(["-c", script, "sh", text]).run().ok().text().trim().to_owned()
}

#[test]
fn links_are_judged_as_in_nginx() {
    if !has_nginx() {
        return;
    }
    let both = Both::start(
        "",
        "root /srv/video;
         location / { }
         location /links/ {
           secure_link $arg_md5,$arg_until;
           secure_link_md5 \"$secure_link_expires$uri$remote_addr enigma of a site\";
           if ($secure_link = \"\") { return 403; }
           if ( $secure_link = 0 ) { return 410; }
         }
         location /cookies/ {
           secure_link $cookie_link;
           secure_link_md5 \"another enigma of it:${secure_link_expires}$document_uri\";
           if ($secure_link != 1) { return 403; }
         }",
    );
    let soon = (SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(3600)).as_secs();
    for (end, path, address, status) in [
        (soon, "/links/a.ts", "127.0.0.1", 200),
        (soon, "/links/b.ts", "127.0.0.1", 403),
        (soon, "/links/a.ts", "127.0.0.2", 403),
        (1_700_000_000, "/links/a.ts", "127.0.0.1", 410),
    ] {
        let md5 = digest(&format!("{end}{path}{address} enigma of a site"));
        both.expect(status, &format!("/links/a.ts?md5={md5}&until={end}"), "");
        let other = if md5.starts_with('A') { 'B' } else { 'A' };
        both.expect(403, &format!("/links/a.ts?md5={other}{}&until={end}", &md5[1..]), "");
        both.expect(403, &format!("/links/a.ts?md5={md5}&until=1{end}"), "");
    }
    both.expect(403, "/links/a.ts", "");
    for (end, status) in [(soon, 200), (1_700_000_000, 403)] {
        let md5 = digest(&format!("another enigma of it:{end}/cookies/a.ts"));
        both.expect(status, "/cookies/a.ts", &format!("Cookie: link={md5},{end}\r\n"));
    }
    both.expect(403, "/cookies/a.ts", "");
    both.expect(200, "/a.ts", "");
    assert!(!both.translation.contains("CAUTION"), "{}", both.translation);
    assert!(!both.translation.contains("enigma"), "{}", both.translation);
}

#[test]
fn passwords_and_pages_are_asked_for_as_in_nginx() {
    if !has_nginx() {
        return;
    }
    let both = Both::start(
        "",
        "root /srv/video;
         auth_basic Films;
         auth_basic_user_file /srv/files/users;
         location /users/open/ { auth_basic off; }
         location /pages/ {
           auth_basic off;
           valid_referers none server_names .cdn.example player.example;
           if ($invalid_referer) { return 403; }
         }
         location /cookies/ { auth_basic off; allow all; }",
    );
    for (user, status) in [("anna:secret", 200), ("anna:secres", 401), ("bert:secret", 401), (":", 401)] {
        let user = boring::base64::encode_block(user.as_bytes());
        both.expect(status, "/users/a.ts", &format!("Authorization: Basic {user}\r\n"));
    }
    both.expect(401, "/users/a.ts", "");
    both.expect(401, "/a.ts", "");
    both.expect(200, "/users/open/a.ts", "");
    both.expect(200, "/cookies/a.ts", "");
    for (page, status) in [
        ("https://player.example/x", 200),
        ("http://PLAYER.example:81", 200),
        ("https://cdn.example/", 200),
        ("https://a.b.cdn.example/", 200),
        ("https://video.example.com/", 200),
        ("https://other.example/player.example/", 403),
        ("https://notcdn.example/", 403),
        ("player.example", 403),
    ] {
        both.expect(status, "/pages/a.ts", &format!("Referer: {page}\r\n"));
    }
    both.expect(200, "/pages/a.ts", "");
    assert!(!both.translation.contains("CAUTION"), "{}", both.translation);
    assert!(both.place.text.contains("auth_basic Films"));
}

#[test]
fn what_passes_the_cache_is_the_same_as_in_nginx() {
    if !has_nginx() {
        return;
    }
    let started = || {
        Origin::start(|_, number, stream| {
            let fields = "Cache-Control: no-store\r\nExpires: 0\r\n";
            answer(stream, "200 OK", fields, number.to_string().as_bytes())
        })
    };
    let (theirs, ours) = (started(), started());
    let conditions = "$arg_nocache $cookie_session $http_x_debug";
    let text = |origin: &Origin| {
        format!(
            "location / {{
               proxy_cache kept; proxy_cache_valid 200 1h; proxy_ignore_headers Cache-Control Expires;
               proxy_cache_use_stale error updating http_500;
               proxy_cache_bypass {conditions}; proxy_no_cache {conditions}; proxy_pass {};
             }}",
            origin.url()
        )
    };
    let zone = "proxy_cache_path /var/cache/nginx/kept keys_zone=kept:1m max_size=64m inactive=2h;";
    let (nginx, penstock) = (Both::start(zone, &text(&theirs)), Both::start(zone, &text(&ours)));
    let wanted = [
        ("/a", "", "0"),
        ("/a", "", "0"),
        ("/a?nocache=1", "", "1"),
        ("/a", "Cookie: x=1; session=7\r\n", "2"),
        ("/a", "X-Debug: 1\r\n", "3"),
        ("/a", "Cookie: x=1\r\n", "0"),
        ("/b", "X-Debug: 1\r\n", "4"),
        ("/b", "", "5"),
        ("/b", "", "5"),
    ];
    for (address, name) in [(nginx.servers()[0], "nginx"), (penstock.servers()[1], "penstock")] {
        let mut client = penstock_testkit::Client::connect(address);
        for (target, fields, number) in wanted {
            let found = client.request(format!("GET {target} HTTP/1.1\r\nHost: {HOST}\r\n{fields}\r\n"));
            assert_eq!(found.body, number.as_bytes(), "{name} {target} {fields}");
        }
    }
    let translation = &penstock.translation;
    assert!(
        translation.contains("stale_while_revalidate: 2h") && translation.contains("grace: 2h"),
        "{translation}"
    );
}
