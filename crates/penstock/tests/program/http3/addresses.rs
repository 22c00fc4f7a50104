//! Clients that come back from another address, and a server whose address comes later.

use penstock_testkit::{Networks, Setup, Tool, until};

use super::{content, fetch, has_client, setup};

#[test]
fn a_client_that_comes_back_from_another_port_keeps_its_connection() {
    if !has_client() {
        return;
    }
    let server = setup().workers(3).start();
    let file = server.file("clip.mp4", 2_000_000);
    let exchange = fetch(&server, "rebind=1", &["GET /clip.mp4", "GET /clip.mp4"]);
    file.assert_range(0..file.len, &exchange.responses[0].content);
    file.assert_range(0..file.len, &exchange.responses[1].content);
    server.counted("penstock_http_connections_total", &["version=\"h3\""], 1.0);
    server.counted("penstock_quic_migrations_total", &[], 1.0);
}

#[test]
fn a_client_that_goes_to_another_port_in_the_middle_of_a_response_gets_the_rest() {
    if !has_client() {
        return;
    }
    let server = setup().workers(3).start();
    let file = server.file("clip.mp4", 4_000_000);
    // A NAT leaves the connection id as it is; a client that moves on purpose changes it (RFC 9000 §9.5).
    for options in ["rebind_at=1000000", "rebind_at=1000000 new_id"] {
        let exchange = fetch(&server, options, &["GET /clip.mp4", "GET /clip.mp4"]);
        file.assert_range(0..file.len, &exchange.responses[0].content);
        file.assert_range(0..file.len, &exchange.responses[1].content);
    }
    server.counted("penstock_http_connections_total", &["version=\"h3\""], 2.0);
    let counted = || server.metrics().sum("penstock_quic_migrations_total", &[]);
    until("the migrations", || (counted() >= 2.0).then_some(()));
}

/// As with keepalived: the machine gets the virtual address when another one fails.
#[test]
fn an_address_that_no_interface_has_yet_is_served_once_it_is_there() {
    if !has_client() {
        return;
    }
    let Some(networks) = Networks::of(1) else {
        penstock_testkit::not_tested("network namespaces need root");
        return;
    };
    networks.at(0, || {
        let virtual_address = "address: \"192.0.2.1:8443\", tls: true, protocols: [h1, h3], freebind: true";
        let newer = "address: \"[2001:db8::1]:8080\", freebind: true";
        let setup = Setup::new().listeners(&[virtual_address, newer]);
        let server = setup.start();
        let file = server.file("clip.mp4", 200_000);
        for (address, option) in [("192.0.2.1/32", "-4"), ("2001:db8::1/128", "-6")] {
            Tool::new("ip").args([option, "address", "add", address, "dev", "lo"]).run().ok();
        }
        let curl = |name: &str, url: &str| {
            let curl = Tool::new("curl").args(["--silent", "--fail", "--cacert"]);
            let curl = curl.arg(server.certificates().authority()).args(["--resolve", name, url]);
            curl.run().ok().stdout
        };
        let tls = curl("localhost:8443:192.0.2.1", "https://localhost:8443/clip.mp4");
        file.assert_range(0..file.len, &tls);
        let plain = curl("localhost:8080:2001:db8::1", "http://localhost:8080/clip.mp4");
        file.assert_range(0..file.len, &plain);
        file.assert_range(0..file.len, &content(&server, "/clip.mp4"));
        server.reload(&setup);
        file.assert_range(0..file.len, &content(&server, "/clip.mp4"));
        drop(server);
    });
}
