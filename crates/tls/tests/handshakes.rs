//! Handshakes of unusual clients: large hellos, obsolete versions, other protocols, certificates about to expire, tickets
//! of other software.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use boring::hash::hmac_sha256;
use boring::pkey::PKey;
use boring::ssl::{
    Ssl, SslContext, SslContextBuilder, SslMethod, SslSession, SslSessionCacheMode, SslVersion,
};
use boring::symm::{self, Cipher};
use boring::x509::X509;
use penstock_sys::ssl::{TicketKey, client};
use penstock_sys::traffic::Secret;
use penstock_tls::certificate::Certificate;
use penstock_tls::tickets::directory::KeyFile;
use penstock_tls::tickets::{TicketKeyring, TicketOutcome, TicketPolicy, key_file};
use penstock_tls::{
    AcceptorSettings, ClientCertificateLimits, ClientCertificateMode, ClientCertificates, DefaultFor,
    OfferedCertificate,
};
use rcgen::{CertificateParams, CustomExtension, KeyPair};

use harness::{HELLO_BYTES_MAX, TestServer, settings};

const PROTOCOL_VERSION: u8 = 70;
const NO_APPLICATION_PROTOCOL: u8 = 120;

fn context() -> SslContextBuilder {
    SslContext::builder(SslMethod::tls()).unwrap()
}

/// An ALPN offer of about `bytes` that contains `http/1.1`.
fn long_offer(bytes: usize) -> Vec<u8> {
    let unknown = [&[255][..], &[b'x'; 255]].concat();
    let mut offer: Vec<u8> = unknown.iter().copied().cycle().take(bytes / 256 * 256).collect();
    offer.extend_from_slice(b"\x08http/1.1");
    offer
}

#[test]
fn a_client_hello_of_40_kib_is_accepted_also_after_a_retry_request() {
    TestServer::new(settings(&["a.test"])).run(async |server| {
        for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
            for groups in ["X25519:P-256", "P-384:P-256:X25519"] {
                let (accepted, client) = server
                    .accept(move |socket| {
                        let mut context = context();
                        context.set_max_proto_version(Some(version)).unwrap();
                        context.set_alpn_protos(&long_offer(40_000)).unwrap();
                        context.set_curves_list(groups).unwrap();
                        Ssl::new(&context.build()).unwrap().connect(socket).map(drop).unwrap();
                    })
                    .await;
                let facts = accepted.unwrap().facts;
                assert_eq!(facts.retried, version == SslVersion::TLS1_3 && groups.starts_with("P-384"));
                client.join().unwrap();
            }
        }
    });
}

#[test]
fn a_flight_that_a_full_socket_takes_in_pieces_arrives_whole() {
    const EXTENSION_BYTES: usize = 80_000;
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    let extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99_999], vec![4; EXTENSION_BYTES]);
    params.custom_extensions.push(extension);
    let chain = params.self_signed(&key).unwrap().pem();
    let certificate = Certificate::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    let offered = OfferedCertificate::loaded(&Arc::new(certificate), DefaultFor::Unmarked);
    let mut server =
        TestServer::new(AcceptorSettings { certificates: vec![offered], ..settings(&["a.test"]) });
    server.send_buffer = Some(4096);
    server.run(async |server| {
        for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
            let (accepted, client) = server
                .accept(move |socket| {
                    let mut context = context();
                    context.set_max_proto_version(Some(version)).unwrap();
                    let stream = Ssl::new(&context.build()).unwrap().connect(socket).unwrap();
                    stream.ssl().peer_certificate().unwrap().to_der().unwrap().len()
                })
                .await;
            accepted.unwrap();
            assert!(client.join().unwrap() > EXTENSION_BYTES);
        }
    });
}

#[test]
fn a_client_hello_above_the_limit_is_refused() {
    let settings = AcceptorSettings { client_hello_bytes_max: 32 * 1024, ..settings(&["a.test"]) };
    assert!(settings.client_hello_bytes_max < HELLO_BYTES_MAX);
    TestServer::new(settings).run(async |server| {
        let (accepted, client) = server
            .accept(|socket| {
                let mut context = context();
                context.set_alpn_protos(&long_offer(40_000)).unwrap();
                Ssl::new(&context.build()).unwrap().connect(socket).is_ok()
            })
            .await;
        assert_eq!(accepted.err().unwrap().reason, "too_long");
        assert!(!client.join().unwrap());
    });
}

/// Overwrites `legacy_version` in the first record that is written.
struct WithVersion(TcpStream, Option<[u8; 2]>);

impl Read for WithVersion {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for WithVersion {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut bytes = bytes.to_vec();
        if let Some(version) = self.1.take() {
            // After the headers of the record and of the message.
            bytes[9..11].copy_from_slice(&version);
        }
        self.0.write_all(&bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn a_tls_1_3_hello_with_an_obsolete_legacy_version_gets_protocol_version() {
    TestServer::new(settings(&["a.test"])).run(async |server| {
        for version in [0x0300_u16, 0x0200, 0x0002, 0] {
            let (accepted, client) = server
                .accept(move |socket| {
                    let ssl = Ssl::new(&context().build()).unwrap();
                    ssl.connect(WithVersion(socket, Some(version.to_be_bytes()))).is_ok()
                })
                .await;
            let failure = accepted.err().unwrap();
            assert_eq!(failure.alert_sent, Some(PROTOCOL_VERSION), "{version:04x}");
            assert_eq!(failure.reason, "unsupported_version", "{version:04x}");
            assert!(!client.join().unwrap());
        }
    });
}

#[test]
fn a_client_of_http_2_only_gets_no_application_protocol() {
    TestServer::new(settings(&["a.test"])).run(async |server| {
        for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
            let (accepted, client) = server
                .accept(move |socket| {
                    let mut context = context();
                    context.set_max_proto_version(Some(version)).unwrap();
                    context.set_alpn_protos(b"\x02h2").unwrap();
                    Ssl::new(&context.build()).unwrap().connect(socket).is_ok()
                })
                .await;
            let failure = accepted.err().unwrap();
            assert_eq!(failure.alert_sent, Some(NO_APPLICATION_PROTOCOL));
            assert_eq!(failure.reason, "no_application_protocol");
            assert!(!client.join().unwrap());
        }
    });
}

/// A client certificate in PEM with its key, valid until `end`. It is its own authority.
fn client_certificate(end: SystemTime) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["encoder.test".to_owned()]).unwrap();
    params.not_after = end.into();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// Connects with a client certificate and returns the last session that the server issued.
fn connect_with_certificate(
    socket: TcpStream,
    version: SslVersion,
    (chain, key): &(String, String),
    session: Option<SslSession>,
) -> Option<SslSession> {
    let mut context = context();
    context.set_max_proto_version(Some(version)).unwrap();
    context.set_certificate(&X509::from_pem(chain.as_bytes()).unwrap()).unwrap();
    context.set_private_key(&PKey::private_key_from_pem(key.as_bytes()).unwrap()).unwrap();
    context.set_session_cache_mode(SslSessionCacheMode::CLIENT);
    let issued = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&issued);
    context.set_new_session_callback(move |_, session| *kept.lock().unwrap() = Some(session));
    let mut ssl = Ssl::new(&context.build()).unwrap();
    if let Some(session) = session {
        client::offer_live_session(&mut ssl, &session).unwrap();
    }
    let mut stream = ssl.connect(socket).ok()?;
    // Tickets of TLS 1.3 follow the handshake; the server of these tests then closes.
    drop(stream.read_to_end(&mut Vec::new()));
    issued.lock().unwrap().take()
}

/// The content of a shared key file, as nginx reads it: name, HMAC key, AES key.
fn key_file() -> [u8; 80] {
    std::array::from_fn(|place| u8::try_from(place).unwrap() * 3)
}

fn shared_key() -> TicketKey {
    key_file::parse(&Secret::new(key_file().to_vec())).unwrap().keys.remove(0)
}

fn keyring() -> Arc<TicketKeyring> {
    let file = KeyFile {
        name: "shared.key".into(),
        modified: SystemTime::UNIX_EPOCH,
        is_readable_by_others: false,
        keys: vec![Arc::new(shared_key())],
        last_is_introduced: false,
    };
    let hour = Duration::from_secs(3600);
    let policy = TicketPolicy { rotate: hour, keep: 2, introduction: Duration::ZERO };
    Arc::new(TicketKeyring::new(policy, &[Arc::new(file)], Instant::now(), SystemTime::now()).unwrap())
}

#[test]
fn a_session_of_a_client_certificate_ends_with_the_certificate() {
    let limits = ClientCertificateLimits { depth: 1, name_bytes: 64, authority_names_bytes: 4096 };
    let certificate = client_certificate(SystemTime::now() + Duration::from_secs(60));
    let rules =
        ClientCertificates::new(certificate.0.as_bytes(), ClientCertificateMode::Required, limits).unwrap();
    let settings = AcceptorSettings {
        tickets: Some(keyring()),
        client_certificates: Some(rules),
        ..settings(&["a.test"])
    };
    TestServer::new(settings).run(async |server| {
        let connect = async |version, session| {
            let certificate = certificate.clone();
            let (accepted, client) = server
                .accept(move |socket| connect_with_certificate(socket, version, &certificate, session))
                .await;
            // Dropping the connection ends the client's wait for tickets.
            let resumed = accepted.ok().map(|established| established.facts.resumed);
            (resumed, client.join().unwrap())
        };
        for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
            let (resumed, session) = connect(version, None).await;
            assert_eq!(resumed, Some(false));
            let session = session.unwrap();
            let sealed = shared_key().open(&client::ticket_of(&session)).unwrap();
            let lifetime = SslSession::from_der(sealed.expose()).unwrap().timeout();
            assert!(lifetime <= 60, "{version:?}: the session is valid for {lifetime} s");
            assert_eq!(connect(version, Some(session)).await.0, Some(true));
        }
    });
}

/// A ticket as nginx and HAProxy make it with the shared key (RFC 5077 §4), around a session of OpenSSL.
fn foreign_ticket() -> Vec<u8> {
    let key = key_file();
    let (name, authentication, encryption) = (&key[..16], &key[16..48], &key[48..]);
    // The beginning of an SSL_SESSION_ASN1 of OpenSSL 3 without its remaining fields.
    let session = [&[0x30, 0x0d, 2, 1, 1, 2, 2, 3, 4, 4, 2, 0x13, 0x02, 4, 0][..], &[0; 90]].concat();
    let iv = [3; 16];
    let sealed = symm::encrypt(Cipher::aes_256_cbc(), encryption, Some(&iv), &session).unwrap();
    let ticket = [name, &iv, &sealed].concat();
    let mac = hmac_sha256(authentication, &ticket).unwrap();
    [ticket, mac.to_vec()].concat()
}

#[test]
fn a_ticket_of_other_software_under_a_shared_key_is_not_forged() {
    let settings = AcceptorSettings { tickets: Some(keyring()), ..settings(&["a.test"]) };
    TestServer::new(settings).run(async |server| {
        for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
            let certificate = client_certificate(SystemTime::now() + Duration::from_secs(3600));
            let (accepted, client) = server
                .accept(move |socket| connect_with_certificate(socket, version, &certificate, None))
                .await;
            drop(accepted.unwrap());
            let session = client.join().unwrap().unwrap();
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
            let foreign = client::with_ticket(&session, &foreign_ticket(), now).unwrap();
            let certificate = client_certificate(SystemTime::now() + Duration::from_secs(3600));
            let (accepted, client) = server
                .accept(move |socket| connect_with_certificate(socket, version, &certificate, Some(foreign)))
                .await;
            let facts = accepted.unwrap().facts;
            assert!(!facts.resumed);
            assert_eq!(facts.tickets.offered, Some(TicketOutcome::OtherSoftware), "{version:?}");
            client.join().unwrap();
        }
    });
}
