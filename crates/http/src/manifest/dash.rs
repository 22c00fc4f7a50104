//! DASH descriptions: the attributes of the root element are all a cache needs.

use quick_xml::events::{BytesStart, Event};

use super::Manifest;
use crate::xml_duration::xml_duration;

/// The most bytes in front of the root element: declaration, comments, white space.
pub(super) const PROLOGUE_BYTES: usize = 4096;

/// Whether a body that begins so may be a description. Reads at most [`PROLOGUE_BYTES`] and one: [`parse`] reads none with
/// more white space in front.
pub(super) fn begins(start: &[u8]) -> bool {
    let read = &start[..start.len().min(PROLOGUE_BYTES + 1)];
    match read.trim_ascii_start().first() {
        Some(first) => *first == b'<',
        None => read.len() <= PROLOGUE_BYTES,
    }
}

pub(super) fn parse(body: &[u8]) -> Option<Manifest> {
    let mut reader = quick_xml::Reader::from_reader(body);
    loop {
        match reader.read_event().ok()? {
            Event::Start(element) | Event::Empty(element) => return root(&element),
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
            Event::Text(text) if text.trim_ascii().is_empty() => {}
            // A document type, text outside of everything, or the end.
            _ => return None,
        }
        if reader.buffer_position() > PROLOGUE_BYTES as u64 {
            return None;
        }
    }
}

fn root(element: &BytesStart<'_>) -> Option<Manifest> {
    if element.local_name().as_ref() != "MPD" {
        return None;
    }
    let (mut live, mut update) = (false, None);
    for attribute in element.attributes().flatten() {
        match attribute.key.as_ref() {
            "type" => live = attribute.value.as_ref() == "dynamic",
            // A period that is no duration still says that the description changes: it is read again soon.
            "minimumUpdatePeriod" => update = Some(xml_duration(&attribute.value).unwrap_or_default()),
            _ => {}
        }
    }
    Some(Manifest::Dash { live, update })
}
