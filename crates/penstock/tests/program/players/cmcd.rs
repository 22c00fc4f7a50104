//! CMCD is no part of a key, and reaches no origin that is not to be told.

use penstock_testkit::origin::{Origin, answer, field, target};
use penstock_testkit::{Client, Setup};

use super::{Edge, in_query, targets};

const FIELDS: &str = "CMCD-Request: mtp=25400,su\r\nCMCD-Object: br=3200,d=4004\r\nCMCD-Status: bs\r\n\
                      CMCD-Session: sid=\"one\",cid=\"film\"\r\n";

/// An origin whose responses say that they vary by what players say.
fn origin() -> Origin {
    Origin::start(|head, _, stream| {
        let target = target(head).to_owned();
        answer(
            stream,
            "200 OK",
            "Cache-Control: max-age=600\r\nVary: CMCD-Session, CMCD-Request\r\n",
            target.as_bytes(),
        )
    })
}

fn has_cmcd(head: &str) -> bool {
    head.to_ascii_lowercase().contains("cmcd")
}

#[test]
fn there_is_one_object_for_each_url_and_the_origin_is_asked_as_without_players() {
    let origin = origin();
    let edge = Edge::before(&origin.sites());
    let mut client = Client::plain(&edge.server);
    for number in 0..3 {
        let said = in_query(&format!("sid=\"{number}\",bl={number}00,nor=\"{number}.m4s\""));
        for target in [
            format!("/seg.m4s?{said}"),
            format!("/seg.m4s?a=1&{said}&b=2"),
            format!("/seg.m4s?{said}&{said}"),
        ] {
            let expected = if target.contains("a=1") { "/seg.m4s?a=1&b=2" } else { "/seg.m4s" };
            assert_eq!(client.get(&target).text(), expected, "{target}");
        }
        let fields = FIELDS.replace("one", &number.to_string());
        assert_eq!(client.get_with("/seg.m4s", &fields).text(), "/seg.m4s");
        assert_eq!(client.get_with("/seg.m4s?a=1&b=2", &fields).text(), "/seg.m4s?a=1&b=2");
    }
    assert_eq!(targets(&origin), ["/seg.m4s", "/seg.m4s?a=1&b=2"]);
    assert!(!origin.asked().iter().any(|head| has_cmcd(head)), "{:?}", origin.asked());
}

#[test]
fn a_relay_passes_nothing_of_it_on_and_keeps_the_rest_of_the_query() {
    let origin = origin();
    let server = Setup::new().sites(&origin.sites_with("cache: off")).start();
    let mut client = Client::plain(&server);
    let said = in_query("bs");
    assert_eq!(client.get_with(&format!("/a?x=1&{said}&y=%20"), FIELDS).text(), "/a?x=1&y=%20");
    let post = format!("POST /a?{said} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n{FIELDS}\r\nx");
    assert_eq!(client.request(post).text(), "/a");
    assert!(!origin.asked().iter().any(|head| has_cmcd(head)), "{:?}", origin.asked());
}

#[test]
fn an_origin_that_is_to_be_told_gets_the_argument_and_the_fields_and_the_key_stays() {
    for cache in ["", ", cache: off"] {
        let origin = origin();
        let sites =
            format!("- {{origin: {{http: [\"{}\"]{cache}}}, cmcd: {{to_origin: true}}}}", origin.url());
        let edge = Edge::before(&sites);
        let mut client = Client::plain(&edge.server);
        let said = "CMCD=bs%2Csid%3D%22a%22";
        assert_eq!(client.get(&format!("/a?{said}&x=1")).text(), format!("/a?x=1&{said}"), "{cache}");
        assert_eq!(client.get_with("/b", FIELDS).text(), "/b");
        let told = origin.asked().pop().unwrap();
        assert_eq!(field(&told, "cmcd-session"), Some("sid=\"one\",cid=\"film\""), "{told}");
        assert_eq!(field(&told, "cmcd-status"), Some("bs"));
        if cache.is_empty() {
            client.get(&format!("/a?{}&x=1", in_query("su")));
            client.get_with("/b", &FIELDS.replace("one", "two"));
            assert_eq!(origin.asked().len(), 2, "{:?}", targets(&origin));
        }
    }
}

#[test]
fn files_are_served_with_it_and_a_signature_covers_no_query() {
    let setup = Setup::new();
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "0123456789abcdef0123456789abcdef\n").unwrap();
    let sites = format!(
        "- {{hosts: [localhost], origin: {{directory: root}}}}\n- {{hosts: [signed.test], origin: {{directory: root}}, \
         signed_urls: {{keys: [{{id: one, file: {}}}]}}}}",
        key.path().display()
    );
    let server = setup.sites(&sites).start();
    server.write("a.m4s", "a");
    let mut client = Client::plain(&server);
    let said = in_query("sid=\"a\",nor=\"b\"");
    assert_eq!(client.get_with(&format!("/a.m4s?{said}"), FIELDS).text(), "a");
    let signed = penstock_testkit::Tool::penstock()
        .args(["sign", "/a.m4s", "--key-id", "one", "--expires", "1h", "--key-file"])
        .arg(key.path())
        .run();
    let signed = signed.ok().text();
    let token = signed.trim().split_once("token=").unwrap().1;
    for target in [format!("/a.m4s?token={token}&{said}"), format!("/a.m4s?{said}&token={token}")] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: signed.test\r\n\r\n");
        assert_eq!(client.request(request).status, 200, "{target}");
    }
}

#[test]
fn malformed_and_too_long_lists_are_ignored_and_counted() {
    let origin = origin();
    let edge = Edge::before(&format!("{}\n  hosts: [localhost]", origin.sites()));
    let mut client = Client::plain(&edge.server);
    let long = in_query(&format!("bs,cid=\"{}\"", "x".repeat(2048)));
    for said in ["CMCD=%zz", "CMCD=%ff", &in_query("bs,sid=\"open"), &in_query("bs,,"), &long] {
        assert_eq!(client.get(&format!("/seg.m4s?{said}")).text(), "/seg.m4s", "{said}");
    }
    assert_eq!(client.get_with("/seg.m4s", "CMCD-Status: bs,\r\n").text(), "/seg.m4s");
    assert_eq!(client.get(&format!("/seg.m4s?{}", in_query("bs"))).text(), "/seg.m4s");
    let site = ["site=\"localhost\""];
    edge.server.counted("penstock_player_malformed_requests_total", &site, 6.0);
    edge.server.counted("penstock_player_requests_total", &site, 7.0);
    edge.server.counted("penstock_player_starved_requests_total", &site, 1.0);
    assert_eq!(origin.asked().len(), 1);
}
