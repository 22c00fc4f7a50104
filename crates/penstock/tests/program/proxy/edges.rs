//! A relay in front of edges that offer a health path.

use penstock_testkit::origin::Origin;
use penstock_testkit::{Client, ReservedAddress, Server, Setup};
use rustix::process::Signal;

fn edge(address: &ReservedAddress, origin: &Origin, lame_duck: &str) -> Server {
    let listener = format!("address: {address}, proxy_protocol: true, health: /healthz");
    let sites = format!("- origin: {{http: [\"{}\"], cache: off}}", origin.url());
    Setup::new().workers(1).listeners(&[&listener]).sites(&sites).limits(lame_duck).start()
}

/// Whether the relay asks this edge.
fn is_asked(relay: &Server, address: &ReservedAddress) -> f64 {
    relay.metrics().sum("penstock_origin_target_up", &[&format!("target=\"http://{address}\"")])
}

#[test]
fn a_relay_takes_an_edge_out_before_that_closes_its_listener() {
    let origin = Origin::answering("200 OK", "Cache-Control: no-store\r\n", "body");
    let addresses = [(); 2].map(|()| ReservedAddress::reserve());
    let edges =
        [0, 1].map(|place| edge(&addresses[place], &origin, ["lame_duck: 1h", "lame_duck: 0"][place]));
    let sites = format!(
        "- origin:\n    http: [\"http://{}\", \"http://{}\"]\n    cache: off\n    retries: 0\n    proxy_protocol: v2\n    \
         health: {{path: /healthz, interval: 1s, unhealthy_after: 1}}",
        addresses[0], addresses[1]
    );
    let relay = Setup::new().sites(&sites).start();
    relay.expect_warning("is out: ");
    let mut client = Client::plain(&relay);
    let get = |client: &mut Client<_>, path: &str| {
        let response = client.get(path);
        assert_eq!((response.status, response.text()), (200, "body"), "{path}: {}", response.head);
    };
    for number in 0..10 {
        get(&mut client, &format!("/before/{number}"));
    }
    edges[0].signal(Signal::TERM);
    edges[0].wait_for_log("stopping: health checks fail");
    let mut number = 0;
    penstock_testkit::until("the relay to take the edge out", || {
        number += 1;
        get(&mut client, &format!("/meanwhile/{number}"));
        (is_asked(&relay, &addresses[0]) == 0.0).then_some(())
    });
    edges[0].signal(Signal::TERM);
    assert!(edges[0].wait().success());
    for number in 0..10 {
        get(&mut client, &format!("/after/{number}"));
    }
    assert_eq!(is_asked(&relay, &addresses[1]), 1.0);
}
