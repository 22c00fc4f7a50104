//! Bodies that end with their TLS connection.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use boring::pkey::PKey;
use boring::ssl::{SslAcceptor, SslMethod};
use boring::x509::X509;
use penstock_http::OriginUrl;
use penstock_origin::http::{
    BalanceBy, Connections, Fetch, Framing, HttpOrigin, OriginError, OriginSettings, ServerSettings,
};
use penstock_tls::Authorities;

use common::LIMITS;

/// A TLS server that answers each connection with these bytes, and then ends it with close_notify or with a bare FIN.
fn server(response: &'static str, close_notify: bool) -> (SocketAddr, Authorities) {
    let generated = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = generated.cert.pem();
    let mut builder = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
    builder.set_certificate(&X509::from_pem(certificate.as_bytes()).unwrap()).unwrap();
    let key = PKey::private_key_from_pem(generated.signing_key.serialize_pem().as_bytes()).unwrap();
    builder.set_private_key(&key).unwrap();
    let acceptor = builder.build();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let acceptor = acceptor.clone();
            thread::spawn(move || {
                let Ok(mut stream) = acceptor.accept(socket) else { return };
                read_head(&mut stream);
                drop(stream.write_all(response.as_bytes()));
                if response.contains("keep-alive") {
                    read_head(&mut stream);
                }
                if close_notify {
                    drop(stream.shutdown());
                }
            });
        }
    });
    (address, Authorities::from_pem(certificate.as_bytes()).unwrap())
}

fn read_head(stream: &mut impl Read) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
}

fn origin(address: SocketAddr, authorities: Authorities) -> Arc<HttpOrigin> {
    HttpOrigin::new(OriginSettings {
        servers: vec![ServerSettings::new(OriginUrl::parse(&format!("https://{address}")).unwrap(), 1)],
        balance: BalanceBy::Turns,
        hidden_fields: Vec::new(),
        host: Some("localhost".to_owned()),
        authorities: Some(authorities),
        identity: None,
        s3: None,
        resolvers: Arc::default(),
        redirect_hosts: Vec::new(),
        health_check: None,
        proxy_protocol: false,
        limits: LIMITS,
    })
}

/// Fetches so many times, on one set of connections; returns the last response.
fn fetch(response: &'static str, close_notify: bool, times: u32) -> Result<(Framing, Vec<u8>), OriginError> {
    let (address, authorities) = server(response, close_notify);
    let origin = origin(address, authorities);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let connections = Connections::default();
        let mut last = Err(OriginError::Unreachable);
        for _ in 0..times {
            let mut response = connections.fetch(&origin, &Fetch::get("/")).await?;
            let mut body = Vec::new();
            while let Some(piece) = response.next().await? {
                body.extend_from_slice(&piece);
            }
            last = Ok((response.framing(), body));
        }
        last
    })
}

#[test]
fn a_body_that_ends_with_close_notify_is_whole() {
    assert_eq!(fetch("HTTP/1.1 200 OK\r\n\r\nhello", true, 1), Ok((Framing::CloseNotify, b"hello".to_vec())));
}

#[test]
fn a_body_that_ends_with_a_bare_fin_is_cut_short() {
    assert_eq!(fetch("HTTP/1.1 200 OK\r\n\r\nhello", false, 1), Err(OriginError::CutShort));
}

#[test]
fn a_body_with_a_length_needs_no_close_notify() {
    let response = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(fetch(response, false, 1), Ok((Framing::Length, b"hello".to_vec())));
}

#[test]
fn a_request_on_a_connection_that_ends_meanwhile_is_sent_on_a_new_one() {
    let response = "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello";
    for close_notify in [true, false] {
        assert_eq!(
            fetch(response, close_notify, 3),
            Ok((Framing::Length, b"hello".to_vec())),
            "{close_notify}"
        );
    }
}
