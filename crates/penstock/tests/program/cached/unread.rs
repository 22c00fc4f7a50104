//! Clients that ask for more than the memory tier holds and do not read: others are served meanwhile, and they are served
//! once they read.

use penstock_testkit::origin::{Origin, file, target};
use penstock_testkit::{Client, Content, Server, Setup, until};
use tempfile::TempDir;

/// Objects that clients ask for and do not read.
pub(crate) const UNREAD: usize = 200;
const OTHERS: usize = 10;
const LENGTH: usize = 600_000;
/// How far the objects are apart in the bytes that all are taken from.
const STEP: usize = 1000;

/// A server whose memory tier holds a quarter of what the clients ask for.
pub(crate) struct Unread {
    pub(crate) server: Server,
    bytes: Vec<u8>,
    _origin: Origin,
    _memory: TempDir,
}

impl Unread {
    /// Only clients whose bytes others need are given up: there is no minimum rate.
    pub(crate) fn before(setup: Setup) -> Self {
        let bytes = Content::new(91, (LENGTH + STEP * (UNREAD + OTHERS)) as u64).all();
        let all = bytes.clone();
        let origin = Origin::start(move |head, _, stream| {
            let fields = "Cache-Control: max-age=600\r\nETag: \"v1\"\r\n";
            file(head, stream, fields, body(&all, target(head)[1..].parse().unwrap()))
        });
        let memory = penstock_testkit::memory_directory();
        let directory = memory.path().display();
        let cache = format!("cache: {{slice: 256KiB, memory: {{directory: {directory}, size: 32MiB}}}}");
        let setup = setup.sites(&origin.sites()).section(&cache).limits("minimum_rate: 0");
        Self { server: setup.start(), bytes, _origin: origin, _memory: memory }
    }

    /// Has other clients served while some hold slices, and waits until these have given up what others need.
    #[track_caller]
    pub(crate) fn serve_others(&self) {
        let evicted = || self.server.metrics().sum("penstock_cache_evicted_bytes", &[]);
        until("evicted slices that clients hold", || (evicted() > 0.0).then_some(()));
        for number in UNREAD..UNREAD + OTHERS {
            let answer = Client::tls(&self.server).get(&format!("/{number}"));
            assert_eq!(answer.status, 200, "{}", answer.head);
            self.assert_object(number, &answer.body);
        }
        until("the slices to be given up", || (evicted() == 0.0).then_some(()));
    }

    /// Fails unless these are the bytes of object `number`.
    #[track_caller]
    pub(crate) fn assert_object(&self, number: usize, bytes: &[u8]) {
        assert!(bytes == body(&self.bytes, number), "object {number}: {} bytes", bytes.len());
    }
}

fn body(all: &[u8], number: usize) -> &[u8] {
    &all[number * STEP..][..LENGTH]
}

#[test]
fn two_hundred_clients_that_do_not_read_harm_no_other_and_get_their_bytes_when_they_read() {
    let unread = Unread::before(Setup::new().listeners(&["tls: true, send_buffer: 64KiB"]));
    // The space for what they receive is the usual one: with a few kilobytes a client's own kernel drops segments, and
    // the next attempt of the server's kernel may come a minute after the client begins to read.
    let mut clients: Vec<_> = (0..UNREAD)
        .map(|number| {
            let mut client = Client::tls(&unread.server);
            client.ask(&format!("/{number}"));
            client
        })
        .collect();
    unread.serve_others();
    for (number, client) in clients.iter_mut().enumerate() {
        let answer = client.response().unwrap();
        assert_eq!(answer.status, 200, "{}", answer.head);
        unread.assert_object(number, &answer.body);
    }
}
