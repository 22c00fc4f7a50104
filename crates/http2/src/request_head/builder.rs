//! From the fields of a block to a head, or to trailers.

use std::ops::Range;
use std::rc::Rc;

use super::{CommonHead, RequestHead};
use crate::fields::{check_field, is_token, is_visible};
use crate::limits::Http2Limits;
use crate::priority::PriorityParameters;

/// What a field counts for in addition to its name and value (RFC 9113 §6.5.2).
pub(super) const FIELD_OVERHEAD: usize = 32;

/// The first allocation for lines of a head, in bytes: a usual request of a browser.
const LINES_BYTES_USUAL: usize = 640;

/// How often a section may exceed the limit of its size before the connection ends.
const EXCESS_MAX: usize = 4;

/// Which part of a message a field block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldSection {
    Head,
    Trailers,
    /// Of a stream that is gone: decoded, and dropped.
    Ignored,
}

/// Why a field section is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadFault {
    /// It exceeds a bound, for which HTTP has a status.
    TooLarge {
        /// The status.
        status: u16,
        /// The bound.
        reason: &'static str,
    },
    /// It is malformed (RFC 9113 §8.1.1).
    Malformed(&'static str),
    /// It exceeds the bound so far that the connection ends.
    Flood,
}

/// Takes the fields of one section in order. Memory: what [`Http2Limits`] allows for one field section, whatever is decoded.
#[derive(Debug)]
pub(crate) struct HeadBuilder<'l> {
    limits: &'l Http2Limits,
    section: FieldSection,
    head: CommonHead,
    path: String,
    /// Where the field block has the path as a string literal.
    path_at: Range<usize>,
    /// Whether Host came.
    has_host: bool,
    /// The values of all cookie fields.
    cookies: Vec<u8>,
    priority: PriorityParameters,
    list_bytes: usize,
    fields: u32,
    has_lines: bool,
    fault: Option<HeadFault>,
}

impl<'l> HeadBuilder<'l> {
    pub(crate) fn new(section: FieldSection, limits: &'l Http2Limits) -> Self {
        let mut head = CommonHead::default();
        if section == FieldSection::Head {
            head.lines.reserve_exact(LINES_BYTES_USUAL.min(limits.header_list_bytes as usize));
        }
        Self {
            limits,
            section,
            head,
            path: String::new(),
            path_at: 0..0,
            has_host: false,
            cookies: Vec::new(),
            priority: PriorityParameters::default(),
            list_bytes: 0,
            fields: 0,
            has_lines: false,
            fault: None,
        }
    }

    /// Where the block has the path, and bytes of all fields (RFC 9113 §6.5.2).
    pub(crate) fn path_at(&self) -> Range<usize> {
        self.path_at.clone()
    }

    pub(crate) fn list_bytes(&self) -> usize {
        self.list_bytes
    }

    /// Takes a field whose value is a string literal at `at` in its block, or not a literal.
    pub(crate) fn field_at(&mut self, name: &[u8], value: &[u8], at: Range<usize>) {
        if name == b":path" {
            self.path_at = at;
        }
        self.field(name, value);
    }

    pub(crate) fn field(&mut self, name: &[u8], value: &[u8]) {
        self.list_bytes = self.list_bytes.saturating_add(name.len() + value.len() + FIELD_OVERHEAD);
        self.fields += 1;
        if self.is_flood() {
            // The connection ends: no more work for what a small block can repeat.
            return;
        }
        if self.list_bytes > self.limits.header_list_bytes as usize {
            self.set_fault(HeadFault::TooLarge { status: 431, reason: "field_section_too_large" });
        } else if self.fields > self.limits.fields {
            self.set_fault(HeadFault::TooLarge { status: 431, reason: "too_many_fields" });
        }
        let checked = match name {
            [b':', ..] if self.section == FieldSection::Head => self.pseudo(name, value),
            _ => self.regular(name, value),
        };
        if let Err(reason) = checked {
            self.set_fault(HeadFault::Malformed(reason));
        }
    }

    /// A malformed section is malformed whatever its size.
    fn set_fault(&mut self, fault: HeadFault) {
        let is_worse =
            matches!((self.fault, fault), (Some(HeadFault::TooLarge { .. }), HeadFault::Malformed(_)));
        if self.fault.is_none() || is_worse {
            self.fault = Some(fault);
        }
    }

    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if self.has_lines {
            return Err("pseudo_field_after_field");
        }
        let (is_repeated, is_valid) = match name {
            b":method" => {
                (self.head.method.end != 0, !value.is_empty() && value.iter().all(|&byte| is_token(byte)))
            }
            b":scheme" => (self.head.scheme.end != 0, is_scheme(value)),
            b":authority" => (self.head.authority.end != 0, is_authority(value)),
            b":path" => (!self.path.is_empty(), !value.is_empty() && is_visible(value)),
            _ => return Err("unknown_pseudo_field"),
        };
        if is_repeated {
            return Err("repeated_pseudo_field");
        }
        let value = str::from_utf8(value).ok().filter(|_| is_valid).ok_or("pseudo_field_value")?;
        if name == b":path" && value.len() > self.limits.target_bytes as usize {
            self.set_fault(HeadFault::TooLarge { status: 414, reason: "target_too_long" });
        }
        if self.fault.is_some() {
            return Ok(());
        }
        match name {
            b":method" => self.head.method = self.add_text(value),
            b":scheme" => self.head.scheme = self.add_text(value),
            b":authority" => self.head.authority = self.add_text(value),
            _ => self.path.push_str(value),
        }
        Ok(())
    }

    /// Keeps the value of a pseudo-header field. Its range ends above 0, also if it is empty.
    fn add_text(&mut self, value: &str) -> Range<u32> {
        if self.head.text.is_empty() {
            self.head.text.push(' ');
        }
        let start = position(self.head.text.len());
        self.head.text.push_str(value);
        start..position(self.head.text.len())
    }

    fn regular(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        check_field(name, value)?;
        if self.section == FieldSection::Ignored || self.fault.is_some() {
            return Ok(());
        }
        if self.section == FieldSection::Head {
            self.begin_lines();
            match name {
                b"host" => return self.set_host(value),
                b"cookie" => {
                    self.cookies.extend_from_slice(if self.cookies.is_empty() { b"cookie: " } else { b"; " });
                    self.cookies.extend_from_slice(value);
                    return Ok(());
                }
                b"content-length" => self.set_content_length(value)?,
                b"priority" => self.priority.read(value),
                _ => {}
            }
        }
        self.line(name, value);
        Ok(())
    }

    fn line(&mut self, name: &[u8], value: &[u8]) {
        let lines = &mut self.head.lines;
        lines.reserve(name.len() + value.len() + 4);
        for text in [name, b": ", value, b"\r\n"] {
            lines.extend_from_slice(text);
        }
    }

    /// Ends the pseudo-header fields; the first line has the authority.
    fn begin_lines(&mut self) {
        if std::mem::replace(&mut self.has_lines, true) {
            return;
        }
        let CommonHead { text, authority, lines, .. } = &mut self.head;
        let authority = &text[authority.start as usize..authority.end as usize];
        if !authority.is_empty() {
            for text in [&b"host: "[..], authority.as_bytes(), b"\r\n"] {
                lines.extend_from_slice(text);
            }
        }
    }

    /// Host must agree with `:authority` (RFC 9113 §8.3.1), and takes its place if that is missing.
    fn set_host(&mut self, value: &[u8]) -> Result<(), &'static str> {
        if self.has_host {
            return Err("repeated_host");
        }
        let text = str::from_utf8(value).ok().filter(|_| is_authority(value)).ok_or("host")?;
        self.has_host = true;
        let authority = self.head.slice(&self.head.authority);
        if !authority.is_empty() {
            let scheme = self.head.slice(&self.head.scheme);
            let is_same = without_default_port(authority, scheme)
                .eq_ignore_ascii_case(without_default_port(text, scheme));
            return is_same.then_some(()).ok_or("host_is_not_authority");
        }
        self.line(b"host", value);
        self.head.authority = self.add_text(text);
        Ok(())
    }

    fn set_content_length(&mut self, value: &[u8]) -> Result<(), &'static str> {
        let is_number = (1..=19).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
        if self.head.content_length.is_some() || !is_number {
            return Err("content_length");
        }
        self.head.content_length =
            Some(value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')));
        Ok(())
    }

    fn is_flood(&self) -> bool {
        self.list_bytes > self.limits.header_list_bytes as usize * EXCESS_MAX
    }

    fn fault(&self) -> Option<HeadFault> {
        if self.is_flood() { Some(HeadFault::Flood) } else { self.fault }
    }

    /// The head, and the priority that its fields ask for.
    pub(crate) fn into_head(mut self) -> Result<(RequestHead, PriorityParameters), HeadFault> {
        if let Some(fault) = self.fault() {
            return Err(fault);
        }
        self.begin_lines();
        if !self.cookies.is_empty() {
            self.head.lines.extend_from_slice(&self.cookies);
            self.head.lines.extend_from_slice(b"\r\n");
        }
        check_request(&self.head, &self.path).map_err(HeadFault::Malformed)?;
        let head = RequestHead { common: Rc::new(self.head), path: self.path.into() };
        Ok((head, self.priority))
    }

    /// The lines of trailers.
    pub(crate) fn into_trailers(self) -> Result<Vec<u8>, HeadFault> {
        match self.fault() {
            Some(fault) => Err(fault),
            None => Ok(self.head.lines),
        }
    }
}

/// Checks what the fields mean together (RFC 9113 §8.3.1, §8.5).
fn check_request(head: &CommonHead, path: &str) -> Result<(), &'static str> {
    if head.method.is_empty() {
        return Err("missing_pseudo_field");
    }
    let (method, authority) = (head.slice(&head.method), head.slice(&head.authority));
    if method == "CONNECT" {
        let is_connect = head.scheme.is_empty() && path.is_empty() && !authority.is_empty();
        return is_connect.then_some(()).ok_or("connect");
    }
    if head.scheme.is_empty() || path.is_empty() {
        return Err("missing_pseudo_field");
    }
    if matches!(head.slice(&head.scheme), "http" | "https") {
        let is_server_wide = path == "*" && method == "OPTIONS";
        if !is_server_wide && !path.starts_with('/') {
            return Err("path_form");
        }
        if authority.is_empty() {
            return Err("missing_authority");
        }
    }
    Ok(())
}

fn is_scheme(value: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    value.first().is_some_and(u8::is_ascii_alphabetic) && value.iter().all(is_part)
}

fn is_authority(value: &[u8]) -> bool {
    is_visible(value) && !value.iter().any(|byte| matches!(byte, b'@' | b'/' | b'?' | b'#'))
}

/// An authority without a port that is empty or that of the scheme (RFC 9110 §4.2.3).
fn without_default_port<'a>(authority: &'a str, scheme: &str) -> &'a str {
    let default = match scheme {
        "https" => "443",
        "http" => "80",
        _ => "",
    };
    match authority.rsplit_once(':') {
        Some((host, port)) if port.is_empty() || port == default => host,
        _ => authority,
    }
}

fn position(length: usize) -> u32 {
    // A section is smaller than 4 GiB: `header_list_bytes` is a `u32`.
    u32::try_from(length).unwrap_or(u32::MAX)
}
