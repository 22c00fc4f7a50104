//! Small texts in a content coding that the client accepts.

use std::rc::Rc;
use std::sync::Arc;

use penstock_cache::{Lease, Object};
use penstock_config::limits;
use penstock_egress::Part;
use penstock_http::caching::Directives;
use penstock_http::encoding::negotiate;
use penstock_http::{Encoding, Request};
use penstock_sys::file::{Extent, OpenFile};

use crate::context::Context;
use crate::fill::{self, BodyChunk, BodyStream, Pieces};
use crate::object::ObjectMetadata;
use crate::remembered::{Found, source};
use crate::requester::Requester;
use crate::store::Store;

/// The coding and the bytes in it.
pub(super) type CodedBytes = (Encoding, Arc<[u8]>);

/// Whether a text of this length may have several codings.
pub(super) fn varies(length: u64) -> bool {
    length <= limits::COMPRESSED_SOURCE_BYTES
}

/// Whether compressing a text of this length is of use.
pub(super) fn is_of_use(length: u64) -> bool {
    (limits::COMPRESSED_SOURCE_BYTES_MIN..=limits::COMPRESSED_SOURCE_BYTES).contains(&length)
}

/// The coding that a request wants of a text of this length; `None` if it is to be sent as it is.
pub(super) fn wanted(request: &Request<'_>, length: u64) -> Option<Encoding> {
    let chosen = negotiate(request.accept_encoding(), &[Encoding::Brotli, Encoding::Gzip]);
    // RFC 9111 §5.2.1.6.
    (chosen != Encoding::Identity
        && is_of_use(length)
        && !Directives::parse(request.values("cache-control")).no_transform)
        .then_some(chosen)
}

/// A file in this coding; `None` if it does not become smaller, or cannot be compressed now.
pub(super) async fn of_file(
    context: &Context,
    file: &Arc<OpenFile>,
    encoding: Encoding,
) -> Option<CodedBytes> {
    let bytes = match context.compressed.find(source::of_file(file), encoding, &context.given_up).await {
        Found::Known(bytes) => bytes?,
        Found::Begun(making) => {
            let whole =
                Text { pieces: vec![Piece::Extent(Extent::whole(Arc::clone(file)))], leases: Vec::new() };
            making.make(&context.io, move || whole.read()).await?
        }
    };
    Some((encoding, bytes))
}

/// The same for an object of the cache. All of its bytes are fetched if some are missing.
pub(super) async fn of_object(
    context: &Rc<Context>,
    store: &Arc<Store>,
    object: &Arc<Object<ObjectMetadata>>,
    requester: Requester,
    encoding: Encoding,
) -> Option<CodedBytes> {
    let bytes = match context.compressed.find(source::of_object(object), encoding, &context.given_up).await {
        Found::Known(bytes) => bytes?,
        Found::Begun(making) => {
            let range = fill::Piece::Range(0..object.length()?);
            let mut stream = BodyStream::new(store, object, requester, Pieces::One(range));
            let mut text = Text::default();
            while let Some(chunk) = stream.next(context).await.ok()? {
                text.take(chunk)?;
            }
            making.make(&context.io, move || text.read()).await?
        }
    };
    Some((encoding, bytes))
}

/// A text that another thread can read.
#[derive(Default)]
struct Text {
    pieces: Vec<Piece>,
    /// Keep the bytes in place.
    leases: Vec<Lease>,
}

enum Piece {
    /// Bytes that may be on a disk.
    Extent(Extent),
    Copied(Vec<u8>),
}

impl Text {
    /// Takes a chunk behind those before; `None` if its bytes cannot be had.
    fn take(&mut self, chunk: BodyChunk) -> Option<()> {
        for part in &chunk.parts {
            self.pieces.push(match part {
                Part::Extent(extent) => Piece::Extent(extent.clone()),
                other => {
                    let mut bytes = Vec::new();
                    other.append_to(&mut bytes).ok()?;
                    Piece::Copied(bytes)
                }
            });
        }
        self.leases.extend(chunk.into_lease());
        Some(())
    }

    fn read(self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for piece in self.pieces {
            match piece {
                Piece::Extent(extent) => Part::Extent(extent).append_to(&mut bytes).ok()?,
                Piece::Copied(copied) => bytes.extend_from_slice(&copied),
            }
        }
        Some(bytes)
    }
}
