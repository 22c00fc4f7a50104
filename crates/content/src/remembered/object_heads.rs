//! What all heads of a cached object say, made once for objects that are asked for again.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use penstock_cache::{Object, SliceCopy};
use penstock_config::limits;
use penstock_http::Fields;

use crate::object::ObjectMetadata;

/// Objects of one worker whose heads are kept: some 200 KiB, and at most 1.2 MiB if all heads are as long as they may be.
/// Copies of small objects add at most 1 MiB.
const HEADS: usize = 256;
/// Bytes of a head that is kept at most; its ETag, which is kept once more, is a part of it.
const HEAD_BYTES_MAX: usize = 2048;

/// The part of the heads of one object that does not change with the request or the time.
#[derive(Debug)]
pub(crate) struct ObjectHead {
    /// ETag; empty if there is none.
    pub(crate) etag: Box<str>,
    /// The date that conditions are compared with.
    pub(crate) modified: SystemTime,
    /// The origin's fields.
    pub(crate) fields: Fields,
    /// The bytes, if they are few.
    content: RefCell<Option<SliceCopy>>,
}

/// Heads of one worker, at a place that the address of the object gives.
#[derive(Default)]
pub struct ObjectHeads(RefCell<Vec<HeadSlot>>);

/// A place for one head.
#[derive(Default)]
struct HeadSlot {
    /// The address of the object that was asked for last. The head of an object is made at its second request in a row, so
    /// that a thousand objects that are asked for in turn do not make their heads for nothing.
    asked: usize,
    /// The object whose head is kept.
    object: Weak<Object<ObjectMetadata>>,
    /// The fields of the last 304 that the head has.
    updated: Option<Arc<Vec<u8>>>,
    /// Its head; `None` if that is too long.
    head: Option<Rc<ObjectHead>>,
}

impl ObjectHeads {
    /// The head of an object; `None` if it is not made yet, also since the last 304, or is too long.
    pub(crate) fn get(&self, object: &Arc<Object<ObjectMetadata>>) -> Option<Rc<ObjectHead>> {
        let metadata = object.metadata();
        let mut slots = self.0.borrow_mut();
        if slots.is_empty() {
            slots.resize_with(HEADS, HeadSlot::default);
        }
        let address = Arc::as_ptr(object).addr();
        // Objects are several cache lines long.
        let slot = &mut slots[(address >> 7) % HEADS];
        // A weak reference keeps the address from being that of another object.
        let is_known = slot.object.as_ptr().addr() == address;
        if is_known && metadata.is_updated_as(slot.updated.as_ref()) {
            return slot.head.clone();
        }
        if is_known || slot.asked != address {
            *slot = HeadSlot { asked: address, ..HeadSlot::default() };
            return None;
        }
        slot.updated = metadata.updated();
        let head = ObjectHead::new(metadata);
        // Responses with a part of the object have another Content-Range.
        let serves_parts = !head.fields.has("content-range");
        slot.object = Arc::downgrade(object);
        slot.head = (serves_parts && head.fields.as_bytes().len() <= HEAD_BYTES_MAX).then(|| Rc::new(head));
        slot.head.clone()
    }
}

impl ObjectHead {
    fn new(metadata: &ObjectMetadata) -> Self {
        let mut fields = metadata.fields().unpacked();
        fields.shrink_to_fit();
        Self { etag: metadata.etag().into(), modified: metadata.date(), fields, content: RefCell::default() }
    }

    /// The bytes of a small object that is in memory, with a request counted for them; `None` of any other.
    pub(crate) fn content(&self, object: &Arc<Object<ObjectMetadata>>) -> Option<Arc<[u8]>> {
        if object.length()? > limits::COPIED_OBJECT_BYTES.min(object.slice_bytes().into()) {
            return None;
        }
        let mut content = self.content.borrow_mut();
        if let Some(bytes) = content.as_ref().and_then(|copy| object.request_copy(0, copy)) {
            return Some(bytes);
        }
        *content = object.copy_slice(0);
        object.request_copy(0, content.as_ref()?)
    }
}

impl fmt::Debug for ObjectHeads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.0.borrow().iter().filter(|slot| slot.head.is_some()).count();
        f.debug_struct("ObjectHeads").field("kept", &kept).finish_non_exhaustive()
    }
}
