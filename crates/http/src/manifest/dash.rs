//! DASH descriptions: the attributes of the root element are all a cache needs.

use std::time::Duration;

use quick_xml::events::{BytesStart, Event};

use super::Manifest;

/// Everything in front of the root element: declaration, comments, white space.
const PROLOGUE_BYTES: usize = 4096;

pub(super) fn begins(start: &[u8]) -> bool {
    let start = start.trim_ascii_start();
    start.is_empty() || start[0] == b'<'
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
            "minimumUpdatePeriod" => update = duration(&attribute.value),
            _ => {}
        }
    }
    Some(Manifest::Dash { live, update })
}

/// A duration of XML Schema: `PT1M30.5S`. Years and months count as 365 and 30 days.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim().strip_prefix('P')?;
    let (days, time) = text.split_once('T').unwrap_or((text, ""));
    let day = 86_400.0;
    let seconds = sum(days, &[('Y', 365.0 * day), ('M', 30.0 * day), ('W', 7.0 * day), ('D', day)])?
        + sum(time, &[('H', 3600.0), ('M', 60.0), ('S', 1.0)])?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn sum(mut text: &str, units: &[(char, f64)]) -> Option<f64> {
    let mut total = 0.0;
    while !text.is_empty() {
        let end = text.find(|letter: char| letter.is_ascii_alphabetic())?;
        let unit = units.iter().find(|(letter, _)| text[end..].starts_with(*letter))?.1;
        total += text[..end].parse::<f64>().ok()? * unit;
        text = &text[end + 1..];
    }
    Some(total)
}
