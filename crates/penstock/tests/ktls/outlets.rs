//! The outlet itself, driven as the edge drives it, with the moments between its steps in the test's hands.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use boring::ssl::SslVersion;
use penstock_egress::{
    Available, FramesStep, KernelAbilities, KernelEntry, Outlet, OutletKind, OutletLimits, Part, SendError,
    SocketSource, Step, Transmission,
};
use penstock_sys::ConnectedSocket;
use penstock_sys::file::{Extent, OpenFile};
use penstock_sys::traffic::ProtocolVersion;
use penstock_testkit::{Certificates, Client, Content, TlsOptions, disk_directory};
use penstock_tls::certificate::Certificate;
use penstock_tls::{
    Acceptor, AcceptorSettings, ConnectingClient, DefaultFor, Group, HttpVersions, OfferedCertificate,
    SigningLimiter,
};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::bodies::options;
use crate::kernel::with_everything;
use crate::modules::file;

const LIMITS: OutletLimits = OutletLimits {
    batch_bytes_min: 64 * 1024,
    batch_bytes_max: 512 * 1024,
    plain_bytes_max: 1024 * 1024,
    small_record_bytes: 1360,
    small_record_phase_bytes: 64 * 1024,
    idle: Duration::from_secs(1),
    records_per_key: 1 << 24,
};

/// One connection: the test is the client, `serve` has the other end on a thread of its own.
struct Meeting {
    certificates: Certificates,
    _directory: TempDir,
    address: SocketAddr,
}

impl Meeting {
    fn arrange<R: Send + 'static>(
        limits: OutletLimits,
        serve: impl AsyncFnOnce(Outlet, Rc<ConnectedSocket>) -> R + Send + 'static,
    ) -> (Self, JoinHandle<R>) {
        let directory = disk_directory();
        let certificates = Certificates::make(directory.path());
        let (chain, key) = (certificates.path("ec.crt"), certificates.path("ec.key"));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let socket = listener.accept().await.unwrap().0.into_std().unwrap();
                let socket = Rc::new(ConnectedSocket::from(socket));
                let (acceptor, turns) = (acceptor(&chain, &key), SigningLimiter::new(1));
                let accepting = acceptor.accept(
                    Rc::clone(&socket),
                    Vec::new(),
                    HttpVersions::H1,
                    &turns,
                    ConnectingClient::default(),
                );
                let established = accepting.await;
                // Receiving stays where it was; nothing more is received here.
                let keys = established.unwrap_or_else(|failure| panic!("{}", failure.reason)).keys;
                let outlet = Outlet::user_space(Rc::clone(&socket), keys, limits).unwrap();
                serve(outlet, socket).await
            })
        });
        (Self { certificates, _directory: directory, address }, thread)
    }

    fn client(&self, options: &TlsOptions) -> Client<penstock_testkit::TlsStream> {
        let socket = Client::connect(self.address).stream;
        Client::over(options.handshake_trusting(&self.certificates, socket).unwrap())
    }
}

fn acceptor(chain: &Path, key: &Path) -> Acceptor {
    let certificate = Arc::new(Certificate::load(chain, key).unwrap());
    let certificate = OfferedCertificate::loaded(&certificate, DefaultFor::Unknown);
    Acceptor::new(AcceptorSettings {
        certificates: vec![certificate],
        prepared_certificates: 1,
        oldest: ProtocolVersion::Tls12,
        legacy: None,
        newest: ProtocolVersion::Tls13,
        groups: vec![Group::X25519],
        asks_for_best_group: false,
        ja4: false,
        suites: penstock_tls::SUITES.iter().collect(),
        chacha20: Arc::default(),
        tickets: None,
        session_storage: None,
        compressions: Vec::new(),
        compressed_bytes_max: 0,
        client_hello_bytes_max: 64 * 1024,
        session_lifetime: Duration::from_secs(3600),
        staples: Arc::default(),
        early_data: None,
        client_certificates: None,
        key_log: None,
    })
    .unwrap()
}

/// Drives a transmission to its end, as the edge does.
async fn send(outlet: &mut Outlet, socket: &ConnectedSocket, parts: Vec<Part>) -> Result<(), SendError> {
    let mut transmission = Transmission::new(parts);
    loop {
        match outlet.advance(&mut transmission, Instant::now())? {
            Step::Done => return Ok(()),
            Step::Sent(_) => {}
            Step::Blocked => socket.writable().await.unwrap(),
            Step::Cold(rest) => transmission.warmed(rest.len.min(512 * 1024)),
            Step::Starved => {
                let source = Rc::clone(transmission.source().unwrap().socket());
                source.readable().await.unwrap();
            }
        }
    }
}

/// Says goodbye and closes the socket at once: whatever the kernel has not passed on by then is lost.
async fn close(mut outlet: Outlet, socket: Rc<ConnectedSocket>) {
    outlet.alert(0);
    while !outlet.flush().unwrap() {
        socket.writable().await.unwrap();
    }
}

fn open(name: &str) -> Arc<OpenFile> {
    let path = Path::new(crate::kernel::ROOT).join(name);
    Arc::new(OpenFile::from_fd(OwnedFd::from(fs::File::open(path).unwrap())).unwrap())
}

fn memory(text: &str) -> Vec<Part> {
    vec![Part::Owned(text.as_bytes().to_vec())]
}

pub(crate) fn enters_between_responses() {
    with_everything();
    fs::create_dir_all(crate::kernel::ROOT).unwrap();
    let content = file("outlet.mp4", 6_000_001);
    for options in options() {
        let (meeting, serving) = Meeting::arrange(LIMITS, async |mut outlet, socket| {
            send(&mut outlet, &socket, memory("first ")).await.unwrap();
            assert_eq!(outlet.kind(), OutletKind::UserSpace);
            assert_eq!(outlet.enter_kernel(KernelAbilities::default()), KernelEntry::Entered);
            assert_eq!(outlet.kind(), OutletKind::Kernel);
            assert_eq!(
                outlet.enter_kernel(KernelAbilities::default()),
                KernelEntry::Refused("not_in_user_space")
            );
            let mut parts = memory("head ");
            parts.push(Part::Extent(Extent::whole(open("outlet.mp4"))));
            parts.extend(memory(" tail"));
            send(&mut outlet, &socket, parts).await.unwrap();
            close(outlet, socket).await;
        });
        let received = meeting.client(&options).rest().unwrap();
        serving.join().unwrap();
        let body = received.strip_prefix(b"first head ").and_then(|rest| rest.strip_suffix(b" tail"));
        content.assert_range(0..content.len, body.expect("what surrounds the body"));
    }
}

pub(crate) fn enters_between_batches() {
    const HEADER: [u8; 9] = [7; 9];
    with_everything();
    fs::create_dir_all(crate::kernel::ROOT).unwrap();
    let content = file("outlet.mp4", 6_000_001);
    for options in options() {
        let (meeting, serving) = Meeting::arrange(LIMITS, async |mut outlet, socket| {
            let mut transmission = Transmission::new(vec![Part::Extent(Extent::whole(open("outlet.mp4")))]);
            let (mut lengths, mut not_yet) = (Vec::new(), 0);
            loop {
                // Once 64 KiB have been sealed in user space.
                if lengths.iter().sum::<usize>() > 64 * 1024 && outlet.kind() == OutletKind::UserSpace {
                    match outlet.enter_kernel(KernelAbilities::default()) {
                        KernelEntry::Entered => {}
                        KernelEntry::NotYet => not_yet += 1,
                        KernelEntry::Refused(reason) => panic!("{reason}"),
                    }
                }
                let step = outlet.send_frames(Instant::now(), |batch| {
                    while let Some(space @ 1..) = batch.space().checked_sub(HEADER.len()) {
                        match transmission.available(space) {
                            Available::Bytes(length) => {
                                batch.put_content(&HEADER, &mut transmission, length).unwrap();
                                lengths.push(length);
                            }
                            Available::Cold(rest) => transmission.warmed(rest.len.min(512 * 1024)),
                            Available::Done => break,
                            Available::Unknown => unreachable!("there is no source"),
                        }
                    }
                });
                match step.unwrap() {
                    FramesStep::Sent(_) => {}
                    FramesStep::Blocked => socket.writable().await.unwrap(),
                    FramesStep::Idle => break,
                }
            }
            assert_eq!(outlet.kind(), OutletKind::Kernel);
            assert!(not_yet < lengths.len(), "it stayed in user space");
            close(outlet, socket).await;
            lengths
        });
        let received = meeting.client(&options).rest().unwrap();
        let (mut rest, mut body) = (&received[..], Vec::new());
        for length in serving.join().unwrap() {
            let (frame, behind) = rest.split_at(HEADER.len() + length);
            body.extend_from_slice(frame.strip_prefix(&HEADER).expect("a header"));
            rest = behind;
        }
        assert!(rest.is_empty());
        content.assert_range(0..content.len, &body);
    }
}

pub(crate) fn loses_nothing_at_close() {
    with_everything();
    fs::create_dir_all(crate::kernel::ROOT).unwrap();
    for (send_buffer, unsent) in
        [(4096, 4096), (20_000, 512 * 1024), (100_000, 16_384), (1 << 20, 4096), (1 << 20, 512 * 1024)]
    {
        for bytes in [40_000, 300_001] {
            let content = file("outlet.mp4", bytes);
            let (meeting, serving) = Meeting::arrange(LIMITS, async move |mut outlet, socket| {
                rustix::net::sockopt::set_socket_send_buffer_size(&*socket, send_buffer).unwrap();
                socket2::SockRef::from(&*socket).set_tcp_notsent_lowat(unsent).unwrap();
                assert_eq!(outlet.enter_kernel(KernelAbilities::default()), KernelEntry::Entered);
                let parts = vec![Part::Extent(Extent::whole(open("outlet.mp4")))];
                send(&mut outlet, &socket, parts).await.unwrap();
                close(outlet, socket).await;
            });
            let mut client = meeting.client(&TlsOptions::default());
            let (mut received, mut piece) = (Vec::new(), vec![0; 16 * 1024]);
            loop {
                thread::sleep(Duration::from_millis(1));
                match client.stream.read(&mut piece).unwrap() {
                    0 => break,
                    count => received.extend_from_slice(&piece[..count]),
                }
            }
            serving.join().unwrap();
            content.assert_range(0..content.len, &received);
        }
    }
}

pub(crate) fn waits_for_what_is_sealed() {
    with_everything();
    fs::create_dir_all(crate::kernel::ROOT).unwrap();
    let content = file("outlet.mp4", 20_000_001);
    let (full, is_full) = mpsc::channel();
    let (meeting, serving) = Meeting::arrange(LIMITS, async move |mut outlet, socket| {
        let mut transmission = Transmission::new(vec![Part::Extent(Extent::whole(open("outlet.mp4")))]);
        let mut refused = 0;
        loop {
            match outlet.advance(&mut transmission, Instant::now()).unwrap() {
                Step::Done => break,
                Step::Blocked => {
                    assert_eq!(outlet.enter_kernel(KernelAbilities::default()), KernelEntry::NotYet);
                    refused += 1;
                    full.send(()).unwrap();
                    socket.writable().await.unwrap();
                }
                Step::Cold(rest) => transmission.warmed(rest.len.min(512 * 1024)),
                Step::Sent(_) => {}
                Step::Starved => unreachable!("there is no source"),
            }
        }
        assert_eq!(outlet.enter_kernel(KernelAbilities::default()), KernelEntry::Entered);
        send(&mut outlet, &socket, memory(" and more")).await.unwrap();
        close(outlet, socket).await;
        refused
    });
    let mut client = meeting.client(&TlsOptions::default());
    // Nothing is read until the socket is full.
    is_full.recv().unwrap();
    drop(is_full_forever(is_full));
    let received = client.rest().unwrap();
    assert!(serving.join().unwrap() > 0);
    content.assert_range(0..content.len, received.strip_suffix(b" and more").unwrap());
}

/// Keeps the channel open on a thread of its own, so that later reports of a full socket go somewhere.
fn is_full_forever(reports: mpsc::Receiver<()>) -> JoinHandle<usize> {
    thread::spawn(move || reports.iter().count())
}

/// A plain HTTP server for one request. `cut` bytes of the promised body never come.
fn http_source(content: Content, cut: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let count = socket.read(&mut request).unwrap();
        assert!(request[..count].ends_with(b"\r\n\r\n"));
        write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len).unwrap();
        let body = content.bytes(0..content.len - cut);
        for (number, piece) in body.chunks(77_777).enumerate() {
            // Sometimes the outlet is faster than its source, sometimes slower. It may also have gone.
            if number % 7 == 3 {
                thread::sleep(Duration::from_millis(3));
            }
            if socket.write_all(piece).is_err() {
                return;
            }
        }
    });
    address
}

/// Asks for the body and reads the head of the answer, and not a byte more.
fn request(address: SocketAddr) -> (Rc<TcpStream>, u64) {
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nHost: source\r\n\r\n").unwrap();
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    socket.set_nonblocking(true).unwrap();
    let socket = TcpStream::from_std(socket).unwrap();
    let head = String::from_utf8(head).unwrap();
    let (_, length) = head.trim_end().rsplit_once("Content-Length: ").unwrap();
    (Rc::new(socket), length.parse().unwrap())
}

pub(crate) fn splices() {
    with_everything();
    let content = Content::new(7, 3_000_017);
    for (in_kernel, cut) in [(true, 0), (false, 0), (true, 100_000), (false, 100_000)] {
        let origin = http_source(content, cut);
        let (meeting, serving) = Meeting::arrange(LIMITS, async move |mut outlet, socket| {
            if in_kernel {
                assert_eq!(outlet.enter_kernel(KernelAbilities::default()), KernelEntry::Entered);
            }
            let (source, length) = request(origin);
            let mut parts = memory("head ");
            parts.push(Part::Source(SocketSource::new(source, length)));
            let outcome = send(&mut outlet, &socket, parts).await;
            close(outlet, socket).await;
            outcome.map_err(|error| error.to_string())
        });
        let received = meeting.client(&TlsOptions::default()).rest().unwrap();
        let outcome = serving.join().unwrap();
        assert_eq!(outcome.is_ok(), cut == 0, "{outcome:?}");
        content.assert_range(0..content.len - cut, received.strip_prefix(b"head ").unwrap());
    }
}

pub(crate) fn worn_out() {
    with_everything();
    fs::create_dir_all(crate::kernel::ROOT).unwrap();
    let content = file("outlet.mp4", 300_000);
    let rekey = penstock_sys::ktls::probe().unwrap().rekey;
    let limits = OutletLimits { records_per_key: 200, ..LIMITS };
    let (meeting, serving) = Meeting::arrange(limits, async move |mut outlet, socket| {
        let abilities = KernelAbilities { rekey, zerocopy: false };
        assert_eq!(outlet.enter_kernel(abilities), KernelEntry::Entered);
        let mut responses = 0;
        while outlet.ending().is_none() && responses < 50 {
            let parts = vec![Part::Extent(Extent::whole(open("outlet.mp4")))];
            send(&mut outlet, &socket, parts).await.unwrap();
            responses += 1;
        }
        let reason = outlet.ending();
        let mut parts = Vec::new();
        parts.extend((0..20).map(|_| Part::Extent(Extent::whole(open("outlet.mp4")))));
        let beyond = send(&mut outlet, &socket, parts).await;
        close(outlet, socket).await;
        (responses, reason, beyond.is_err())
    });
    let options = TlsOptions { suites: &[0x1301], ..TlsOptions::version(SslVersion::TLS1_3) };
    let received = meeting.client(&options).rest().unwrap();
    let (responses, reason, refused) = serving.join().unwrap();
    if rekey {
        assert_eq!((responses, reason, refused), (50, None, false));
        assert_eq!(received.len(), 70 * 300_000);
    } else {
        assert_eq!((reason, refused), (Some("keys_worn_out"), true));
        assert!((1..50).contains(&responses), "{responses}");
        assert!(received.len() >= responses * 300_000);
    }
    for body in received.chunks_exact(300_000) {
        content.assert_range(0..content.len, body);
    }
}

pub(crate) fn immutable_files() {
    with_everything();
    fs::create_dir_all(crate::kernel::ROOT).unwrap();
    let content = file("outlet.mp4", 2_000_000);
    let (meeting, serving) = Meeting::arrange(LIMITS, async |mut outlet, socket| {
        let abilities = KernelAbilities { rekey: false, zerocopy: true };
        assert_eq!(outlet.enter_kernel(abilities), KernelEntry::Entered);
        let mutable = || Part::Extent(Extent::whole(open("outlet.mp4")));
        let immutable = || {
            let file = Arc::into_inner(open("outlet.mp4")).unwrap().promise_immutable();
            Part::Extent(Extent::whole(Arc::new(file)))
        };
        send(&mut outlet, &socket, vec![mutable(), immutable(), immutable(), mutable()]).await.unwrap();
        close(outlet, socket).await;
    });
    let received = meeting.client(&TlsOptions::default()).rest().unwrap();
    serving.join().unwrap();
    assert_eq!(received.len(), 8_000_000);
    for body in received.chunks_exact(2_000_000) {
        content.assert_range(0..content.len, body);
    }
}
