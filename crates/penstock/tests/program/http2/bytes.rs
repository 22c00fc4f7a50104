//! Every byte is the right one, with the crate `h2` as the client: sizes and ranges around the borders of frames, records,
//! windows and batches; windows from one byte up; many streams of which some are reset.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use boring::ssl::{SslConnector, SslMethod};
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream};
use http::{Request, StatusCode};
use penstock_testkit::{Content, DEADLINE, Random, Server};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::setup;

const KIB: u64 = 1024;

/// Borders in the server: payloads of small records and of full ones, the initial window, the end of the small records,
/// the smallest and the largest batch.
const BORDERS: [u64; 9] =
    [1350, 4 * KIB, 16_375, 16 * KIB, 65_535, 64 * KIB, 256 * KIB, 512 * KIB, 1024 * KIB];

/// Runs a client to its end.
fn run(client: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, client).await.expect("an end in time") });
}

/// Opens a connection. Its task ends with the runtime.
async fn connect(server: &Server, is_tls: bool, builder: &Builder) -> SendRequest<Bytes> {
    if !is_tls {
        return start(TcpStream::connect(server.http()).await.unwrap(), builder).await;
    }
    let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
    connector.set_ca_file(server.certificates().authority()).unwrap();
    connector.set_alpn_protos(b"\x02h2").unwrap();
    let config = connector.build().configure().unwrap();
    let socket = TcpStream::connect(server.https()).await.unwrap();
    let stream = tokio_boring::connect(config, "localhost", socket).await.unwrap();
    start(stream, builder).await
}

async fn start(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    builder: &Builder,
) -> SendRequest<Bytes> {
    let (sender, connection) = builder.handshake(stream).await.unwrap();
    tokio::spawn(async move { connection.await.unwrap() });
    sender
}

/// The start of a response to a request for a range, or for all of it.
async fn begin(
    sender: SendRequest<Bytes>,
    path: &str,
    range: Option<Range<u64>>,
) -> (StatusCode, RecvStream) {
    loop {
        let mut request = Request::get(format!("https://localhost{path}"));
        if let Some(range) = &range {
            request = request.header("range", format!("bytes={}-{}", range.start, range.end - 1));
        }
        let mut sender = sender.clone().ready().await.unwrap();
        let (response, _) = sender.send_request(request.body(()).unwrap(), true).unwrap();
        match response.await {
            Ok(response) => return (response.status(), response.into_body()),
            // Streams that were reset count until their work has ended (RFC 9113 §8.7: this request was not processed).
            Err(error) if error.reason() == Some(Reason::REFUSED_STREAM) => tokio::task::yield_now().await,
            Err(error) => panic!("{path}: {error}"),
        }
    }
}

/// Reads up to `limit` bytes and gives them back to the windows.
async fn read(body: &mut RecvStream, limit: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < limit {
        let Some(piece) = body.data().await else { break };
        let piece = piece.unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        bytes.extend_from_slice(&piece);
    }
    bytes
}

/// Fetches a range, or all of it, and compares every byte.
async fn check(sender: SendRequest<Bytes>, name: String, file: Arc<Content>, range: Option<Range<u64>>) {
    let expected = range.clone().unwrap_or(0..file.len);
    let (status, mut body) = begin(sender, &format!("/{name}"), range.clone()).await;
    assert_eq!(status, if range.is_some() { 206 } else { 200 }, "{name} {range:?}");
    file.assert_range(expected, &read(&mut body, usize::MAX).await);
    assert!(body.trailers().await.unwrap().is_none());
}

/// Makes files of these sizes, named after them.
fn files(server: &Server, sizes: impl IntoIterator<Item = u64>) -> Vec<(String, Arc<Content>)> {
    // Each once: a second file of the same size would replace the first.
    let sizes = BTreeSet::from_iter(sizes).into_iter().map(|size| (format!("{size}.bin"), size));
    sizes.map(|(name, size)| (name.clone(), Arc::new(server.file(&name, size)))).collect()
}

async fn all(mut tasks: JoinSet<()>) {
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

#[test]
fn sizes_around_every_border_are_whole_side_by_side() {
    let server = setup().start();
    let around = BORDERS.into_iter().flat_map(|border| [border - 1, border, border + 1]);
    let files = files(&server, around.chain([0, 1, 2]));
    for is_tls in [true, false] {
        for (stream, connection) in [(65_535, 65_535), (16_384, 1 << 20), (1 << 24, 1 << 25)] {
            run(async {
                let mut builder = Builder::new();
                builder.initial_window_size(stream).initial_connection_window_size(connection);
                let sender = connect(&server, is_tls, &builder).await;
                let mut tasks = JoinSet::new();
                for (name, file) in &files {
                    tasks.spawn(check(sender.clone(), name.clone(), Arc::clone(file), None));
                }
                all(tasks).await;
            });
        }
    }
}

#[test]
fn ranges_around_every_border_are_exact_side_by_side() {
    let server = setup().start();
    let mut random = Random::from_environment();
    let film = files(&server, [3_000_000]).remove(0);
    for is_tls in [true, false] {
        let mut ranges = Vec::new();
        for border in BORDERS {
            let from = random.below(film.1.len - border - 1);
            ranges.extend([from..from + border - 1, from..from + border, from..from + border + 1]);
            ranges.push(border - 1..film.1.len);
        }
        run(async {
            let mut builder = Builder::new();
            builder.initial_window_size(1 << 20).initial_connection_window_size(1 << 22);
            let sender = connect(&server, is_tls, &builder).await;
            let mut tasks = JoinSet::new();
            for range in ranges {
                tasks.spawn(check(sender.clone(), film.0.clone(), Arc::clone(&film.1), Some(range)));
            }
            all(tasks).await;
        });
    }
}

#[test]
fn a_window_of_any_size_brings_the_whole_body() {
    let server = setup().start();
    let files = files(&server, [1000, 100_000, 400_000]);
    for is_tls in [true, false] {
        for window in [1, 2, 3, 100, 1349, 1351, 16_374, 16_375, 16_376, 16_384, 16_385, 65_536, 300_000] {
            let (name, file) = &files[if window < 100 { 0 } else { 1 + usize::from(window > 10_000) }];
            run(async {
                let mut builder = Builder::new();
                builder.initial_window_size(window);
                let sender = connect(&server, is_tls, &builder).await;
                let mut tasks = JoinSet::new();
                for _ in 0..2 {
                    tasks.spawn(check(sender.clone(), name.clone(), Arc::clone(file), None));
                }
                all(tasks).await;
            });
        }
    }
}

#[test]
fn a_window_that_opens_and_closes_while_bodies_are_sent_loses_nothing() {
    let server = setup().start();
    let files = files(&server, [500_000]);
    run(async {
        let socket = TcpStream::connect(server.http()).await.unwrap();
        let (sender, mut connection) =
            Builder::new().initial_window_size(0).handshake::<_, Bytes>(socket).await.unwrap();
        let mut tasks = JoinSet::new();
        for (name, file) in files.iter().cycle().take(3) {
            tasks.spawn(check(sender.clone(), name.clone(), Arc::clone(file), None));
        }
        let mut sizes = [10_000, 0, 1, 70_000, 0, 1 << 20].into_iter().peekable();
        let driver = poll_fn(move |context| {
            loop {
                if let Poll::Ready(ended) = Pin::new(&mut connection).poll(context) {
                    return Poll::Ready(ended);
                }
                // A setting can be changed once the server has acknowledged the one before.
                match sizes.peek() {
                    Some(size) if connection.set_initial_window_size(*size).is_ok() => drop(sizes.next()),
                    _ => return Poll::Pending,
                }
            }
        });
        tokio::spawn(async move { driver.await.unwrap() });
        all(tasks).await;
    });
}

#[test]
fn streams_that_are_reset_at_any_place_leave_the_others_whole() {
    let server = setup().start();
    let mut random = Random::from_environment();
    let film = files(&server, [1_500_000]).remove(0);
    for is_tls in [true, false] {
        let mut requests = Vec::new();
        for _ in 0..200 {
            let start = random.below(film.1.len - 1);
            let end = start + 1 + random.below((film.1.len - start).min(300_000));
            let taken = (random.below(2) == 0).then(|| random.below(end - start + 1));
            requests.push((start..end.min(film.1.len), taken));
        }
        run(async {
            let mut builder = Builder::new();
            builder.initial_window_size(50_000).initial_connection_window_size(200_000);
            let sender = connect(&server, is_tls, &builder).await;
            let mut tasks = JoinSet::new();
            for (range, taken) in requests {
                let (sender, (name, file)) = (sender.clone(), film.clone());
                tasks.spawn(async move {
                    let Some(taken) = taken else { return check(sender, name, file, Some(range)).await };
                    let (_, mut body) = begin(sender, &format!("/{name}"), Some(range.clone())).await;
                    let bytes = read(&mut body, usize::try_from(taken).unwrap()).await;
                    let end = range.start + bytes.len() as u64;
                    // Dropping the rest of the body resets the stream.
                    file.assert_range(range.start..end, &bytes);
                });
            }
            all(tasks).await;
        });
    }
    server.counted("penstock_http2_streams", &[], 0.0);
}
