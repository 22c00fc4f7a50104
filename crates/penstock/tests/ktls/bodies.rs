//! Bodies arrive byte for byte, whatever was agreed on and however they are asked for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use boring::ssl::SslVersion;
use penstock_testkit::frames::{Peer, get};
use penstock_testkit::{Client, Content, Random, Response, Server, TlsOptions, TlsStream, Tool, until};

use crate::kernel::{setup, statistics, with_everything};
use crate::modules::{assert_kernel_sealed, file, start_on};

pub(crate) const TLS12: [&str; 3] =
    ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"];
pub(crate) const TLS13: [(&[u16], &str); 3] = [
    (&[0x1301], "TLS_AES_128_GCM_SHA256"),
    (&[0x1302], "TLS_AES_256_GCM_SHA384"),
    (&[0x1303], "TLS_CHACHA20_POLY1305_SHA256"),
];

pub(crate) fn options() -> Vec<TlsOptions> {
    let tls12 = TLS12
        .iter()
        .map(|ciphers| TlsOptions { ciphers: Some(ciphers), ..TlsOptions::version(SslVersion::TLS1_2) });
    let tls13 =
        TLS13.iter().map(|(suites, _)| TlsOptions { suites, ..TlsOptions::version(SslVersion::TLS1_3) });
    tls12.chain(tls13).collect()
}

pub(crate) fn every_version_and_cipher() {
    with_everything();
    let (server, before) = start_on(&setup("on"));
    let files: Vec<(String, Content)> =
        [0, 1, 100, 16_383, 16_384, 16_385, 512 * 1024, 512 * 1024 + 1, 3_000_001]
            .map(|len| (format!("/{len}.mp4"), file(&format!("{len}.mp4"), len)))
            .into();
    for options in options() {
        let mut client = Client::tls_with(&server, &options);
        for (path, content) in &files {
            content.assert_range(0..content.len, &client.get(path).body);
        }
        assert_eq!(client.get("/absent.mp4").status, 404);
        let last = client.get_with("/100.mp4", "Connection: close\r\n");
        assert_eq!(last.status, 200);
        client.assert_closed();
    }
    assert_kernel_sealed(&server, before, 6);
    let sent = server.metrics();
    assert_eq!(sent.sum("penstock_sent_bytes_total", &["outlet=\"user_space\""]), 0.0);
    assert!(sent.sum("penstock_sent_bytes_total", &["outlet=\"kernel\""]) > 6.0 * 3_000_001.0);
}

pub(crate) fn curl() {
    with_everything();
    let (server, before) = start_on(&setup("on"));
    let content = file("clip.mp4", 2_000_003);
    let url = server.url("/clip.mp4");
    for cipher in TLS12 {
        let curl = Tool::curl(&server).args(["--tls-max", "1.2", "--ciphers", cipher]);
        content.assert_range(0..content.len, &curl.arg(&url).run().ok().stdout);
    }
    for (_, cipher) in TLS13 {
        let curl = Tool::curl(&server).args(["--tlsv1.3", "--tls13-ciphers", cipher]);
        content.assert_range(0..content.len, &curl.arg(&url).run().ok().stdout);
    }
    assert_kernel_sealed(&server, before, 6);
}

pub(crate) fn ranges() {
    with_everything();
    let (server, before) = start_on(&setup("on"));
    let content = file("clip.mp4", 1_000_003);
    let mut client = Client::tls(&server);
    let mut random = Random::from_environment();
    for _ in 0..40 {
        let first = random.below(content.len);
        let last = first + random.below(content.len - first);
        let response = client.get_range("/clip.mp4", first, last);
        assert_eq!(response.status, 206);
        content.assert_range(first..last + 1, &response.body);
    }
    let many = client.get_with("/clip.mp4", "Range: bytes=0-9,70000-199999,-5\r\n");
    assert_eq!(many.status, 206);
    for range in [0..10, 70_000..200_000, content.len - 5..content.len] {
        let part = content.bytes(range.clone());
        assert!(many.body.windows(part.len()).any(|window| window == part), "{range:?} is not there");
    }
    assert_eq!(client.get("/clip.mp4").body.len(), 1_000_003);
    assert_kernel_sealed(&server, before, 1);
}

pub(crate) fn pipelined() {
    with_everything();
    let (server, before) = start_on(&setup("on"));
    let large = file("large.mp4", 700_001);
    let small = file("small.mp4", 11);
    let mut client = Client::tls(&server);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.send(["/small.mp4", "/large.mp4", "/absent", "/small.mp4", "/large.mp4"].map(get).concat());
    let answers: Vec<Response> = (0..5).map(|_| client.response().unwrap()).collect();
    for (answer, content) in answers.iter().zip([Some(small), Some(large), None, Some(small), Some(large)]) {
        match content {
            Some(content) => content.assert_range(0..content.len, &answer.body),
            None => assert_eq!(answer.status, 404),
        }
    }
    assert_kernel_sealed(&server, before, 1);
}

/// A socket that holds the client's last flight back until the first request goes out with it.
struct Holding {
    socket: TcpStream,
    held: Vec<u8>,
    holding: bool,
}

impl Read for Holding {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.socket.read(into)
    }
}

impl Write for Holding {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // The first flight is the ClientHello.
        if !self.holding {
            self.holding = true;
            return self.socket.write(bytes);
        }
        self.held.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        // BoringSSL flushes each flight; the request's records are recognised by their number.
        if self.held.len() > REQUEST_BYTES_MIN {
            self.socket.write_all(&std::mem::take(&mut self.held))?;
        }
        Ok(())
    }
}

/// More than a Finished with its ChangeCipherSpec takes, less than with the request.
const REQUEST_BYTES_MIN: usize = 200;

pub(crate) fn request_behind_finished() {
    with_everything();
    let (server, before) = start_on(&setup("on"));
    let content = file("clip.mp4", 400_000);
    let options = TlsOptions::version(SslVersion::TLS1_3);
    for _ in 0..10 {
        let socket = Client::connect(server.https()).stream;
        let holding = Holding { socket, held: Vec::new(), holding: false };
        let stream: TlsStream<Holding> = options.handshake(&server, holding).unwrap();
        let padding = format!("X-Padding: {}\r\n", "p".repeat(200));
        content.assert_range(0..content.len, &Client::over(stream).get_with("/clip.mp4", &padding).body);
    }
    assert_kernel_sealed(&server, before, 10);
}

pub(crate) fn slow_reader() {
    with_everything();
    let (server, before) = start_on(&setup("on"));
    let content = file("clip.mp4", 4_000_003);
    let mut client = Client::tls(&server);
    client.send("GET /clip.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let head = client.response_to_head().unwrap();
    assert_eq!(head.field("Content-Length"), Some("4000003"));
    let mut body = Vec::new();
    let mut piece = vec![0; 50_000];
    loop {
        // The socket fills up in the meantime, again and again.
        thread::sleep(Duration::from_millis(5));
        match client.stream.read(&mut piece).unwrap() {
            0 => break,
            count => body.extend_from_slice(&piece[..count]),
        }
    }
    // The first bytes of the body came with the head.
    let behind_head = content.len - body.len() as u64;
    content.assert_range(behind_head..content.len, &body);
    assert_kernel_sealed(&server, before, 1);
}

pub(crate) fn small_socket_buffers() {
    with_everything();
    let small = ["tls: true, send_buffer: 16KiB", "tls: true, unsent_low_water: 16KiB"]
        .map(|one| format!("{one}, protocols: [h1]"));
    let small = [&small[0][..], &small[1]];
    let (server, before) = start_on(&setup("on").listeners(&small));
    let content = file("clip.mp4", 1_000_003);
    for place in 0..small.len() {
        let socket = Client::connect(server.listener(place)).stream;
        let mut client = Client::over(TlsOptions::default().handshake(&server, socket).unwrap());
        content.assert_range(0..content.len, &client.get("/clip.mp4").body);
        client.get_with("/clip.mp4", "Connection: close\r\n");
        client.assert_closed();
    }
    assert_kernel_sealed(&server, before, 2);
}

pub(crate) fn a_hundred() {
    with_everything();
    let (server, before) = start_on(&setup("on"));
    let content = file("clip.mp4", 300_007);
    let address = &server;
    thread::scope(|scope| {
        let options = options();
        // One after the other shakes hands, then all ask before any reads.
        let mut clients: Vec<_> =
            (0..100).map(|number| Client::tls_with(address, &options[number % options.len()])).collect();
        for client in &mut clients {
            client.ask("/clip.mp4");
        }
        for mut client in clients {
            scope.spawn(move || content.assert_range(0..content.len, &client.response().unwrap().body));
        }
    });
    assert_kernel_sealed(&server, before, 100);
}

pub(crate) fn auto() {
    with_everything();
    let server: Server = setup("auto").listeners(&["tls: true"]).start();
    let before = statistics().opened_software;
    let content = file("clip.mp4", 500_001);
    let tiny = file("tiny.mp4", 10);
    for options in options() {
        let mut client = Client::tls_with(&server, &options);
        tiny.assert_range(0..tiny.len, &client.get("/tiny.mp4").body);
        for _ in 0..2 {
            content.assert_range(0..content.len, &client.get("/clip.mp4").body);
        }
        client.stream.close();
        client.assert_closed();
    }
    for _ in 0..2 {
        let mut peer = Peer::tls(&server).open(&[]);
        for (stream, path, content) in
            [(1, "/tiny.mp4", tiny), (3, "/clip.mp4", content), (5, "/clip.mp4", content)]
        {
            peer.send(&get(stream, path));
            content.assert_range(0..content.len, &peer.body(stream));
        }
        peer.0.close();
    }
    // Which way depends on the machine; that it is counted and true does not.
    let name = "penstock_egress_connections_total";
    let all = || (server.metrics().sum(name, &[]) == 8.0).then(|| server.metrics());
    let metrics = until("all connections to be counted", all);
    #[expect(clippy::cast_precision_loss, reason = "a handful of connections")]
    let opened = (statistics().opened_software - before) as f64;
    assert_eq!(metrics.sum(name, &["kind=\"kernel\"", "reason=\"kernel_measured_faster\""]), opened);
    assert_eq!(
        metrics.sum(name, &["kind=\"user_space\"", "reason=\"kernel_measured_slower\""]),
        8.0 - opened
    );
}
