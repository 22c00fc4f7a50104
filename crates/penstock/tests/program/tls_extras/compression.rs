//! Compressed certificates (RFC 8879), read by a client of which the algorithms can be chosen.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;

use boring::ssl::{
    CertificateCompressionAlgorithm, CertificateCompressor, Ssl, SslContext, SslContextBuilder, SslMethod,
    SslVerifyMode, SslVersion,
};
use penstock_testkit::{Certificates, Client, Server, Setup, TlsStream, Tool, until};
use rcgen::KeyPair;

/// Uncompressed and compressed bytes of the last certificate that this client unpacked.
static UNPACKED: Mutex<Option<(&str, usize, usize)>> = Mutex::new(None);
/// One test at a time: what was unpacked is kept for all.
static ONE: Mutex<()> = Mutex::new(());

macro_rules! unpacker {
    ($name:ident, $label:literal, $algorithm:expr, $read:expr) => {
        struct $name;

        impl CertificateCompressor for $name {
            const ALGORITHM: CertificateCompressionAlgorithm = $algorithm;
            const CAN_COMPRESS: bool = false;
            const CAN_DECOMPRESS: bool = true;

            fn decompress<W: Write>(&self, input: &[u8], output: &mut W) -> io::Result<()> {
                let unpacked: Vec<u8> = $read(input)?;
                *UNPACKED.lock().unwrap() = Some(($label, unpacked.len(), input.len()));
                output.write_all(&unpacked)
            }
        }
    };
}

fn all(mut reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map(|_| bytes)
}

const BROTLI: CertificateCompressionAlgorithm = CertificateCompressionAlgorithm::BROTLI;
const ZLIB: CertificateCompressionAlgorithm = CertificateCompressionAlgorithm::ZLIB;

unpacker!(Brotli, "brotli", BROTLI, |input| all(brotli::Decompressor::new(input, 4096)));
unpacker!(Zlib, "zlib", ZLIB, |input| all(flate2::read::ZlibDecoder::new(input)));

/// A client that knows these.
fn client(server: &Server, algorithms: &[&str], version: SslVersion) -> Client<TlsStream> {
    let mut context = SslContext::builder(SslMethod::tls()).unwrap();
    context.set_ca_file(server.certificates().authority()).unwrap();
    context.set_verify(SslVerifyMode::PEER);
    context.set_max_proto_version(Some(version)).unwrap();
    for name in algorithms {
        offer(&mut context, name);
    }
    *UNPACKED.lock().unwrap() = None;
    let mut ssl = Ssl::new(&context.build()).unwrap();
    ssl.set_hostname("localhost").unwrap();
    let socket: TcpStream = Client::connect(server.https()).stream;
    Client::over(ssl.connect(socket).unwrap().into())
}

fn offer(context: &mut SslContextBuilder, name: &str) {
    match name {
        "brotli" => context.add_certificate_compression_algorithm(Brotli).unwrap(),
        "zlib" => context.add_certificate_compression_algorithm(Zlib).unwrap(),
        other => panic!("{other}"),
    }
}

fn unpacked() -> Option<(&'static str, usize, usize)> {
    *UNPACKED.lock().unwrap()
}

fn sent(server: &Server, compression: &str) -> f64 {
    let label = format!("compression=\"{compression}\"");
    server.metrics().sum("penstock_certificates_sent_total", &[&label])
}

#[test]
fn a_client_that_knows_compression_gets_a_smaller_certificate() {
    let _one = ONE.lock();
    let server = Setup::new().start();
    let file = server.file("a.mp4", 1000);
    // The bytes of a certificate with one name are mostly random: some do not compress.
    let names: Vec<String> = (0..20).map(|number| format!("video-{number}.example")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).chain(["localhost"]).collect();
    server.certificates().leaf("names", &names, &KeyPair::generate().unwrap());
    server.reload(&Setup::new().tls(&Certificates::yaml(&["names"])));
    for (offered, compression) in
        [(&["zlib", "brotli"][..], "brotli"), (&["brotli"], "brotli"), (&["zlib"], "zlib")]
    {
        let before = sent(&server, compression);
        assert_eq!(client(&server, offered, SslVersion::TLS1_3).get("/a.mp4").body, file.all());
        let (name, message, compressed) = unpacked().expect("a compressed certificate");
        assert_eq!(name, compression, "{offered:?}");
        assert!(compressed < message, "{compressed} of {message} bytes");
        assert_eq!(sent(&server, compression), before + 1.0);
    }
    assert_eq!(sent(&server, "none"), 0.0);
}

#[test]
fn a_client_without_compression_gets_the_plain_certificate() {
    let _one = ONE.lock();
    let server = Setup::new().start();
    let file = server.file("a.mp4", 1000);
    assert_eq!(client(&server, &[], SslVersion::TLS1_3).get("/a.mp4").body, file.all());
    // The extension means nothing in TLS 1.2 (RFC 8879 section 3).
    assert_eq!(client(&server, &["brotli"], SslVersion::TLS1_2).get("/a.mp4").body, file.all());
    let curl = Tool::curl(&server).arg(server.url("/a.mp4")).run().ok();
    assert_eq!(curl.stdout, file.all());
    assert_eq!(unpacked(), None);
    until("all three to be counted", || (sent(&server, "none") == 3.0).then_some(()));
}

#[test]
fn the_list_decides_what_is_used_and_what_comes_first() {
    let _one = ONE.lock();
    for (list, both, brotli) in [
        ("[zlib, brotli]", Some("zlib"), Some("brotli")),
        ("[zstd, zlib]", Some("zlib"), None),
        ("[]", None, None),
    ] {
        let tls = format!("{}\ncertificate_compression: {list}", Certificates::yaml(&["ec"]));
        let server = Setup::new().tls(&tls).start();
        client(&server, &["brotli", "zlib"], SslVersion::TLS1_3);
        assert_eq!(unpacked().map(|(name, _, _)| name), both, "{list}");
        client(&server, &["brotli"], SslVersion::TLS1_3);
        assert_eq!(unpacked().map(|(name, _, _)| name), brotli, "{list}");
    }
}
