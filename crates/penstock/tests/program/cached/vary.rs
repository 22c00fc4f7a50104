//! Answers that differ by fields of the request (RFC 9111 §4.1).

use penstock_testkit::origin::{Origin, answer};
use penstock_testkit::{Client, Gate, until};

use super::Edge;

/// The value of a field of a request; empty if there is none.
fn field<'h>(head: &'h str, name: &str) -> &'h str {
    let found = head.lines().find_map(|line| {
        let (found, value) = line.split_once(": ")?;
        found.eq_ignore_ascii_case(name).then_some(value)
    });
    found.unwrap_or_default()
}

/// An origin that answers with the values of a field, and says so.
fn echo(name: &'static str, fields: &'static str) -> Origin {
    Origin::start(move |head, _, stream| {
        let fields = format!("Cache-Control: max-age=600\r\n{fields}");
        answer(stream, "200 OK", &fields, field(head, name).as_bytes())
    })
}

fn edge(origin: &Origin, vary: &str) -> Edge {
    Edge::before(&format!("{}\n  cache: {{vary: {vary}}}", origin.sites()))
}

fn get(edge: &Edge, fields: &str) -> String {
    Client::plain(&edge.server).get_with("/a", fields).text().to_owned()
}

#[test]
fn each_variant_is_fetched_once_and_sent_to_its_clients() {
    let origin = echo("accept-language", "Vary: Accept-Language\r\n");
    let edge = edge(&origin, "[Accept-Language]");
    for _ in 0..3 {
        for language in ["de", "en", "fr"] {
            assert_eq!(get(&edge, &format!("Accept-Language: {language}\r\n")), language);
        }
        assert_eq!(get(&edge, ""), "");
    }
    assert_eq!(origin.asked().len(), 4);
}

#[test]
fn unlisted_fields_are_not_forwarded_and_an_invariant_response_is_one_object() {
    let origin = echo("accept-language", "Vary: Accept-Language, User-Agent\r\n");
    let plain = Edge::of(&origin);
    for language in ["de", "en"] {
        assert_eq!(
            get(&plain, &format!("Accept-Language: {language}\r\n")),
            "",
            "no field reaches the origin"
        );
    }
    assert_eq!(origin.asked().len(), 1);
    let origin = echo("accept-language", "");
    let listed = edge(&origin, "[Accept-Language]");
    assert_eq!(get(&listed, "Accept-Language: de\r\n"), "de");
    assert_eq!(get(&listed, "Accept-Language: en\r\n"), "de", "the origin says that it is the same for all");
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn encodings_are_asked_for_in_one_spelling() {
    let origin = echo("accept-encoding", "Vary: Accept-Encoding\r\n");
    let edge = edge(&origin, "[Accept-Encoding]");
    for accepted in
        ["gzip, deflate, br", "br;q=1.0, GZIP;q=0.8, zstd;q=0", "*,zstd;Q=0", "x-gzip,br,zstd;q=\"0\""]
    {
        assert_eq!(get(&edge, &format!("Accept-Encoding: {accepted}\r\n")), "br, gzip", "{accepted}");
    }
    assert_eq!(get(&edge, "Accept-Encoding: identity\r\n"), "identity");
    assert_eq!(origin.asked().len(), 2);
}

#[test]
fn there_are_only_so_many_variants_of_an_object() {
    let origin = echo("accept-language", "Vary: Accept-Language\r\n");
    let edge = edge(&origin, "[Accept-Language]");
    let language = |number: usize| format!("Accept-Language: x{number}\r\n");
    for number in 0..40 {
        assert_eq!(get(&edge, &language(number)), format!("x{number}"));
    }
    assert_eq!(get(&edge, &language(39)), "x39");
    assert_eq!(origin.asked().len(), 40);
    assert_eq!(get(&edge, &language(0)), "x0");
    assert_eq!(origin.asked().len(), 41, "the oldest had to go");
}

#[test]
fn a_client_that_waited_for_another_variant_gets_its_own() {
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |head, number, stream| {
        if number == 0 {
            held.pass();
        }
        let fields = "Cache-Control: max-age=600\r\nVary: Accept-Language\r\n";
        answer(stream, "200 OK", fields, field(head, "accept-language").as_bytes())
    });
    let edge = edge(&origin, "[Accept-Language]");
    let mut clients: Vec<_> = ["de", "en", "de", "en"]
        .into_iter()
        .map(|language| {
            let mut client = Client::plain(&edge.server);
            client.send(format!("GET /a HTTP/1.1\r\nHost: localhost\r\nAccept-Language: {language}\r\n\r\n"));
            if origin.asked().is_empty() {
                gate.wait_for_arrivals(1);
            }
            (client, language)
        })
        .collect();
    gate.let_one_pass();
    for (client, language) in &mut clients {
        assert_eq!(client.response().unwrap().text(), *language);
    }
    assert_eq!(origin.asked().len(), 2);
}

#[test]
fn a_purge_of_a_url_is_about_all_its_variants() {
    let origin = echo("accept-language", "Vary: Accept-Language\r\n");
    let edge = edge(&origin, "[Accept-Language]");
    for round in 1..3 {
        for language in ["de", "en"] {
            get(&edge, &format!("Accept-Language: {language}\r\n"));
        }
        assert_eq!(origin.asked().len(), 2 * round);
        let purged = crate::cached::purge::purge(&edge.server, "url=https://localhost/a");
        assert_eq!(purged, 2);
    }
}

#[test]
fn a_method_that_changes_a_target_is_about_all_its_variants() {
    let origin = echo("accept-language", "Vary: Accept-Language\r\n");
    let edge = edge(&origin, "[Accept-Language, Cookie]");
    let clients = [
        "",
        "Accept-Language: de\r\n",
        "Accept-Language: en\r\n",
        "Cookie: user=1\r\n",
        "Cookie: user=2\r\n",
    ];
    for round in 1..4 {
        for fields in clients.iter().chain(&clients) {
            get(&edge, fields);
        }
        assert_eq!(origin.asked().len(), (clients.len() + 1) * round - 1, "each variant was fetched once");
        Client::plain(&edge.server).request("DELETE /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
}

#[test]
fn a_segment_is_prefetched_in_the_variant_of_its_viewer() {
    let origin = Origin::start(|head, _, stream| {
        let fields = "Cache-Control: max-age=600\r\nVary: Accept-Language\r\n";
        let playlist = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\na\n#EXTINF:4,\nb\n#EXT-X-ENDLIST\n";
        let body = if head.starts_with("GET /p.m3u8") { playlist } else { field(head, "accept-language") };
        answer(stream, "200 OK", fields, body.as_bytes())
    });
    let edge = edge(&origin, "[Accept-Language]");
    let get = |path: &str, language: &str| {
        let fields = format!("Accept-Language: {language}\r\n");
        Client::plain(&edge.server).get_with(path, &fields).text().to_owned()
    };
    for (number, language) in ["de", "en"].into_iter().enumerate() {
        get("/p.m3u8", language);
        assert_eq!(get("/a", language), language);
        // Playlist, segment, and the next one before its viewer asks for it.
        let asked = 3 * (number + 1);
        until("the prefetch", || (origin.asked().len() == asked).then_some(()));
    }
    for language in ["de", "en"] {
        assert_eq!(get("/b", language), language);
    }
    assert_eq!(origin.asked().len(), 6, "both were there");
    assert_eq!(get("/b", "fr"), "fr");
}

#[test]
fn a_response_to_one_authorization_is_shared_only_if_its_origin_allows_it() {
    for (fields, requests) in
        [("Cache-Control: max-age=600\r\n", 3), ("Cache-Control: public, max-age=600\r\n", 2)]
    {
        let origin = Origin::start(move |head, _, stream| {
            answer(stream, "200 OK", fields, field(head, "authorization").as_bytes())
        });
        let edge = edge(&origin, "[Authorization]");
        for who in ["Basic a", "Basic b", "Basic a"] {
            assert_eq!(get(&edge, &format!("Authorization: {who}\r\n")), who);
        }
        assert_eq!(origin.asked().len(), requests, "{fields}");
    }
}

#[test]
fn an_origin_that_begins_to_vary_with_a_304_varies_from_then_on() {
    let origin = Origin::start(move |head, number, stream| {
        let vary = "ETag: \"v1\"\r\nVary: Accept-Language\r\nCache-Control: max-age=600\r\n";
        let language = field(head, "accept-language").as_bytes();
        match (number, field(head, "if-none-match")) {
            (0, _) => answer(stream, "200 OK", "ETag: \"v1\"\r\nCache-Control: max-age=0\r\n", language),
            (_, "") => answer(stream, "200 OK", vary, language),
            _ => answer(stream, "304 Not Modified", vary, b""),
        }
    });
    let edge = edge(&origin, "[Accept-Language]");
    for language in ["en", "en", "de", "en", "de"] {
        assert_eq!(get(&edge, &format!("Accept-Language: {language}\r\n")), language);
    }
}

#[test]
fn a_refusal_of_one_value_of_a_field_is_not_for_clients_with_another() {
    let gate = Gate::closed();
    let passing = gate.clone();
    let origin = Origin::start(move |head, _, stream| match field(head, "user-agent") {
        "evil" if passing.pass() => answer(stream, "403 Forbidden", "Cache-Control: max-age=600\r\n", b"bad"),
        _ => answer(stream, "200 OK", "Cache-Control: max-age=600\r\n", b"good"),
    });
    let edge = edge(&origin, "[User-Agent]");
    let mut first = Client::plain(&edge.server);
    first.send("GET /a HTTP/1.1\r\nHost: localhost\r\nUser-Agent: evil\r\n\r\n");
    until("the request of that client", || (!origin.asked().is_empty()).then_some(()));
    let mut others: Vec<_> = (0..10).map(|_| Client::plain(&edge.server)).collect();
    for (number, client) in others.iter_mut().enumerate() {
        client.send(format!("GET /a HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {number}\r\n\r\n"));
    }
    gate.let_one_pass();
    assert_eq!(first.response().unwrap().status, 403);
    for client in &mut others {
        assert_eq!(client.response().unwrap().text(), "good");
    }
    assert_eq!(get(&edge, "User-Agent: evil\r\n"), "good", "it is in the cache");
    assert_eq!(origin.asked().len(), 2);
}
