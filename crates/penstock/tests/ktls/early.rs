//! Early data: the answer leaves through the kernel before the handshake is over.

use penstock_testkit::tapped::{connect, session, taken};
use penstock_testkit::until;

use crate::kernel::{setup, with_everything};
use crate::modules::{assert_kernel_sealed, file, start_on};

pub(crate) fn answered_by_the_kernel() {
    with_everything();
    let tls = "certificates: [{chain: ec.crt, key: ec.key}]\nkernel: on\nearly_data: {anti_replay: false}";
    let (server, before) = start_on(&setup("on").tls(tls));
    let film = file("film.mp4", 3_000_001);
    let session = session(&server);
    let get = b"GET /film.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let (mut client, _) = connect(&server, &session, get);
    film.assert_range(0..film.len, &client.response().unwrap().body);
    assert!(taken(&client));
    film.assert_range(7..2_000_000, &client.get_range("/film.mp4", 7, 1_999_999).body);
    let early = || {
        let lines = server.access_log();
        lines.iter().any(|line| line["early_data"] == true).then_some(())
    };
    until("the early request in the log", early);
    assert_kernel_sealed(&server, before, 2);
}
