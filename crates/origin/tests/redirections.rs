//! Redirections that are followed.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod common;
#[path = "common/scripted.rs"]
mod scripted;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use penstock_origin::http::{Connections, Fetch, HttpOrigin, OriginError, OriginSettings};

use scripted::{server, settings};

/// A response that was read whole.
#[derive(Debug)]
struct Fetched {
    status: u16,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    freshness_limit: Option<Duration>,
}

impl Fetched {
    /// All values of a field, one after the other.
    fn field(&self, name: &str) -> String {
        let values = self.fields.iter().filter(|(found, _)| found == name).map(|(_, value)| value.as_str());
        values.collect::<Vec<_>>().join(" + ")
    }
}

/// Sends requests one after the other, on one set of connections.
fn fetch_each(origin: &Arc<HttpOrigin>, fetches: &[Fetch]) -> Vec<Result<Fetched, OriginError>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let connections = Connections::default();
        let mut all = Vec::new();
        for fetch in fetches {
            all.push(read(&connections, origin, fetch).await);
        }
        all
    })
}

async fn read(
    connections: &Connections,
    origin: &Arc<HttpOrigin>,
    fetch: &Fetch,
) -> Result<Fetched, OriginError> {
    let mut response = connections.fetch(origin, fetch).await?;
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
    let fields = response.fields().iter();
    let fields = fields.map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect();
    let mut body = Vec::new();
    while let Some(piece) = response.next().await? {
        body.extend_from_slice(&piece);
    }
    let (status, freshness_limit) = (response.status(), response.freshness_limit());
    Ok(Fetched { status, fields, body, freshness_limit })
}

/// An origin of one server, whose redirections to the others are followed.
fn following(server: SocketAddr, others: &[SocketAddr]) -> Arc<HttpOrigin> {
    let redirect_hosts = others.iter().map(ToString::to_string).collect();
    HttpOrigin::new(OriginSettings { redirect_hosts, ..settings(&[server]) })
}

/// A server that redirects `/1` to `/2`, and so on to `/3` on another server, each with these lines.
fn chain(lines: [&'static str; 3]) -> Arc<HttpOrigin> {
    let (there, _heads) = server(move |_, stream| {
        let head = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 4\r\n\r\nfilm", lines[2]);
        stream.write_all(head.as_bytes()).is_ok()
    });
    let (here, _heads) = server(move |head, stream| {
        let (lines, location) = match head.starts_with("GET /1 ") {
            true => (lines[0], "/2".to_owned()),
            false => (lines[1], format!("http://{there}/3")),
        };
        let head = format!("HTTP/1.1 302 Found\r\n{lines}Location: {location}\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).is_ok()
    });
    following(here, &[there])
}

#[test]
fn the_shortest_lifetime_of_all_redirections_counts_and_one_that_is_uncacheable_makes_all_so() {
    let seconds = Duration::from_secs;
    for (lines, control, limit) in [
        (["", "", "Cache-Control: max-age=90\r\n"], "max-age=90", None),
        (["Cache-Control: max-age=9\r\n", "", ""], "", Some(seconds(9))),
        (
            [
                "Cache-Control: max-age=9\r\n",
                "Age: 2\r\nCache-Control: max-age=7\r\n",
                "Cache-Control: public, max-age=90, s-maxage=80\r\nExpires: 0\r\n",
            ],
            "public, max-age=5",
            Some(seconds(5)),
        ),
        (
            ["Cache-Control: max-age=9\r\n", "", "Cache-Control: max-age=90\r\nAge: 70\r\n"],
            "max-age=79",
            Some(seconds(9)),
        ),
        (["Cache-Control: max-age=9\r\n", "", "Cache-Control: max-age=3\r\n"], "max-age=3", Some(seconds(9))),
        (
            ["", "Cache-Control: no-cache, max-age=9\r\n", "Cache-Control: max-age=3\r\n"],
            "max-age=0",
            Some(seconds(0)),
        ),
        (["", "Cache-Control: private\r\n", "Cache-Control: max-age=90\r\n"], "no-store", Some(seconds(0))),
        (
            ["Cache-Control: no-store\r\n", "", "CDN-Cache-Control: max-age=90\r\n"],
            "no-store",
            Some(seconds(0)),
        ),
        (
            ["Set-Cookie: a=b\r\n", "Cache-Control: max-age=5\r\n", "Expires: 0\r\n"],
            "no-store",
            Some(seconds(0)),
        ),
        (["Vary: *\r\n", "", ""], "no-store", Some(seconds(0))),
    ] {
        let fetched = fetch_each(&chain(lines), &[Fetch::get("/1")]).pop().unwrap().unwrap();
        assert_eq!((fetched.body.as_slice(), fetched.field("set-cookie").as_str()), (&b"film"[..], ""));
        assert_eq!(fetched.field("cache-control"), control, "{lines:?}");
        assert_eq!(fetched.freshness_limit, limit, "{lines:?}");
        let is_changed = control == "no-store" || fetched.field("cache-control") != "max-age=3";
        assert!(!is_changed || fetched.field("expires").is_empty() || limit.is_none(), "{lines:?}");
    }
}

#[test]
fn a_response_behind_redirections_varies_by_what_they_vary_by() {
    let origin = chain(["Vary: Accept-Language\r\n", "", "Vary: Accept-Encoding\r\n"]);
    let fetched = fetch_each(&origin, &[Fetch::get("/1")]).pop().unwrap().unwrap();
    assert_eq!(fetched.field("vary"), "Accept-Encoding + Accept-Language");
}

#[test]
fn a_tag_belongs_to_the_url_that_gave_it() {
    // The same tag for two films.
    let (there, seen) = server(|head, stream| {
        let is_known = head.contains("if-none-match: \"1\"\r\n");
        let answer: &[u8] = match is_known {
            true => b"HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n",
            false => b"HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 4\r\n\r\nfilm",
        };
        stream.write_all(answer).is_ok()
    });
    let (here, seen_here) = server(move |head, stream| {
        let place = if head.starts_with("GET /moved") { "b" } else { "a" };
        let head = format!(
            "HTTP/1.1 302 Found\r\nLocation: http://{there}/{place}?signed\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).is_ok()
    });
    let origin = following(here, &[there]);
    let first = fetch_each(&origin, &[Fetch::get("/film")]).pop().unwrap().unwrap();
    let tag = first.field("etag");
    assert!(tag.starts_with("\"1-r") && tag.ends_with('"'), "{tag}");
    let again = |target: &str| Fetch { known: Some(("if-none-match", tag.clone())), ..Fetch::get(target) };
    let mut fetched = fetch_each(&origin, &[again("/film"), again("/moved")]).into_iter().map(Result::unwrap);
    let (same, moved) = (fetched.next().unwrap(), fetched.next().unwrap());
    assert_eq!((same.status, same.field("etag")), (304, tag.clone()));
    assert_eq!((moved.status, moved.body.as_slice()), (200, &b"film"[..]));
    assert_ne!(moved.field("etag"), tag);
    let conditional = |head: &String| head.contains("if-none-match");
    assert_eq!(seen.try_iter().map(|head| conditional(&head)).collect::<Vec<_>>(), [false, true, false]);
    assert!(!seen_here.try_iter().any(|head| conditional(&head)), "the tag is of another URL");
}

#[test]
fn a_redirection_leads_to_listed_servers_only_and_not_to_another_port_of_its_own_host() {
    let (admin, seen) =
        server(|_, stream| stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_ok());
    let (own, port) = (format!("http://{admin}/metadata"), admin.port());
    let ask = |location: &str, listed: &[String]| {
        let head = format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        let (here, _heads) = server(move |_, stream| stream.write_all(head.as_bytes()).is_ok());
        let origin = HttpOrigin::new(OriginSettings { redirect_hosts: listed.to_vec(), ..settings(&[here]) });
        fetch_each(&origin, &[Fetch::get("/")]).pop().unwrap().map(|fetched| fetched.status)
    };
    let named = format!("http://localhost:{port}/metadata");
    for (location, listed) in [
        (own.as_str(), None),
        (own.as_str(), Some("localhost".to_owned())),
        (own.as_str(), Some("127.0.0.1:1".to_owned())),
        (named.as_str(), None),
        (named.as_str(), Some(format!("localhost:{}", port ^ 1))),
        ("http://169.254.169.254/latest", None),
        ("//[::1]:1/x", None),
    ] {
        let outcome = ask(location, listed.as_slice());
        assert_eq!(outcome, Err(OriginError::Redirects), "{location} {listed:?}");
    }
    assert!(seen.try_recv().is_err(), "a server that is not listed was asked");
    for (location, listed) in [
        (&own, "127.0.0.1".to_owned()),
        (&own, format!("127.0.0.1:{port}")),
        (&named, "LOCALHOST".to_owned()),
        (&named, format!("LocalHost:{port}")),
    ] {
        assert_eq!(ask(location, std::slice::from_ref(&listed)), Ok(200), "{location} {listed}");
        assert!(seen.recv().unwrap().starts_with("GET /metadata "));
    }
}

fn with_credentials(target: &str) -> Fetch {
    let mut fetch = Fetch::get(target);
    for name in ["Authorization", "Cookie", "X-Other"] {
        assert!(fetch.pass(name, b"secret"));
    }
    fetch
}

#[test]
fn a_redirection_to_another_server_is_followed_without_credentials() {
    let (there, seen_there) = server(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nthere").unwrap();
        true
    });
    let (here, seen_here) = server(move |head, stream| {
        let location =
            if head.starts_with("GET /far") { format!("http://{there}/x") } else { "/far".to_owned() };
        let response = format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(response.as_bytes()).unwrap();
        true
    });
    let fetched = &fetch_each(&following(here, &[there]), &[with_credentials("/near")])[0];
    assert_eq!(fetched.as_ref().unwrap().body, b"there");
    for _ in 0..2 {
        let head = seen_here.recv().unwrap();
        assert!(head.contains("authorization: secret") && head.contains("cookie: secret"), "{head}");
    }
    let head = seen_there.recv().unwrap();
    assert!(head.contains("x-other: secret") && head.matches("secret").count() == 1, "{head}");
}
