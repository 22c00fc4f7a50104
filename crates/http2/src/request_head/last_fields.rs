//! The last request of a connection, for a protocol whose library gives fields one by one.

use super::{HeadFault, RequestHead};
use crate::fields::is_visible;
use crate::limits::Http2Limits;
use crate::priority::PriorityParameters;

/// Requests that are larger are not remembered. Bytes of names and values.
const BYTES_MAX: usize = 2048;

/// The first allocations: a usual request of a browser.
const TEXT_BYTES_USUAL: usize = 512;
const FIELDS_USUAL: usize = 16;

/// To take note of a request costs as much as a half to read it. One of so many that differ in more than their path is.
const MISSES: u8 = 8;

/// The fields of an earlier request, and its head. Most others of a connection differ from it in their path, or not at all.
#[derive(Debug, Default)]
pub struct LastFields {
    known: Option<Known>,
    /// Requests that differ until one of them is taken note of.
    misses: u8,
}

#[derive(Debug)]
struct Known {
    /// Names and values without a gap; the path has no value.
    text: Vec<u8>,
    /// Bytes of each name and value.
    lengths: Vec<(u16, u16)>,
    head: RequestHead,
    priority: PriorityParameters,
    /// Bytes of the field section without the path (RFC 9113 §6.5.2).
    list_bytes: usize,
}

impl LastFields {
    /// What [`RequestHead::from_fields`] makes of the fields.
    ///
    /// # Errors
    /// See [`HeadFault`].
    pub fn head<'f>(
        &mut self,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
        limits: &Http2Limits,
    ) -> Result<(RequestHead, PriorityParameters), HeadFault> {
        if let Some(known) = self.known.as_ref().and_then(|known| known.head(fields.clone(), limits)) {
            self.misses = 0;
            return Ok(known);
        }
        let made = RequestHead::from_fields(fields.clone(), limits)?;
        match self.misses.checked_sub(1) {
            Some(left) => self.misses = left,
            None => (self.known, self.misses) = (Known::new(fields, &made), MISSES - 1),
        }
        Ok(made)
    }
}

impl Known {
    fn new<'f>(
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        (head, priority): &(RequestHead, PriorityParameters),
    ) -> Option<Self> {
        let (mut text, mut lengths, mut list_bytes) =
            (Vec::with_capacity(TEXT_BYTES_USUAL), Vec::with_capacity(FIELDS_USUAL), 0);
        for (name, value) in fields {
            let value = if name == b":path" { &[] } else { value };
            text.extend_from_slice(name);
            text.extend_from_slice(value);
            if text.len() > BYTES_MAX {
                return None;
            }
            lengths.push((u16::try_from(name.len()).ok()?, u16::try_from(value.len()).ok()?));
            list_bytes += name.len() + value.len() + super::builder::FIELD_OVERHEAD;
        }
        Some(Self { text, lengths, head: head.clone(), priority: *priority, list_bytes })
    }

    /// The head of a request that differs from this one in its path at most. `None` for all others, and if the path is in doubt.
    fn head<'f>(
        &self,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        limits: &Http2Limits,
    ) -> Option<(RequestHead, PriorityParameters)> {
        let (mut lengths, mut text) = (self.lengths.iter(), &self.text[..]);
        let mut path = None;
        for (name, value) in fields {
            let (name_bytes, value_bytes) = *lengths.next()?;
            let known = text.split_off(..usize::from(name_bytes))?;
            let known_value = text.split_off(..usize::from(value_bytes))?;
            if known != name {
                return None;
            }
            if name == b":path" {
                path = Some(value);
            } else if known_value != value {
                return None;
            }
        }
        let path = str::from_utf8(path?).ok()?;
        let is_allowed = lengths.len() == 0
            && path.starts_with('/')
            && is_visible(path.as_bytes())
            && path.len() <= limits.target_bytes as usize
            && self.list_bytes + path.len() <= limits.header_list_bytes as usize
            && self.lengths.len() <= limits.fields as usize;
        is_allowed.then(|| (self.head.with_path(path), self.priority))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [(&str, &str); 5] = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a.example"),
        (":path", "/a"),
        ("priority", "u=1"),
    ];

    fn with(at: usize, field: (&'static str, &'static str)) -> Vec<(&'static str, &'static str)> {
        let mut fields = HEAD.to_vec();
        fields[at] = field;
        fields
    }

    #[test]
    fn every_request_has_the_head_that_its_fields_alone_give() {
        let limits = Http2Limits { target_bytes: 100, ..Http2Limits::default() };
        let long: &str = Box::leak(format!("/{}", "p".repeat(100)).into_boxed_str());
        let huge: &str = Box::leak("v".repeat(3000).into_boxed_str());
        let (mut more, mut other_order) = (HEAD.to_vec(), HEAD.to_vec());
        more.push(("x-more", "1"));
        other_order.swap(0, 1);
        let connect = vec![(":method", "CONNECT"), (":authority", "a.example:443")];
        let requests = [
            HEAD.to_vec(),
            HEAD.to_vec(),
            with(3, (":path", "/b?c=d")),
            with(3, (":path", "/with space")),
            with(3, (":path", "no-slash")),
            with(3, (":path", "")),
            with(3, (":path", "/\u{e4}")),
            with(3, (":path", "*")),
            with(3, (":path", long)),
            with(0, (":method", "HEAD")),
            with(4, ("priority", "u=2")),
            with(4, ("prioritz", "u=1")),
            with(4, ("x-huge", huge)),
            with(3, (":method", "GET")),
            HEAD[..4].to_vec(),
            HEAD[..3].to_vec(),
            more,
            other_order,
            connect,
            Vec::new(),
        ];
        let mut last = LastFields::default();
        // Each behind each.
        for first in &requests {
            for second in &requests {
                for fields in [first, second] {
                    let fields = || fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
                    assert_eq!(last.head(fields(), &limits), RequestHead::from_fields(fields(), &limits));
                }
            }
        }
        let fields = HEAD.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        for _ in 0..=MISSES {
            assert!(last.head(fields.clone(), &limits).is_ok());
        }
        assert!(last.known.as_ref().unwrap().head(fields, &limits).is_some(), "the same request is known");
    }
}
