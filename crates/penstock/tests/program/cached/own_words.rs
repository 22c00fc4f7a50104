//! Words of one client that an origin answers to: the others do not get that answer.

use penstock_testkit::origin::{Origin, answer, field};
use penstock_testkit::{Client, Gate, until};

use super::Edge;

const FRESH: &str = "Cache-Control: max-age=600\r\nETag: \"v1\"\r\n";

#[test]
fn an_answer_to_the_words_of_one_client_reaches_no_other() {
    let gate = Gate::closed();
    let passing = gate.clone();
    let origin = Origin::start(move |head, _, stream| {
        let has_words = field(head, "early-data").is_some()
            || field(head, "cdn-loop").is_some_and(|members| members.starts_with("evil"));
        match has_words && passing.pass() {
            true => answer(stream, "403 Forbidden", FRESH, b"bad"),
            false => answer(stream, "200 OK", FRESH, b"good"),
        }
    });
    let edge = Edge::of(&origin);
    for (path, words) in [("/a", "CDN-Loop: evil\r\n"), ("/b", "Early-Data: 1\r\n")] {
        let asked = origin.asked().len();
        let mut first = Client::plain(&edge.server);
        first.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{words}\r\n"));
        until("the request of that client", || (origin.asked().len() > asked).then_some(()));
        let mut others: Vec<_> = (0..20).map(|_| Client::plain(&edge.server)).collect();
        for client in &mut others {
            client.ask(path);
        }
        gate.let_one_pass();
        assert_eq!(first.response().unwrap().status, 403, "{words}");
        for client in &mut others {
            let response = client.response().unwrap();
            assert_eq!((response.status, response.text()), (200, "good"), "{words}");
        }
        let hit = Client::plain(&edge.server).get(path);
        assert_eq!(hit.text(), "good");
        assert!(hit.field("Cache-Status").unwrap().starts_with("penstock; hit"), "{}", hit.head);
        assert_eq!(origin.asked().len(), asked + 2, "one request for all others");
    }
}
