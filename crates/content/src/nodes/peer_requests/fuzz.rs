//! The body of a fuzz target: what another node says.

use std::time::Duration;

use penstock_http::{HeadLimits, Request};

use crate::peers::LoopMember;

use super::{Hop, fields, first_byte, pattern, value};
use crate::nodes::purge_fields::purge_fields;

/// The body of the fuzz target `peer_fields`: a request head of another node, or the value of one of its fields. What was
/// read is the same after it was written, and no time is longer than the bound.
///
/// # Panics
/// When that does not hold.
pub fn fuzz_peer_fields(input: &[u8]) {
    if let Ok(text) = str::from_utf8(input) {
        if let Some(lifetime) = fields::lifetime(text) {
            let all =
                [lifetime.fresh, lifetime.age, lifetime.stale_while_revalidate, lifetime.stale_if_error];
            let sum = all.iter().try_fold(Duration::ZERO, |sum, time| sum.checked_add(*time));
            assert!(sum.is_some_and(|sum| sum.as_secs() < 1 << 32), "{all:?}");
        }
        if let Some(load) = fields::load(text) {
            assert_eq!(fields::load(&fields::load_text(load, false)), Some(load));
        }
        assert_eq!(fields::unescape(fields::escape(input).as_bytes()).as_deref(), Some(text));
    }
    if let Some(text) = fields::unescape(input) {
        assert_eq!(fields::unescape(fields::escape(text.as_bytes()).as_bytes()), Some(text));
    }
    let limits = HeadLimits { head_bytes: 16 * 1024, fields: 16, target_bytes: 8 * 1024 };
    let Ok(request) = Request::parse(input, &limits) else { return };
    let _ = first_byte(&request);
    let is_looping = LoopMember::of_node("edge1").has_passed(&request);
    let mut values = request.values("cdn-loop");
    assert!(!is_looping || values.any(|value| value.windows(5).any(|name| name == b"edge1")));
    if let Some(hop) = value(&request, fields::HOP).and_then(Hop::named) {
        assert_eq!(Hop::named(hop.label().as_bytes()), Some(hop));
    }
    let Some((read, soft)) = pattern(&request) else { return };
    let mut head = String::from("POST /alive HTTP/1.1\r\nHost: edge1\r\n");
    for (name, value) in purge_fields(&read, soft) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    // What was escaped is longer than what came.
    let limits = HeadLimits { head_bytes: 64 * 1024, ..limits };
    let again = Request::parse(head.as_bytes(), &limits).expect("a head that this program writes");
    assert_eq!(pattern(&again), Some((read, soft)), "{head}");
}
