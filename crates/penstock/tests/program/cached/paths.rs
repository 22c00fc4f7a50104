//! Paths that RFC 3986 allows and that no file has.

use penstock_testkit::Client;
use penstock_testkit::origin::{Origin, answer, target};

use super::Edge;

/// What clients ask for, and what the origin is asked for.
const PATHS: [(&str, &str); 13] = [
    ("/a/b", "/a/b"),
    ("/a//b", "/a//b"),
    ("//a/b", "//a/b"),
    ("/a/b/", "/a/b/"),
    ("/a/b//", "/a/b//"),
    ("/a%2fb", "/a%2Fb"),
    ("/a%5Cb", "/a%5Cb"),
    ("/a\\c", "/a%5Cc"),
    ("/%09", "/%09"),
    ("/%7f%ff", "/%7F%FF"),
    ("/./d", "/d"),
    ("/x/../e?y=/../z", "/e?y=/../z"),
    ("/%2e%2e/x/%2E/", "/x/"),
];

#[test]
fn an_origin_is_asked_for_every_path_that_is_legal_and_each_is_an_object_of_its_own() {
    for keys in ["cache: on", "cache: off"] {
        let origin = Origin::start(|head, _, stream| {
            answer(stream, "200 OK", "Cache-Control: max-age=60\r\n", target(head).as_bytes())
        });
        let edge = Edge::before(&origin.sites_with(keys));
        for mut client in [Client::plain(&edge.server).boxed(), Client::tls(&edge.server).boxed()] {
            for (sent, asked) in PATHS {
                let response = client.get(sent);
                assert_eq!((response.status, response.text()), (200, asked), "{keys} {sent}");
            }
            for refused in ["/%00", "/a%0", "/%zz"] {
                assert_eq!(client.get(refused).status, 404, "{keys} {refused}");
            }
        }
        let asked = if keys == "cache: on" { PATHS.len() } else { 2 * PATHS.len() };
        assert_eq!(origin.asked().len(), asked, "{keys}");
    }
}
