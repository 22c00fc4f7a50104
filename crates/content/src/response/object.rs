//! Cached objects and relayed bodies as representations.

use std::rc::Rc;
use std::sync::Arc;

use penstock_cache::Object;
use penstock_egress::Part;
use penstock_http::conditional::Validators;
use penstock_http::{Encoding, Fields, Status};

use crate::cache_status::CacheStatus;
use crate::context::Context;
use crate::fault::{BodyError, FillFault};
use crate::fill::{BodyStream, Piece, Pieces, slices_of, wait_for_bytes};
use crate::object::ObjectMetadata;
use crate::origin::BodyReceiver;
use crate::peers::peer_fields;
use crate::remembered::{ObjectHead, mark_encoding};
use crate::requester::Requester;
use crate::response::exchange::Exchange;
use crate::response::outdated::Outdated;
use crate::response::{Body, ChunkSource, Response, coded};
use crate::store::Store;

/// An object that answers one request.
pub(crate) struct ObjectRepresentation {
    pub(crate) store: Arc<Store>,
    pub(crate) object: Arc<Object<ObjectMetadata>>,
    pub(crate) cache_status: CacheStatus,
    /// The body, if it is for this request only.
    pub(crate) receiver: Option<BodyReceiver>,
    /// The sender of the request.
    requester: Requester,
    /// What all heads of the object say, if it is asked for often.
    head: Option<Rc<ObjectHead>>,
    coding: Coding,
}

/// The content coding of an object's response.
enum Coding {
    /// The only one there is.
    Fixed,
    /// None, but other requests select one.
    Plain,
    Made(Box<Coded>),
}

/// An object in a content coding.
struct Coded {
    encoding: Encoding,
    /// ETag of these bytes; empty if the object has none.
    etag: String,
    bytes: Arc<[u8]>,
}

/// The end of a wait for bytes of an object of unknown length.
pub(crate) enum Waited {
    /// The bytes have come, the end has not.
    Growing,
    /// The end has come, at this length.
    Ended(u64),
    /// The bytes will not come.
    Broken,
}

impl ObjectRepresentation {
    pub(crate) fn new(
        exchange: &Exchange<'_>,
        store: &Arc<Store>,
        object: Arc<Object<ObjectMetadata>>,
        cache_status: CacheStatus,
        receiver: Option<BodyReceiver>,
    ) -> Self {
        let head = exchange.context.object_heads.get(&object);
        let (store, requester) = (Arc::clone(store), exchange.requester);
        Self { store, object, cache_status, receiver, requester, head, coding: Coding::Fixed }
    }

    /// Chooses the content coding. Manifests and other small texts have several, for clients.
    pub(crate) async fn negotiate(&mut self, exchange: &Exchange<'_>) {
        let length = self.object.length().filter(|length| coded::is_of_use(*length));
        let is_site = exchange.site.is_some_and(|site| site.compress);
        let is_client = matches!(self.requester, Requester::Client(_)) && self.receiver.is_none();
        let Some(length) = length.filter(|_| is_site && is_client) else { return };
        self.coding = Coding::Plain;
        if let Some(encoding) = coded::wanted(exchange.request, length)
            && let Some((encoding, bytes)) =
                coded::of_object(exchange.context, &self.store, &self.object, self.requester, encoding).await
        {
            let mut etag = self.metadata().etag().to_owned();
            mark_encoding(&mut etag, encoding);
            self.coding = Coding::Made(Box::new(Coded { encoding, etag, bytes }));
        }
    }

    /// Whether the object is text that may have several codings.
    pub(crate) fn is_compressible(&self) -> bool {
        self.metadata().is_compressible()
    }

    fn metadata(&self) -> &ObjectMetadata {
        self.object.metadata()
    }

    pub(crate) fn status(&self) -> u16 {
        self.metadata().status
    }

    pub(crate) fn validators(&self) -> Validators<'_> {
        let is_date_strong = self.metadata().has_strong_date();
        match (&self.coding, &self.head) {
            (Coding::Made(coded), _) => {
                // The same date is that of other bytes.
                Validators { etag: &coded.etag, modified: self.metadata().date(), is_date_strong: false }
            }
            (_, Some(head)) => Validators { etag: &head.etag, modified: head.modified, is_date_strong },
            (_, None) => {
                let (etag, modified) = (self.metadata().etag(), self.metadata().date());
                Validators { etag, modified, is_date_strong }
            }
        }
    }

    pub(crate) fn content_type(&self) -> &str {
        self.metadata().content_type()
    }

    pub(crate) fn length(&self) -> Option<u64> {
        match &self.coding {
            Coding::Made(coded) => Some(coded.bytes.len() as u64),
            Coding::Fixed | Coding::Plain => self.object.length(),
        }
    }

    /// Whether parts of the body can be had: one that comes once, for this request, or compressed, is sent whole.
    pub(crate) fn has_ranges(&self) -> bool {
        self.receiver.is_none() && !self.is_coded()
    }

    pub(crate) fn is_coded(&self) -> bool {
        matches!(self.coding, Coding::Made(_))
    }

    /// The page for an origin that gave no response, if the object stands for one.
    pub(crate) fn failure(&self, exchange: &Exchange<'_>) -> Option<Response> {
        let fault = self.metadata().failed()?;
        let status = match self.metadata().status {
            404 => Status::NotFound,
            503 => Status::ServiceUnavailable,
            504 => Status::GatewayTimeout,
            _ => Status::BadGateway,
        };
        Some(self.fault_page(exchange, status, fault.label()))
    }

    /// The page for a body of which no byte can be had.
    ///
    /// # Errors
    /// [`Outdated`] if the object has changed.
    pub(crate) fn broken(
        &self,
        exchange: &Exchange<'_>,
        fault: Option<FillFault>,
    ) -> Result<Response, Outdated> {
        match fault {
            Some(FillFault::Changed) => Err(Outdated),
            Some(fault) => Ok(self.fault_page(exchange, fault.status(), fault.label())),
            None => Ok(self.fault_page(exchange, Status::BadGateway, "unknown")),
        }
    }

    fn fault_page(&self, exchange: &Exchange<'_>, status: Status, reason: &str) -> Response {
        let member = format!("{}; detail={reason}", self.cache_status.forwarded());
        exchange.page_with(status, |head| {
            head.field("Cache-Status", &member);
            if let Requester::Peer(_) = self.requester {
                head.field(peer_fields::FAULT, reason);
            }
        })
    }

    /// The whole body.
    pub(crate) fn whole_piece(&mut self) -> Piece {
        match self.receiver.take() {
            Some(receiver) => Piece::Relayed(receiver),
            None => Piece::Range(0..self.length().unwrap_or(u64::MAX)),
        }
    }

    /// Waits until an object of unknown length has its bytes up to `end`, or has ended.
    pub(crate) async fn wait_for_bytes(&self, end: u64) -> Waited {
        if wait_for_bytes(&self.object, end).await.is_err() {
            return Waited::Broken;
        }
        self.length().map_or(Waited::Growing, Waited::Ended)
    }

    /// The body of these pieces, of `length` bytes if that is known, as soon as its first bytes have come.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub(crate) async fn body(
        &self,
        context: &Rc<Context>,
        pieces: Pieces,
        length: Option<u64>,
    ) -> Result<Body, BodyError> {
        if let Coding::Made(coded) = &self.coding {
            // What is sent often stays in its tier, though this form of it has its own memory.
            let slices = slices_of(self.object.slice_bytes().into(), self.object.length());
            (0..slices).for_each(|slice| self.object.count_request(slice));
            return Ok(Body::Part(Part::Shared(Arc::clone(&coded.bytes))));
        }
        if let Some(bytes) = self.whole_copy(&pieces) {
            return Ok(Body::Part(Part::Shared(bytes)));
        }
        let mut stream = BodyStream::new(&self.store, &self.object, self.requester, pieces);
        Ok(match stream.next(context).await? {
            Some(first) => Body::Stream(length, Box::new((first, ChunkSource::Object(stream)))),
            None => Body::Empty,
        })
    }

    /// The bytes of a small object, if these pieces are the whole of it.
    fn whole_copy(&self, pieces: &Pieces) -> Option<Arc<[u8]>> {
        let Pieces::One(Piece::Range(range)) = pieces else { return None };
        let is_whole = range.start == 0 && Some(range.end) == self.length();
        self.head.as_ref().filter(|_| is_whole)?.content(&self.object)
    }

    /// Appends the fields of the origin, then Age, Cache-Status and Via.
    pub(crate) fn write_fields(
        &self,
        context: &Context,
        fields: &mut Fields,
        status: u16,
        content_type: Option<&str>,
    ) {
        let metadata = self.metadata();
        match (content_type, &self.head) {
            (None, _) if self.is_coded() => metadata.fields().write(fields, &["etag"]),
            (None, Some(made)) => {
                fields.extend(&made.fields);
            }
            // The origin's Content-Range goes with its whole response only.
            (None, None) if matches!(status, 206 | 304) => {
                metadata.fields().write(fields, &["content-range"])
            }
            (None, None) => metadata.fields().write(fields, &[]),
            (Some(other), _) => {
                metadata.fields().write(fields, &["content-range", "content-type"]);
                fields.field("Content-Type", other);
            }
        }
        self.write_coding(fields);
        let now = context.now();
        let lifetime = metadata.lifetime();
        fields
            .number("Age", lifetime.age_seconds(now))
            .text("Cache-Status", |value| {
                self.cache_status.write_member(metadata.stored_state(&lifetime, now), value);
            })
            .fixed("Via", "1.1 penstock");
        if let Requester::Peer(_) = self.requester {
            match metadata.is_stored() {
                true => fields.field(peer_fields::FRESHNESS, peer_fields::freshness(&lifetime, now)),
                false => fields.field(peer_fields::FRESHNESS, peer_fields::NOT_STORED),
            };
            if !metadata.tags().is_empty() {
                fields.field("Surrogate-Key", metadata.tags());
            }
        }
    }
    /// Appends the fields of the content coding. A field of the origin that says the same is enough.
    fn write_coding(&self, fields: &mut Fields) {
        if let Coding::Made(coded) = &self.coding {
            if !coded.etag.is_empty() {
                fields.field("ETag", &coded.etag);
            }
            fields.field("Content-Encoding", coded.encoding.token());
        }
        let is_named = |(name, value): (&[u8], &[u8])| {
            let mut names = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            name.eq_ignore_ascii_case(b"vary")
                && names.any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"))
        };
        if !matches!(self.coding, Coding::Fixed) && !fields.iter().any(is_named) {
            fields.field("Vary", "Accept-Encoding");
        }
    }
}
