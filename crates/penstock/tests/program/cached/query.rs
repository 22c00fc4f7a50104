//! Which parameters of a query tell one object from another.

use penstock_testkit::Client;
use penstock_testkit::origin::{Origin, answer, target};

use super::Edge;

/// An origin that answers with the target it was asked for.
fn echo() -> Origin {
    Origin::start(|head, _, stream| {
        let target = target(head).to_owned();
        answer(stream, "200 OK", "Cache-Control: max-age=600\r\n", target.as_bytes())
    })
}

fn edge(origin: &Origin, query: &str) -> Edge {
    Edge::before(&format!("{}\n  cache: {{query: {query}}}", origin.sites()))
}

#[test]
fn ignored_parameters_make_no_other_object_and_are_not_sent_to_the_origin() {
    let origin = echo();
    let edge = edge(&origin, "{ignore: [\"utm_*\", session]}");
    let mut client = Client::plain(&edge.server);
    for target in ["/a?v=1&session=7", "/a?utm_source=x&v=1", "/a?v=1"] {
        assert_eq!(client.get(target).text(), "/a?v=1", "{target}");
    }
    assert_eq!(client.get("/a?session=7").text(), "/a");
    assert_eq!(client.get("/a?v=2").text(), "/a?v=2");
    assert_eq!(origin.asked().len(), 3);
}

#[test]
fn only_what_is_kept_counts_and_its_order_does_not_if_sorted() {
    let origin = echo();
    let edge = edge(&origin, "{keep: [v, w], sort: true}");
    let mut client = Client::plain(&edge.server);
    for target in ["/a?w=2&v=1&x=9", "/a?v=1&w=2"] {
        assert_eq!(client.get(target).text(), "/a?v=1&w=2", "{target}");
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn a_query_can_be_ignored_as_a_whole() {
    let origin = echo();
    let edge = edge(&origin, "ignore_all");
    let mut client = Client::plain(&edge.server);
    for target in ["/a?b=1", "/a?", "/a"] {
        assert_eq!(client.get(target).text(), "/a", "{target}");
    }
    assert_eq!(client.get("/live.m3u8?x=1&_HLS_skip=YES").text(), "/live.m3u8?_HLS_skip=YES");
    assert_eq!(origin.asked().len(), 2);
}
