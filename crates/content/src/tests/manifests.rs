//! Bodies that may be manifests, from origins that send them in the smallest pieces.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use penstock_http::manifest::Manifest;
use penstock_origin::http::OriginError;
use penstock_sys::heap::live_bytes;

use super::fixture::run_with_files;
use crate::origin::FetchedResponse;
use crate::origins::{LocalFuture, OriginBody};
use crate::site::BodyKind;

/// A body without announced length in pieces of one byte, which are made when they are read.
struct Trickle {
    fields: HeaderMap,
    body: &'static [u8],
    /// Bytes that were read.
    read: Rc<Cell<usize>>,
}

impl Trickle {
    fn new(content_type: &'static str, body: Vec<u8>) -> Self {
        let fields = [(http::header::CONTENT_TYPE, HeaderValue::from_static(content_type))];
        Self { fields: fields.into_iter().collect(), body: body.leak(), read: Rc::default() }
    }
}

impl OriginBody for Trickle {
    fn status(&self) -> u16 {
        200
    }

    fn fields(&self) -> &HeaderMap {
        &self.fields
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn proves_completeness(&self) -> bool {
        true
    }

    fn next(&mut self) -> LocalFuture<'_, Result<Option<Bytes>, OriginError>> {
        let at = self.read.get();
        let piece = self.body.get(at..=at).map(Bytes::copy_from_slice);
        self.read.set(at + usize::from(piece.is_some()));
        Box::pin(async { Ok(piece) })
    }
}

#[test]
fn a_body_of_white_space_is_given_up_after_the_longest_prologue() {
    run_with_files(async {
        for (content_type, target) in [("application/dash+xml", "/a"), ("text/plain", "/a"), ("", "/a.mpd")] {
            let trickle = Trickle::new(content_type, vec![b' '; 20_000]);
            let read = Rc::clone(&trickle.read);
            let mut response = FetchedResponse::read_kind(Box::new(trickle), target).await.unwrap();
            assert!(read.get() <= Manifest::START_BYTES, "{} bytes", read.get());
            assert!(!matches!(response.kind, BodyKind::Manifest(_)));
            let mut body = Vec::new();
            while let Some(piece) = response.next().await.unwrap() {
                body.extend_from_slice(&piece);
            }
            assert_eq!(body, vec![b' '; 20_000], "the client gets all of it");
        }
    });
}

#[test]
fn a_manifest_in_pieces_of_one_byte_takes_the_memory_of_its_bytes() {
    run_with_files(async {
        let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\na.ts\n#{}\n", "x".repeat(500_000));
        let trickle = Trickle::new("application/vnd.apple.mpegurl", text.clone().into_bytes());
        let before = live_bytes();
        let mut response = FetchedResponse::read_kind(Box::new(trickle), "/a").await.unwrap();
        let taken = live_bytes() - before;
        assert!(matches!(response.kind, BodyKind::Manifest(Manifest::Media(_))));
        assert_eq!(response.length, Some(text.len() as u64));
        // A buffer that grows has up to twice the bytes.
        assert!(taken.unsigned_abs() < 2 * text.len() + 4096, "{taken} bytes for {}", text.len());
        assert!(response.next().await.unwrap().is_some_and(|piece| piece == text), "one piece");
        assert_eq!(response.next().await.unwrap(), None);
    });
}
