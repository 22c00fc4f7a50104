//! The streams of a connection over a protocol that exists in these tests alone: its batches are lists, its windows are set by
//! the test, and it takes what the test lets it take.
//!
//! HTTP/2 is tested as a whole by other tests. These show that no answer depends on it, nor on a socket.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use penstock_config::Config;
use penstock_egress::{SendError, Transmission};
use penstock_http::{BodyFraming, HttpVersion, ResponseHead, ValidatedHead};
use tokio::task::LocalSet;

use super::{
    ConnectionFacts, Early, Incoming, OpenedStream, SharedConnection, StallClock, StreamTasks, answer, attach,
};
use crate::carrier::multiplexer::{
    Multiplexer, Outgoing, Stalled, StreamCount, StreamHead, StreamRequestHead,
};
use crate::metrics::{HttpLabel, OutletKind, Shard, ShortReason};
use crate::worker::{Worker, worker_for_tests};

/// A request head of a client that sends nothing but method, path and some lines.
struct ScriptedHead {
    method: &'static str,
    path: &'static str,
    lines: String,
}

impl StreamRequestHead for ScriptedHead {
    fn validated(&self, body: BodyFraming) -> ValidatedHead<'_> {
        let Self { method, path, lines } = self;
        let (version, lines) = (HttpVersion::Http2, lines.as_bytes());
        ValidatedHead { version, method, authority: "example.com", path: Some(path), lines, body }
    }

    fn method(&self) -> &str {
        self.method
    }

    fn content_length(&self) -> Option<u64> {
        None
    }
}

/// What was put into a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Frame {
    Continue,
    Head { status: u16, length: Option<u64>, has_date: bool },
    Content(Vec<u8>),
    End,
}

#[derive(Default)]
struct ScriptedStream {
    outgoing: Option<Outgoing>,
    urgency: u8,
    window: usize,
    reset: Option<ShortReason>,
    /// Bytes of the request's body that were used, and that were not.
    released: usize,
    discarded: usize,
}

/// The protocol.
struct Scripted {
    streams: BTreeMap<u64, ScriptedStream>,
    /// The window of each new stream, and that of the connection.
    stream_window: usize,
    window: usize,
    /// Heads and ends that it does not take yet.
    refusals: usize,
    /// The most bytes of content that it takes at once.
    taken_max: usize,
    finished: Vec<u64>,
}

impl Scripted {
    fn new() -> Self {
        Self {
            streams: BTreeMap::new(),
            stream_window: usize::MAX,
            window: usize::MAX,
            refusals: 0,
            taken_max: usize::MAX,
            finished: Vec::new(),
        }
    }

    fn stream(&mut self, stream: u64) -> &mut ScriptedStream {
        let window = self.stream_window;
        self.streams.entry(stream).or_insert_with(|| ScriptedStream {
            urgency: 3,
            window,
            ..ScriptedStream::default()
        })
    }

    /// Puts a frame that takes no content, unless the test has it refused.
    fn put(&mut self, stream: u64, frame: Frame, batch: &mut ScriptedBatch) -> bool {
        if self.refusals > 0 {
            self.refusals -= 1;
            // It is asked again in the next batch.
            batch.is_full = true;
            return false;
        }
        batch.frames.push((stream, frame));
        true
    }
}

/// The frames that are sent together.
#[derive(Default)]
struct ScriptedBatch {
    frames: Vec<(u64, Frame)>,
    is_full: bool,
}

impl Multiplexer for Scripted {
    const VERSION: HttpLabel = HttpLabel::H2;

    type StreamId = u64;

    type RequestHead = ScriptedHead;

    type Batch<'b> = ScriptedBatch;

    fn count(shard: &Shard, count: StreamCount) {
        match count {
            StreamCount::Opened => shard.stream_opened(),
            StreamCount::Closed => shard.stream_closed(),
            StreamCount::Reset(cause) => shard.stream_reset(cause),
        }
    }

    fn number(stream: u64) -> u64 {
        stream
    }

    fn set_outgoing(&mut self, stream: u64, outgoing: Outgoing) {
        self.stream(stream).outgoing = Some(outgoing);
    }

    fn set_default_urgency(&mut self, stream: u64, urgency: u8) {
        self.stream(stream).urgency = urgency;
    }

    fn set_response(&mut self, stream: u64, urgency: Option<u8>, outgoing: Outgoing) {
        let found = self.stream(stream);
        found.urgency = urgency.unwrap_or(found.urgency);
        found.outgoing = Some(outgoing);
    }

    fn put_control(&mut self, _batch: &mut ScriptedBatch) {}

    fn next_stream(&mut self, batch: &ScriptedBatch) -> Option<u64> {
        if batch.is_full {
            return None;
        }
        let connection = self.window;
        let ready = self.streams.iter().filter(|(_, one)| match one.outgoing {
            Some(Outgoing::Frames) => one.reset.is_none(),
            Some(Outgoing::Content) => one.reset.is_none() && one.window.min(connection) > 0,
            Some(Outgoing::Nothing) | None => false,
        });
        ready.min_by_key(|(id, one)| (one.urgency, **id)).map(|(id, _)| *id)
    }

    fn put_interim(&mut self, stream: u64, _interim: &ResponseHead, batch: &mut ScriptedBatch) -> bool {
        self.put(stream, Frame::Continue, batch)
    }

    fn put_head(&mut self, stream: u64, head: &StreamHead, date: &[u8], batch: &mut ScriptedBatch) -> bool {
        let has_date = date.ends_with(b"GMT");
        self.put(stream, Frame::Head { status: head.response.status, length: head.length, has_date }, batch)
    }

    fn content_bytes_max(&self, stream: u64, _batch: &ScriptedBatch) -> usize {
        // A frame of this protocol has at most 10,000 bytes.
        self.streams[&stream].window.min(self.window).min(10_000)
    }

    fn put_content(
        &mut self,
        stream: u64,
        transmission: &mut Transmission,
        length: usize,
        _end: bool,
        batch: &mut ScriptedBatch,
    ) -> Result<usize, SendError> {
        let taken = length.min(self.taken_max);
        let mut content = Vec::new();
        transmission.copy_next(taken, &mut content)?;
        let window = &mut self.stream(stream).window;
        *window -= taken;
        self.window -= taken;
        batch.frames.push((stream, Frame::Content(content)));
        Ok(taken)
    }

    fn put_end(&mut self, stream: u64, batch: &mut ScriptedBatch) -> bool {
        self.put(stream, Frame::End, batch)
    }

    fn stalled(&self, stream: u64) -> Option<Stalled> {
        match (self.streams[&stream].window, self.window) {
            (0, _) => Some(Stalled::Stream),
            (_, 0) => Some(Stalled::Connection),
            _ => None,
        }
    }

    fn reset(&mut self, stream: u64, why: ShortReason) {
        self.stream(stream).reset = Some(why);
    }

    fn finished(&mut self, stream: u64) {
        self.finished.push(stream);
    }

    fn release(&mut self, stream: u64, bytes: usize) {
        self.stream(stream).released += bytes;
    }

    fn discard(&mut self, stream: u64, bytes: usize) {
        self.stream(stream).discarded += bytes;
    }

    fn release_memory(&mut self) {}
}

/// The task of a connection, without a socket.
struct Task<F, M> {
    shared: Rc<SharedConnection<Scripted>>,
    tasks: StreamTasks<F, M>,
    requests: u64,
    /// Whether requests come before the end of the handshake.
    is_early: bool,
    frames: Vec<(u64, Frame)>,
}

impl<F: Future<Output = ()>, M: Fn(OpenedStream<Scripted>) -> F> Task<F, M> {
    async fn open(&mut self, stream: u64, method: &'static str, path: &'static str, has_body: bool) {
        let head = ScriptedHead { method, path, lines: "host: example.com\r\n".to_owned() };
        self.requests += 1;
        let settings = self.shared.worker.settings();
        let early = if self.is_early { Early::Wait } else { Early::No };
        let request = (Incoming::Request { head, has_body, early }, !has_body);
        let numbered = (self.requests, &settings);
        let opened = OpenedStream::new(&self.shared, stream, request, numbered, Instant::now());
        let mut opened = Some(opened);
        poll_fn(|context| {
            if let Some(opened) = opened.take() {
                self.tasks.start(opened, context);
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Runs the streams and fills batches until a batch stays empty and no task can go on. Returns whether a task waits.
    async fn run(&mut self) -> bool {
        let mut idle = 0;
        // Pages that are not in memory are read by another thread.
        while idle < 50 {
            let has_ended = poll_fn(|context| Poll::Ready(self.tasks.run(context))).await;
            let mut batch = ScriptedBatch::default();
            self.shared.state.borrow_mut().fill(&mut batch, &self.shared, Instant::now());
            let is_full = batch.is_full;
            if !batch.frames.is_empty() || is_full || has_ended {
                self.frames.append(&mut batch.frames);
                idle = 0;
                continue;
            }
            idle += 1;
            let (shared, tasks) = (&self.shared, &mut self.tasks);
            poll_fn(|context| {
                attach(shared, &mut |opened| tasks.start(opened, context));
                Poll::Ready(())
            })
            .await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        !self.tasks.is_empty()
    }

    fn content(&self, stream: u64) -> Vec<u8> {
        let of_stream = self.frames.iter().filter(|(id, _)| *id == stream);
        of_stream.fold(Vec::new(), |mut content, (_, frame)| {
            if let Frame::Content(bytes) = frame {
                content.extend_from_slice(bytes);
            }
            content
        })
    }

    fn head(&self, stream: u64) -> Option<(u16, Option<u64>, bool)> {
        self.frames.iter().find_map(|(id, frame)| match frame {
            Frame::Head { status, length, has_date } if *id == stream => Some((*status, *length, *has_date)),
            _ => None,
        })
    }

    fn with<R>(&self, change: impl FnOnce(&mut Scripted) -> R) -> R {
        change(&mut self.shared.state.borrow_mut().protocol)
    }
}

const SMALL: usize = 1000;
const LARGE: usize = 300_000;

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|number| u8::try_from(number % 251).unwrap()).collect()
}

fn shared(worker: &Rc<Worker>, protocol: Scripted) -> Rc<SharedConnection<Scripted>> {
    let client = SocketAddr::from(([192, 0, 2, 1], 50_000));
    let facts = ConnectionFacts {
        client,
        tls: None,
        handshake_busy: Duration::ZERO,
        ja4: None,
        client_certificate: None,
        rules: None,
        alt_svc: None,
        socket: None,
    };
    Rc::new(SharedConnection::new(Rc::clone(worker), facts, OutletKind::Plain, protocol))
}

/// Runs `test` with a connection to a site that has a small and a large file. `limits` are lines of its configuration.
fn on_connection<R>(limits: &str, protocol: Scripted, test: R)
where
    R: AsyncFnOnce(&mut Task<Answering, fn(OpenedStream<Scripted>) -> Answering>),
{
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("small.mp4"), bytes(SMALL)).unwrap();
    std::fs::write(directory.path().join("large.mp4"), bytes(LARGE)).unwrap();
    let root = directory.path().display();
    let text = format!(
        "workers: 1\nlisteners: [{{address: \"127.0.0.1:0\"}}]\nsites: [{{origin: {{directory: \"{root}\"}}}}]\n{limits}"
    );
    let config = Config::from_text(&text, Path::new("test.yaml")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let (worker, _) = worker_for_tests(&config);
        let shared = shared(&worker, protocol);
        shared.state.borrow_mut().finish_handshake();
        let make: fn(OpenedStream<Scripted>) -> Answering = |opened| Box::pin(answer(opened));
        let tasks = StreamTasks::new(make);
        test(&mut Task { shared, tasks, requests: 0, is_early: false, frames: Vec::new() }).await;
    });
}

type Answering = std::pin::Pin<Box<dyn Future<Output = ()>>>;

#[test]
fn files_are_sent_over_a_protocol_that_is_not_http_2() {
    on_connection("", Scripted::new(), async |task| {
        task.open(0, "GET", "/large.mp4", false).await;
        task.open(4, "GET", "/small.mp4", false).await;
        task.open(8, "HEAD", "/small.mp4", false).await;
        task.open(12, "GET", "/none.mp4", false).await;
        assert!(!task.run().await, "a task is left");
        assert_eq!(task.head(0), Some((200, Some(LARGE as u64), true)));
        assert_eq!(task.content(0), bytes(LARGE));
        assert_eq!(task.content(4), bytes(SMALL));
        assert_eq!((task.head(8), task.content(8).len()), (Some((200, Some(SMALL as u64), true)), 0));
        assert_eq!(task.head(12).map(|(status, ..)| status), Some(404));
        let mut finished = task.with(|protocol| std::mem::take(&mut protocol.finished));
        finished.sort_unstable();
        assert_eq!(finished, [0, 4, 8, 12]);
        assert!(task.with(|protocol| protocol.streams.values().all(|one| one.reset.is_none())));
    });
}

#[test]
fn what_the_protocol_does_not_take_is_put_again() {
    let protocol = Scripted { refusals: 3, taken_max: 700, ..Scripted::new() };
    on_connection("", protocol, async |task| {
        task.open(0, "GET", "/small.mp4", false).await;
        task.open(4, "GET", "/large.mp4", false).await;
        assert!(!task.run().await, "a task is left");
        assert_eq!(task.with(|protocol| protocol.refusals), 0);
        for (stream, length) in [(0, SMALL), (4, LARGE)] {
            assert_eq!(task.content(stream), bytes(length), "stream {stream}");
            let heads =
                task.frames.iter().filter(|(id, frame)| *id == stream && matches!(frame, Frame::Head { .. }));
            assert_eq!(heads.count(), 1, "stream {stream}");
        }
    });
}

#[test]
fn streams_are_found_also_if_their_requests_come_in_another_order() {
    on_connection("", Scripted::new(), async |task| {
        for stream in [8, 0, 12, 4] {
            task.open(stream, "GET", "/small.mp4", false).await;
        }
        task.run().await;
        for stream in [0, 4, 8, 12] {
            assert_eq!(task.content(stream), bytes(SMALL), "stream {stream}");
        }
    });
}

#[test]
fn a_stream_that_the_client_resets_sends_nothing_more() {
    let protocol = Scripted { stream_window: 20_000, ..Scripted::new() };
    on_connection("", protocol, async |task| {
        task.open(0, "GET", "/large.mp4", false).await;
        assert!(task.run().await, "the window ends the sending");
        assert_eq!(task.content(0).len(), 20_000);
        let shared = Rc::clone(&task.shared);
        shared.state.borrow_mut().reset_by_client(0, &shared, Instant::now());
        task.with(|protocol| protocol.stream(0).window = usize::MAX);
        assert!(!task.run().await, "the task has ended");
        assert_eq!(task.content(0).len(), 20_000);
        assert_eq!(task.with(|protocol| std::mem::take(&mut protocol.finished)), [0]);
    });
}

#[test]
fn a_client_that_keeps_its_window_closed_ends_its_own_stream_alone() {
    let limits = "limits: {minimum_rate: 1KiB, minimum_rate_grace: 5s}\n";
    on_connection(limits, Scripted::new(), async |task| {
        task.with(|protocol| protocol.stream_window = 20_000);
        task.open(0, "GET", "/large.mp4", false).await;
        task.with(|protocol| protocol.stream_window = usize::MAX);
        assert!(task.run().await);
        let (mut clock, start) = (StallClock::default(), Instant::now());
        let mut judged = |seconds| {
            let now = start + Duration::from_secs(seconds);
            clock.judge(&mut task.shared.state.borrow_mut(), 1024, now)
        };
        assert!(!judged(0), "the wait begins");
        assert!(judged(3));
        // 5 s of grace, 1 s for each KiB of 20,000 bytes, less the 3 s.
        assert_eq!(
            task.shared.state.borrow().stall_left(),
            Some(Duration::from_millis(5000 + 19_531 - 3000))
        );
        assert!(judged(30));
        assert!(!task.run().await, "the task has ended");
        assert_eq!(task.with(|protocol| protocol.stream(0).reset), Some(ShortReason::TooSlow));
        task.open(4, "GET", "/large.mp4", false).await;
        assert!(!task.run().await);
        assert_eq!(task.content(4), bytes(LARGE));
    });
}

#[test]
fn a_request_of_early_data_waits_for_the_end_of_the_handshake() {
    on_connection("", Scripted::new(), async |task| {
        task.is_early = true;
        task.shared = shared(&task.shared.worker, Scripted::new());
        task.open(0, "GET", "/small.mp4", false).await;
        assert!(task.run().await);
        assert_eq!(task.head(0), None);
        task.shared.state.borrow_mut().finish_handshake();
        assert!(!task.run().await);
        assert_eq!(task.content(0), bytes(SMALL));
    });
}

#[test]
fn the_body_of_a_request_is_read_past_and_given_back() {
    on_connection("", Scripted::new(), async |task| {
        task.open(0, "POST", "/small.mp4", true).await;
        task.shared.state.borrow_mut().received(0, vec![1; 5000], false);
        task.run().await;
        task.shared.state.borrow_mut().received(0, vec![1; 3000], true);
        assert!(!task.run().await);
        assert_eq!(task.head(0).map(|(status, ..)| status), Some(405));
        let used = task.with(|protocol| (protocol.stream(0).released, protocol.stream(0).discarded));
        assert_eq!(used.0 + used.1, 8000, "{used:?}");
    });
}
