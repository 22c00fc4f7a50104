//! Clients that come back from another address.

use super::{fetch, has_client, setup};

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
