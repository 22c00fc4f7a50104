//! Tokens of a playlist that its segments inherit, and what becomes of tokens behind the verification.

use penstock_testkit::origin::{Origin, target};
use penstock_testkit::{Client, Tool, until};

use super::Keys;
use crate::clients::{frames, test_film};

const MEDIA: &str = "origin: {directory: root}";

#[test]
fn a_player_with_cookies_needs_a_token_for_the_playlist_alone() {
    let keys = Keys::new();
    let tokens = "{format: secure_link, key: SECRET, expression: \"$secure_link_expires$directory $secret\", \
                  cookie: link, set_cookie: true}";
    let server = keys.setup(MEDIA, tokens).start();
    std::fs::create_dir_all(server.root().join("vod/1/hd")).unwrap();
    server.write("vod/1/main.m3u8", "#EXTM3U\n");
    server.write("vod/1/a.ts", "segment");
    server.write("vod/a.ts", "other");
    let signed = keys.sign(
        "secure_link",
        "secret.key",
        &["/vod/1/main.m3u8", "--expression", "$secure_link_expires$directory $secret"],
    );
    let jar = keys.path("jar");
    let ask = |target: &str| {
        let form = ["-o", "/dev/null", "-w", "%{http_code}", "--cookie", &jar, "--cookie-jar", &jar];
        Tool::curl(&server).args(form).arg(server.url(target)).run().ok().text()
    };
    assert_eq!(ask("/vod/1/a.ts"), "403");
    assert_eq!(ask(&signed), "200");
    let kept = std::fs::read_to_string(&jar).unwrap();
    assert!(kept.contains("#HttpOnly_localhost\tFALSE\t/vod/1/\tTRUE\t"), "{kept}");
    assert_eq!(ask("/vod/1/a.ts"), "200");
    assert_eq!(ask("/vod/a.ts"), "403");
    // A token in front of the path needs no cookie.
    let in_path = signed.split_once("?md5=").unwrap().1.replace("&expires=", ",");
    let fresh = |target: &str| Client::plain(&server).get(target);
    let answer = fresh(&format!("/md5={in_path}/vod/1/a.ts"));
    assert_eq!((answer.status, answer.field("Set-Cookie")), (200, None));
    assert_eq!(fresh(&format!("/md5={in_path}/vod/a.ts")).status, 403);
}

#[test]
fn ffmpeg_plays_a_playlist_whose_segments_inherit_the_token_by_cookie_or_path() {
    let keys = Keys::new();
    let tokens = "{format: akamai, key: SECRET, cookie: hdntl, set_cookie: true}";
    let server = keys.setup(MEDIA, tokens).start();
    std::fs::create_dir_all(server.root().join("vod/1")).unwrap();
    let arguments = ["-c:v", "libx264", "-preset", "ultrafast", "-g", "10", "-c:a", "aac"];
    let film = test_film().args(arguments).args(["-f", "hls", "-hls_time", "1", "-hls_playlist_type", "vod"]);
    film.directory(&server.root().join("vod/1")).arg("index.m3u8").run().ok();
    for place in ["query", "path"] {
        let playlist = ["/vod/1/index.m3u8", "--prefix", "/vod/1/", "--in", place];
        let target = keys.sign("akamai", "secret.key", &playlist);
        for url in [server.url(&target), server.plain_url(&target)] {
            assert_eq!(frames(&[], &url), 50, "{url}");
        }
    }
    let metrics = server.metrics();
    assert_eq!(metrics.sum("penstock_requests_total", &["status=\"4xx\""]), 0.0);
    assert!(metrics.sum("penstock_signed_urls_total", &["outcome=\"accepted\""]) >= 24.0);
}

#[test]
fn tokens_of_all_places_are_one_object_and_no_origin_sees_them() {
    let keys = Keys::new();
    let origin = Origin::answering("200 OK", "Cache-Control: max-age=600\r\n", "x");
    let site = origin.sites();
    let site = site.trim_start_matches("- ");
    let tokens = "{format: akamai, key: SECRET, cookie: hdntl, field: X-Token}";
    let server = keys.setup(site, tokens).start();
    let sign =
        |place: &str| keys.sign("akamai", "secret.key", &["/vod/a?v=1", "--prefix", "/vod/", "--in", place]);
    let mut client = Client::plain(&server);
    let token = sign("query").split_once("hdnts=").unwrap().1.to_owned();
    assert_eq!(client.get(&sign("query")).text(), "x");
    assert_eq!(client.get(&sign("path")).text(), "x");
    assert_eq!(client.get_with("/vod/a?v=1", &format!("Cookie: b=1; hdntl={token}\r\n")).text(), "x");
    assert_eq!(client.get_with("/vod/a?v=1", &format!("X-Token: {token}\r\n")).text(), "x");
    assert_eq!(client.get(&format!("/other?hdnts={token}")).status, 403);
    assert_eq!(origin.asked().len(), 1, "{:?}", origin.asked());
    let post = format!(
        "POST /vod/a?hdnts={token} HTTP/1.1\r\nHost: localhost\r\nX-Token: {token}\r\nCookie: hdntl={token}\r\nContent-Length: 0\r\n\r\n"
    );
    assert_eq!(client.request(post).status, 200);
    let asked = origin.asked();
    assert_eq!(target(&asked[1]), "/vod/a");
    assert!(asked.iter().all(|head| !head.contains("hmac") && !head.contains("X-Token")), "{asked:?}");
    // What is counted and logged opens nothing either.
    assert_eq!(client.get(&sign("path").replace("/vod/a", "/other")).status, 403);
    let status = Tool::new("curl").args(["-s", &format!("http://{}/status.json", server.admin())]).run().ok();
    assert!(status.text().contains("/other") && !status.text().contains("hmac"), "{}", status.text());
    let is_other = |line: &serde_json::Value| line["target"].as_str().unwrap().starts_with("/other?hdnts=");
    let logged = until("a line of the log", || server.access_log().into_iter().find(is_other));
    let target = logged["target"].as_str().unwrap();
    assert!(target.ends_with("~hmac=hidden") && target.contains("~acl="), "{target}");
}

#[test]
fn keys_and_revoked_ids_are_followed_and_an_expired_token_can_be_gone() {
    let keys = Keys::new();
    keys.write("revoked.txt", "# ids\n");
    keys.write("other.key", "ffeeddccbbaa99887766554433221100");
    let tokens = "{format: penstock, key: SECRET, expired: 410, leeway: 0s, revoked: DIR/revoked.txt}";
    let server = keys.setup(MEDIA, tokens).start();
    server.write("a.mp4", "film");
    let sign = |key: &str, id: &str, time: &str| {
        let common = ["sign", "/a.mp4", "--key-id", "any", "--id", id, "--expires", time, "--key-file"];
        let tool = Tool::penstock().args(common).arg(keys.path(key));
        tool.run().ok().text().trim().to_owned()
    };
    let mut client = Client::plain(&server);
    let (one, two) = (sign("secret.key", "viewer-1", "1h"), sign("secret.key", "viewer-2", "1h"));
    let other = sign("other.key", "viewer-1", "1h");
    assert_eq!(client.get(&one).status, 200);
    assert_eq!((client.get(&two).status, client.get(&other).status), (200, 403));
    assert_eq!(client.get(&sign("secret.key", "x", "0s")).status, 410);
    keys.write("revoked.txt", "# ids\nviewer-2\n");
    until("the list is in force", || (client.get(&two).status == 403).then_some(()));
    assert_eq!(client.get(&one).status, 200);
    keys.write("secret.key", "ffeeddccbbaa99887766554433221100");
    until("the key is in force", || (client.get(&other).status == 200).then_some(()));
    assert_eq!(client.get(&one).status, 403);
    // Rubbish leaves what was there.
    server.tolerate_warning("has less than 16 bytes");
    keys.write("secret.key", "x");
    until("it is said", || {
        client.get(&other);
        server.log().iter().any(|line| line.contains("has less than 16 bytes")).then_some(())
    });
    assert_eq!(client.get(&other).status, 200);
    server.counted("penstock_signed_urls_total", &["outcome=\"expired\""], 1.0);
}

#[test]
fn a_route_has_tokens_of_its_own_or_none() {
    let keys = Keys::new();
    let tokens = "{format: penstock, key: SECRET}\n  routes:\n  - {path: /free/*, tokens: off}\n  \
                  - {path: /hls/*, tokens: {format: akamai, key: SECRET}}";
    let server = keys.setup(MEDIA, tokens).start();
    for directory in ["free", "hls"] {
        std::fs::create_dir(server.root().join(directory)).unwrap();
        server.write(&format!("{directory}/a"), "bytes");
    }
    server.write("a", "bytes");
    let own = keys.sign("penstock", "secret.key", &["/a", "--key-id", "x", "--prefix", "/", "--in", "path"]);
    let akamai = keys.sign("akamai", "secret.key", &["/hls/a", "--prefix", "/hls/", "--in", "path"]);
    let mut client = Client::plain(&server);
    let mut status = |target: &str| client.get(target).status;
    assert_eq!((status("/free/a"), status("/a"), status(&own), status(&akamai)), (200, 403, 200, 200));
    // A token of the site opens no route with other rules.
    for route in ["/hls/a", "/free/a"] {
        assert_eq!(status(&own.replace("/a", route)), 404, "{route}");
    }
    assert_eq!(status(&akamai.replace("/hls/a", "/a")), 403);
}
