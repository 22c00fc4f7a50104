//! An origin that answers, waits and fails as a test says, and records what it is asked.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use penstock_origin::http::{
    Fetch, HttpOrigin, OriginError, RelayedResponse, RequestBody, ServerId, ServerOrder,
};
use tokio::sync::{Notify, Semaphore};
use tokio::time::sleep;

use crate::origins::{Fetched, LocalFuture, OriginBody, Origins};

/// Holds a response back until the test opens it.
#[derive(Clone)]
pub(crate) struct Gate(Rc<Semaphore>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self(Rc::new(Semaphore::new(0)))
    }

    pub(crate) fn open(&self) {
        self.0.add_permits(1000);
    }

    /// Whether a response that may wait for it still exists.
    pub(crate) fn is_in_use(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    async fn wait(&self) {
        drop(self.0.acquire().await);
    }
}

/// One step of a body.
#[derive(Clone)]
enum Step {
    Bytes(Bytes),
    Wait(Gate),
    Fail(OriginError),
    Pause(Duration),
}

/// One response.
#[derive(Clone)]
pub(crate) struct Reply {
    status: u16,
    fields: HeaderMap,
    length: Option<u64>,
    proves_completeness: bool,
    head_gate: Option<Gate>,
    head_pause: Duration,
    failure: Option<OriginError>,
    server: Option<ServerId>,
    steps: VecDeque<Step>,
}

impl Reply {
    pub(crate) fn new(status: u16) -> Self {
        Self {
            status,
            fields: HeaderMap::new(),
            length: Some(0),
            proves_completeness: true,
            head_gate: None,
            head_pause: Duration::ZERO,
            failure: None,
            server: None,
            steps: VecDeque::new(),
        }
    }

    /// No response.
    pub(crate) fn failure(error: OriginError) -> Self {
        Self { failure: Some(error), ..Self::new(0) }
    }

    /// 200 with these fields and this body.
    pub(crate) fn ok(fields: &[(&str, &str)], body: &[u8]) -> Self {
        Self::new(200).with(fields).bytes(body)
    }

    /// The part of `whole` that a request asks for, or all of it.
    pub(crate) fn part_of(whole: &[u8], fields: &[(&str, &str)], asked: &OriginRequest) -> Self {
        let Some((first, last)) = asked.range else { return Self::ok(fields, whole) };
        let etag = fields.iter().find(|(name, _)| *name == "etag").map(|(_, value)| *value);
        if let Some(("if-range", known)) = &asked.known
            && Some(known.as_str()) != etag
        {
            return Self::ok(fields, whole);
        }
        let last = last.min(whole.len() as u64 - 1);
        let range = format!("bytes {first}-{last}/{}", whole.len());
        let part = &whole[usize::try_from(first).unwrap()..=usize::try_from(last).unwrap()];
        Self::new(206).with(fields).with(&[("content-range", &range)]).bytes(part)
    }

    pub(crate) fn with(mut self, fields: &[(&str, &str)]) -> Self {
        for (name, value) in fields {
            let name: HeaderName = name.parse().unwrap();
            self.fields.append(name, HeaderValue::from_str(value).unwrap());
        }
        self
    }

    /// Appends bytes to the body; the announced length grows with them.
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.length = self.length.map(|length| length + bytes.len() as u64);
        self.steps.push_back(Step::Bytes(Bytes::copy_from_slice(bytes)));
        self
    }

    /// The body goes on once the gate is open.
    pub(crate) fn wait(mut self, gate: &Gate) -> Self {
        self.steps.push_back(Step::Wait(gate.clone()));
        self
    }

    /// The head, and each piece of `bytes` bytes, come after this time.
    pub(crate) fn slowly(mut self, bytes: usize, pause: Duration) -> Self {
        self.head_pause = pause;
        for step in std::mem::take(&mut self.steps) {
            let Step::Bytes(whole) = step else {
                self.steps.push_back(step);
                continue;
            };
            for piece in whole.chunks(bytes) {
                self.steps.push_back(Step::Pause(pause));
                self.steps.push_back(Step::Bytes(Bytes::copy_from_slice(piece)));
            }
        }
        self
    }

    /// The body comes in pieces of so many bytes.
    pub(crate) fn steps_of(mut self, bytes: usize) -> Self {
        for step in std::mem::take(&mut self.steps) {
            match step {
                Step::Bytes(whole) => {
                    let pieces = whole.chunks(bytes).map(|piece| Step::Bytes(Bytes::copy_from_slice(piece)));
                    self.steps.extend(pieces);
                }
                step => self.steps.push_back(step),
            }
        }
        self
    }

    /// The body breaks off after `bytes` of it, if it has as many and one more.
    pub(crate) fn cut_within(self, bytes: usize, error: OriginError) -> Self {
        let all: usize =
            self.steps.iter().map(|step| if let Step::Bytes(bytes) = step { bytes.len() } else { 0 }).sum();
        if bytes < all { self.cut_after(bytes, error) } else { self }
    }

    /// The body breaks off after `bytes` of it.
    pub(crate) fn cut_after(mut self, bytes: usize, error: OriginError) -> Self {
        let whole: Vec<u8> = self
            .steps
            .drain(..)
            .filter_map(|step| if let Step::Bytes(bytes) = step { Some(bytes) } else { None })
            .flatten()
            .collect();
        self.steps.push_back(Step::Bytes(Bytes::copy_from_slice(&whole[..bytes])));
        self.steps.push_back(Step::Fail(error));
        self
    }

    pub(crate) fn then_fail(mut self, error: OriginError) -> Self {
        self.steps.push_back(Step::Fail(error));
        self
    }

    /// The head does not announce a length.
    pub(crate) fn unannounced(mut self) -> Self {
        self.length = None;
        self
    }

    /// The body ends with its connection.
    pub(crate) fn close_delimited(mut self) -> Self {
        self.proves_completeness = false;
        self.unannounced()
    }

    pub(crate) fn length_announced(&self) -> u64 {
        self.length.unwrap()
    }

    /// The head announces this length, whatever comes.
    pub(crate) fn announcing(mut self, length: usize) -> Self {
        self.length = Some(length as u64);
        self
    }

    /// The head comes once the gate is open.
    pub(crate) fn head_after(mut self, gate: &Gate) -> Self {
        self.head_gate = Some(gate.clone());
        self
    }
}

/// A request to the origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OriginRequest {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Fields of the client's request that were forwarded, and those for another node.
    pub(crate) fields: HeaderMap,
    pub(crate) range: Option<(u64, u64)>,
    pub(crate) known: Option<(&'static str, String)>,
    /// Whether it is marked as early data.
    pub(crate) early: bool,
    /// The Host that it is asked for, if it is not that of the server.
    pub(crate) host: Option<String>,
    /// The URL of the first server.
    pub(crate) origin: String,
    /// The server that is asked: the preferred one, or the next in turn.
    pub(crate) server: usize,
    /// When, in milliseconds since the first request.
    pub(crate) at: u128,
}

impl OriginRequest {
    /// The value of a field; empty if there is none.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

type Handler = Box<dyn Fn(&OriginRequest) -> Reply>;

/// Name and value of fields.
pub(crate) type FieldList<'f> = &'f [(&'f str, &'f str)];

/// The origin. Replies that are queued go out in order; without one the handler is asked.
#[derive(Default)]
pub(crate) struct ScriptedOrigin {
    replies: RefCell<VecDeque<Reply>>,
    handler: RefCell<Option<Handler>>,
    asked: RefCell<Vec<OriginRequest>>,
    first: RefCell<Option<tokio::time::Instant>>,
    arrived: Notify,
}

impl ScriptedOrigin {
    /// Queues a reply.
    pub(crate) fn reply(&self, reply: Reply) {
        self.replies.borrow_mut().push_back(reply);
    }

    /// Answers all requests for which no reply is queued.
    pub(crate) fn handle(&self, handler: impl Fn(&OriginRequest) -> Reply + 'static) {
        *self.handler.borrow_mut() = Some(Box::new(handler));
    }

    pub(crate) fn asked(&self) -> Vec<OriginRequest> {
        self.asked.borrow().clone()
    }

    pub(crate) fn requests(&self) -> usize {
        self.asked.borrow().len()
    }

    /// Waits until the origin was asked so often.
    pub(crate) async fn wait_for_requests(&self, number: usize) {
        while self.requests() < number {
            self.arrived.notified().await;
        }
    }

    fn next(&self, origin: &HttpOrigin, fetch: &Fetch) -> Reply {
        let now = tokio::time::Instant::now();
        let first = *self.first.borrow_mut().get_or_insert(now);
        let asked = OriginRequest {
            method: fetch.method.to_string(),
            target: fetch.target.clone(),
            fields: fetch.fields.clone(),
            range: fetch.range,
            known: fetch.known.clone(),
            early: fetch.early,
            host: fetch.host.clone(),
            origin: origin.server_status()[0].url.clone(),
            server: self.server(origin, fetch),
            at: (now - first).as_millis(),
        };
        self.asked.borrow_mut().push(asked.clone());
        self.arrived.notify_waiters();
        self.arrived.notify_one();
        let server = Some(origin.server_id(asked.server));
        if let Some(reply) = self.replies.borrow_mut().pop_front() {
            return Reply { server, ..reply };
        }
        let handled = self.handler.borrow().as_ref().map(|handle| handle(&asked));
        Reply { server, ..handled.unwrap_or_else(|| Reply::failure(OriginError::Unreachable)) }
    }

    fn server(&self, origin: &HttpOrigin, fetch: &Fetch) -> usize {
        let next = || self.requests() % origin.server_status().len();
        fetch.preferred.map_or_else(next, ServerId::index)
    }

    async fn answer<'f>(
        &self,
        origin: &HttpOrigin,
        fetch: &Fetch,
    ) -> Result<Box<dyn OriginBody + 'f>, OriginError> {
        let reply = self.next(origin, fetch);
        if let Some(gate) = &reply.head_gate {
            gate.wait().await;
        }
        if !reply.head_pause.is_zero() {
            sleep(reply.head_pause).await;
        }
        match reply.failure {
            Some(error) => Err(error),
            None => Ok(Box::new(reply)),
        }
    }
}

impl Origins for Rc<ScriptedOrigin> {
    fn fetch<'f, 'o: 'f>(&'o self, origin: &'f Arc<HttpOrigin>, fetch: &'f Fetch) -> Fetched<'f, 'o> {
        Box::pin(self.answer(origin, fetch))
    }

    fn forward<'f, 'o: 'f>(
        &'o self,
        origin: &'f Arc<HttpOrigin>,
        fetch: &'f Fetch,
        _body: RequestBody,
    ) -> Fetched<'f, 'o> {
        Box::pin(self.answer(origin, fetch))
    }

    fn relay<'f>(
        &'f self,
        _origin: &'f Arc<HttpOrigin>,
        _fetch: &'f Fetch,
        _order: Option<&'f ServerOrder<'f>>,
    ) -> LocalFuture<'f, Result<RelayedResponse, OriginError>> {
        // A body that stays in its socket cannot be scripted.
        Box::pin(async { Err(OriginError::Unreachable) })
    }
}

impl OriginBody for Reply {
    fn status(&self) -> u16 {
        self.status
    }

    fn fields(&self) -> &HeaderMap {
        &self.fields
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn proves_completeness(&self) -> bool {
        self.proves_completeness
    }

    fn server(&self) -> Option<ServerId> {
        self.server
    }

    fn next(&mut self) -> LocalFuture<'_, Result<Option<Bytes>, OriginError>> {
        Box::pin(async move {
            loop {
                match self.steps.front() {
                    None => return Ok(None),
                    Some(Step::Wait(gate)) => gate.wait().await,
                    Some(Step::Fail(error)) => return Err(*error),
                    Some(Step::Pause(time)) => sleep(*time).await,
                    Some(Step::Bytes(_)) => {}
                }
                if let Some(Step::Bytes(bytes)) = self.steps.pop_front() {
                    return Ok(Some(bytes));
                }
            }
        })
    }
}
