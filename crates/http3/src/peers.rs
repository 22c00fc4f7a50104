//! Both ends of a connection without a network, for tests and fuzz targets.
#![expect(clippy::unwrap_used, reason = "nothing here depends on input")]

use std::net::SocketAddr;

use boring::pkey::PKey;
use boring::ssl::{AlpnError, SslContextBuilder, SslMethod};
use boring::x509::X509;

/// The server's address.
pub(crate) fn server_address() -> SocketAddr {
    "192.0.2.1:443".parse().unwrap()
}

/// A client's address.
pub(crate) fn client_address() -> SocketAddr {
    "198.51.100.7:50000".parse().unwrap()
}

/// A context of a server, with a certificate of its own.
pub(crate) fn context() -> SslContextBuilder {
    let made = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap();
    let mut builder = SslContextBuilder::new(SslMethod::tls()).unwrap();
    builder.set_certificate(&X509::from_der(made.cert.der()).unwrap()).unwrap();
    let key = PKey::private_key_from_der(&made.signing_key.serialize_der()).unwrap();
    builder.set_private_key(&key).unwrap();
    builder.set_alpn_select_callback(|_, offered| {
        let at = offered.windows(3).position(|name| name == b"\x02h3").ok_or(AlpnError::ALERT_FATAL)?;
        Ok(&offered[at + 1..at + 3])
    });
    builder
}

/// The settings of a client.
pub(crate) fn client_config() -> quiche::Config {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    config.verify_peer(false);
    config.set_application_protos(&[b"h3"]).unwrap();
    config.set_max_idle_timeout(30_000);
    config.set_initial_max_data(10_000_000);
    config.set_initial_max_stream_data_bidi_local(1_000_000);
    config.set_initial_max_stream_data_uni(100_000);
    config.set_initial_max_streams_uni(8);
    config.set_active_connection_id_limit(4);
    config.set_max_send_udp_payload_size(1350);
    config.grease(false);
    config
}
