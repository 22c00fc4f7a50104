//! The answer from an object: conditions, ranges, and the head that its origin gave it.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use penstock_cache::Object;
use penstock_config::limits;
use penstock_egress::Part;
use penstock_http::conditional::{Precondition, Validators, evaluate};
use penstock_http::multipart::{Boundary, Multipart};
use penstock_http::range::{Ranges, select};
use penstock_http::{HeadWriter, Method, Status, Version};

use super::fill::CHANGED;
use super::find::{Found, Outcome, Search};
use super::flow::Flow;
use super::follow::{Broken, Piece, until_there};
use super::{Description, Following, HttpSite, Store};
use crate::respond::{Answer, Exchange, HEAD_ROOM_BYTES};
use crate::site::Site;

/// An object that answers one request.
pub(super) struct Reply<'r> {
    pub(super) exchange: &'r Exchange<'r>,
    pub(super) site: &'r Site,
    pub(super) store: &'r Store,
    pub(super) object: Arc<Object<Description>>,
    pub(super) outcome: Outcome,
    /// The object has changed before any of it was sent: its new version can still answer.
    pub(super) outdated: Cell<bool>,
    /// The body, if it comes for this request alone: then all of it is the answer.
    pub(super) flow: Cell<Option<Flow>>,
}

/// What a body is made of, and its length if that is known.
struct Contents {
    pieces: Vec<Piece>,
    length: Option<u64>,
    /// Content-Type where it is not the object's own.
    content_type: Option<String>,
}

/// What became of an object whose length nobody knew.
enum Growing {
    Ended(u64),
    Answer(Box<Answer>),
}

/// Answers a GET or HEAD from the cache, or from the origin through the cache.
pub(crate) async fn respond_from_cache(
    exchange: &Exchange<'_>,
    site: &Site,
    origin: &Arc<HttpSite>,
    store: &Store,
) -> Answer {
    // What no file can be called is nothing to ask an origin for either.
    if exchange.request.path().is_err() {
        return exchange.page(Some(site), Status::NotFound);
    }
    let search = Search {
        worker: Rc::clone(exchange.worker),
        store: store.clone(),
        site: Arc::clone(origin),
        asked: origin.asked(exchange.request, exchange.early, store.purges.stamp(SystemTime::now())),
        held: None,
        in_advance: false,
        wants_all: exchange.request.method() == Method::Get && exchange.request.range().is_none(),
    };
    let mut attempts = limits::ORIGIN_ATTEMPTS;
    loop {
        let Found { object, outcome, flow } = match search.find_or_hold().await {
            Ok(found) => found,
            Err(status) => return exchange.page(Some(site), status),
        };
        let was_in_advance = object.description().audience.wants_segment();
        search.look_ahead(outcome == Outcome::Miss, was_in_advance);
        let (outdated, flow) = (Cell::new(false), Cell::new(flow));
        let reply = Reply { exchange, site, store, object, outcome, outdated, flow };
        let mut answer = reply.conditional().await;
        attempts -= 1;
        if !reply.outdated.get() || attempts == 0 {
            exchange.worker.shard.cached(outcome.label());
            answer.outcome = Some(outcome);
            return answer;
        }
    }
}

impl Reply<'_> {
    fn description(&self) -> &Description {
        self.object.description()
    }

    async fn conditional(&self) -> Answer {
        let description = self.description();
        if let Some(reason) = description.failed() {
            return self.failed(reason);
        }
        if description.status != 200 {
            return self.whole().await;
        }
        let validators = Validators { etag: description.etag(), modified: description.date() };
        match evaluate(self.exchange.request, &validators) {
            Precondition::NotModified => self.not_modified(),
            Precondition::Failed => self.exchange.page(Some(self.site), Status::PreconditionFailed),
            Precondition::Serve { ranges_allowed } => {
                let range = self.exchange.request.range().filter(|_| ranges_allowed);
                let length = match self.object.length() {
                    Some(length) => length,
                    None => match self.growing(range).await {
                        Growing::Ended(length) => length,
                        Growing::Answer(answer) => return *answer,
                    },
                };
                match select(range, length, limits::RANGES_PER_REQUEST) {
                    Ranges::Whole => self.whole().await,
                    Ranges::One(range) => self.one_range(range, length).await,
                    Ranges::Many(ranges) => self.many_ranges(&ranges, length).await,
                    Ranges::Unsatisfiable => self.exchange.unsatisfiable(self.site, length),
                }
            }
        }
    }

    /// The page for an origin that gave no answer, with the reason.
    fn failed(&self, reason: &str) -> Answer {
        let status = match self.description().status {
            503 => Status::ServiceUnavailable,
            504 => Status::GatewayTimeout,
            _ => Status::BadGateway,
        };
        let cache_status = format!("{}; detail={reason}", self.outcome.forwarded());
        self.exchange.page_saying(Some(self.site), status, Some(&cache_status))
    }

    /// The page for a body of which not even the first bytes can be had.
    fn broken(&self) -> Answer {
        let reason = self.description().fault().unwrap_or("unknown");
        self.outdated.set(reason == CHANGED);
        let status = match reason {
            "timeout" => Status::GatewayTimeout,
            "busy" => Status::ServiceUnavailable,
            _ => Status::BadGateway,
        };
        let cache_status = format!("{}; detail={reason}", self.outcome.forwarded());
        self.exchange.page_saying(Some(self.site), status, Some(&cache_status))
    }

    /// All of it, or the page for an origin that failed: what was asked for is none of our business.
    pub(super) async fn as_it_came(&self) -> Answer {
        match self.description().failed() {
            Some(reason) => self.failed(reason),
            None => self.whole().await,
        }
    }

    async fn whole(&self) -> Answer {
        let length = self.object.length();
        let body = match self.flow.take() {
            Some(flow) => Piece::Flow(flow),
            None => Piece::Range(0..length.unwrap_or(u64::MAX)),
        };
        let contents = Contents { pieces: vec![body], length, content_type: None };
        self.send(self.description().status, contents, |head| {
            if self.description().status == 200 && length.is_some() {
                head.field("Accept-Ranges", "bytes");
            }
        })
        .await
    }

    /// A range of something that is still being made. One that ends is given when it is there; one that does not has
    /// to wait for the end, unless it names a last byte that nothing has (RFC 8673 §3): that is how players say that
    /// they want what comes as it comes.
    async fn growing(&self, range: Option<&str>) -> Growing {
        let selected = select(range, limits::OBJECT_BYTES_MAX, limits::RANGES_PER_REQUEST);
        let (Ranges::One(wanted), Some(text)) = (selected, range) else {
            return Growing::Answer(Box::new(self.whole().await));
        };
        let open = wanted.end >= limits::OBJECT_BYTES_MAX;
        let last = text.rsplit('-').next().and_then(|last| last.trim().parse::<u64>().ok());
        let streams =
            open && last.is_some_and(|last| last >= limits::OBJECT_BYTES_MAX) && !text.contains("=-");
        let needed = if streams { wanted.start + 1 } else { wanted.end };
        if until_there(&self.object, needed).await.is_err() {
            return Growing::Answer(Box::new(self.exchange.page(Some(self.site), Status::BadGateway)));
        }
        if let Some(length) = self.object.length() {
            return Growing::Ended(length);
        }
        let Range { start, end } = wanted;
        let named = format!("bytes {start}-{}/*", if streams { last.unwrap_or(end) } else { end - 1 });
        let (end, length) = if streams { (u64::MAX, None) } else { (end, Some(end - start)) };
        let contents = Contents { pieces: vec![Piece::Range(start..end)], length, content_type: None };
        let answer = self.send(206, contents, |head| {
            head.field("Content-Range", &named);
        });
        Growing::Answer(Box::new(answer.await))
    }

    async fn one_range(&self, range: Range<u64>, length: u64) -> Answer {
        let pieces = vec![Piece::Range(range.clone())];
        let contents = Contents { length: Some(range.end - range.start), pieces, content_type: None };
        self.send(206, contents, |head| {
            head.content_range(&range, length);
        })
        .await
    }

    async fn many_ranges(&self, ranges: &[Range<u64>], length: u64) -> Answer {
        let boundary = Boundary::new(penstock_tls::random_number());
        let multipart = Multipart::new(boundary, self.description().content_type(), length, ranges);
        let mut pieces = Vec::with_capacity(2 * ranges.len() + 1);
        for (index, range) in ranges.iter().enumerate() {
            let mut head = Vec::new();
            multipart.write_part_head(&mut head, index);
            pieces.push(Piece::Bytes(head));
            pieces.push(Piece::Range(range.clone()));
        }
        let mut closing = Vec::new();
        multipart.write_closing(&mut closing);
        pieces.push(Piece::Bytes(closing));
        let content_type = Some(multipart.content_type());
        self.send(206, Contents { pieces, length: Some(multipart.content_length()), content_type }, |_| {})
            .await
    }

    fn not_modified(&self) -> Answer {
        let mut out = Vec::with_capacity(HEAD_ROOM_BYTES);
        let mut head = self.exchange.head_that(&mut out, 304, self.exchange.keep_alive);
        self.describe(&mut head, None);
        head.finish();
        Answer::of_parts(304, vec![Part::Owned(out)])
    }

    /// The head, and the first bytes of the body as soon as there are any: what fails before that is still an error
    /// page and not a response cut short.
    async fn send(&self, code: u16, contents: Contents, more: impl FnOnce(&mut HeadWriter<'_>)) -> Answer {
        let exchange = self.exchange;
        let wants_body = exchange.request.method() != Method::Head;
        let chunked = contents.length.is_none() && exchange.request.version() == Version::Http11;
        let mut following = Following::new(self.store, &self.object, contents.pieces, chunked);
        let first = if wants_body && contents.length != Some(0) {
            match following.next(exchange.worker).await {
                Ok(first) => first,
                Err(Broken::Crowded) => return exchange.page(Some(self.site), Status::ServiceUnavailable),
                Err(Broken::Gone) => return self.broken(),
            }
        } else {
            None
        };
        // HTTP/1.0 knows no chunks: the end of the connection is the end of the body.
        let until_close = contents.length.is_none() && !chunked;
        let mut out = Vec::with_capacity(HEAD_ROOM_BYTES + self.description().fields().len());
        let mut head = exchange.head_that(&mut out, code, exchange.keep_alive && !until_close);
        match contents.length {
            // These have no content, and so no length (RFC 9110 §8.6).
            Some(_) if matches!(code, 204 | 304) => &mut head,
            Some(length) => head.content_length(length),
            None if chunked => head.field("Transfer-Encoding", "chunked"),
            None => &mut head,
        };
        more(&mut head);
        self.describe(&mut head, contents.content_type.as_deref());
        head.finish();
        let mut answer = Answer::of_parts(code, vec![Part::Owned(out)]);
        answer.ends_connection = until_close;
        if let Some(mut first) = first {
            answer.parts.append(&mut first.parts);
            answer.rest = Some((first, following));
        }
        answer
    }

    /// The fields of the origin, its age, and where it came from.
    fn describe(&self, head: &mut HeadWriter<'_>, content_type: Option<&str>) {
        let description = self.description();
        match content_type {
            Some(other) => {
                head.lines_without(description.fields(), "content-type").field("Content-Type", other);
            }
            None => {
                head.lines(description.fields());
            }
        }
        let now = Instant::now();
        head.field("Age", description.age(now).to_string())
            .field("Cache-Status", self.outcome.cache_status(description, now))
            .field("Via", "1.1 penstock");
        self.exchange.site_fields(head, self.site);
    }
}
