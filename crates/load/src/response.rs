//! Reads a response as it arrives (RFC 9112 §6). Bodies are counted, not kept.

use crate::failure::LoadFailure;

/// The longest head, interim responses included.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;
const FIELDS_MAX: usize = 128;
/// The longest line with the size of a chunk and its extensions.
const CHUNK_LINE_BYTES_MAX: usize = 4096;

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status.
    pub status: u16,
    /// Whether the connection can carry another request.
    pub keeps_alive: bool,
    framing: Framing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// The bytes that are left.
    Length(u64),
    Chunked(Chunk),
    UntilClose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    /// The line with the size, of which this many bytes were seen.
    Size {
        value: u64,
        digits: u8,
        seen: usize,
        in_extension: bool,
    },
    Data(u64),
    /// The line end after the data, of which this many bytes are missing.
    DataEnd(u8),
    /// Trailer lines: the length of the present one without its line end, and of all.
    Trailer {
        length: usize,
        total: usize,
    },
}

/// Reads one response after another.
#[derive(Debug, Default)]
pub struct ResponseReader {
    partial: Vec<u8>,
    /// Bytes of interim responses, which count towards the limit of the head.
    interim: usize,
    head: Option<ResponseHead>,
    for_head: bool,
    done: bool,
}

impl ResponseReader {
    /// Starts a response; the response to HEAD has no body.
    pub fn expect(&mut self, for_head: bool) {
        *self = Self { for_head, ..Self::default() };
    }

    /// Takes bytes as they arrived. `body` gets those of the body. Returns how many bytes belong to this response.
    ///
    /// # Errors
    /// If the bytes are not HTTP/1.1.
    pub fn feed(&mut self, bytes: &[u8], mut body: impl FnMut(&[u8])) -> Result<usize, LoadFailure> {
        let mut used = 0;
        while !self.done && self.head.is_none() {
            match self.feed_head(&bytes[used..])? {
                Some(count) => used += count,
                None => return Ok(bytes.len()),
            }
        }
        while !self.done && used < bytes.len() {
            used += self.feed_body(&bytes[used..], &mut body)?;
        }
        Ok(used)
    }

    /// Takes the end of the connection.
    ///
    /// # Errors
    /// If it cuts the response.
    pub fn end(&mut self) -> Result<(), LoadFailure> {
        match &self.head {
            _ if self.done => Ok(()),
            Some(ResponseHead { framing: Framing::UntilClose, .. }) => {
                self.done = true;
                Ok(())
            }
            Some(_) => Err(LoadFailure::BodyShort),
            None if self.partial.is_empty() => Err(LoadFailure::ClosedBeforeResponse),
            None => Err(LoadFailure::HeadCut),
        }
    }

    /// Whether the response is whole.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether any byte of it has arrived.
    pub fn has_begun(&self) -> bool {
        self.head.is_some() || !self.partial.is_empty()
    }

    /// The head, once it is whole.
    pub fn head(&self) -> Option<&ResponseHead> {
        self.head.as_ref()
    }

    /// Returns how many of these bytes belong to the head; `None` if it needs more.
    fn feed_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, LoadFailure> {
        let before = self.partial.len();
        let space = HEAD_BYTES_MAX - before - self.interim;
        self.partial.extend_from_slice(&bytes[..bytes.len().min(space)]);
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        let length = match response.parse(&self.partial) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if bytes.len() < space => return Ok(None),
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Err(LoadFailure::HeadTooLarge);
            }
            Err(_) => return Err(LoadFailure::ResponseMalformed),
        };
        let head = ResponseHead::read(&response, self.for_head)?;
        self.partial.clear();
        match head.status {
            // The client offers no other protocol.
            101 => return Err(LoadFailure::ResponseMalformed),
            // An interim response is followed by the final one.
            100..200 => self.interim += length,
            _ => {
                self.done = head.framing == Framing::Length(0);
                self.head = Some(head);
            }
        }
        Ok(Some(length - before))
    }

    fn feed_body(&mut self, bytes: &[u8], body: &mut impl FnMut(&[u8])) -> Result<usize, LoadFailure> {
        let Some(head) = &mut self.head else { return Ok(0) };
        match &mut head.framing {
            Framing::UntilClose => {
                body(bytes);
                Ok(bytes.len())
            }
            Framing::Length(left) => {
                let taken = take(bytes, left, body);
                self.done = *left == 0;
                Ok(taken)
            }
            Framing::Chunked(chunk) => {
                let (taken, next) = chunk.feed(bytes, body)?;
                match next {
                    Some(next) => *chunk = next,
                    None => self.done = true,
                }
                Ok(taken)
            }
        }
    }
}

fn take(bytes: &[u8], left: &mut u64, body: &mut impl FnMut(&[u8])) -> usize {
    let count = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
    body(&bytes[..count]);
    *left -= count as u64;
    count
}

impl ResponseHead {
    fn read(response: &httparse::Response<'_, '_>, for_head: bool) -> Result<Self, LoadFailure> {
        let status = response.code.ok_or(LoadFailure::ResponseMalformed)?;
        let mut length = None;
        let mut chunked = false;
        let mut keeps_alive = response.version == Some(1);
        for field in response.headers.iter() {
            let value = str::from_utf8(field.value).unwrap_or_default().trim();
            if field.name.eq_ignore_ascii_case("content-length") {
                let value = value.parse().map_err(|_| LoadFailure::ResponseMalformed)?;
                if length.replace(value).is_some_and(|other| other != value) {
                    return Err(LoadFailure::ResponseMalformed);
                }
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = has_token(value, "chunked");
            } else if field.name.eq_ignore_ascii_case("connection") {
                keeps_alive = !has_token(value, "close") && (keeps_alive || has_token(value, "keep-alive"));
            }
        }
        let framing = match length {
            _ if for_head || matches!(status, 100..200 | 204 | 304) => Framing::Length(0),
            _ if chunked => Framing::Chunked(Chunk::SIZE),
            Some(length) => Framing::Length(length),
            None => Framing::UntilClose,
        };
        let keeps_alive = keeps_alive && framing != Framing::UntilClose;
        Ok(Self { status, keeps_alive, framing })
    }
}

fn has_token(list: &str, token: &str) -> bool {
    list.split(',').any(|one| one.trim().eq_ignore_ascii_case(token))
}

impl Chunk {
    const SIZE: Self = Self::Size { value: 0, digits: 0, seen: 0, in_extension: false };

    /// Returns how many bytes were taken, and the next state; `None` after the last trailer line.
    fn feed(self, bytes: &[u8], body: &mut impl FnMut(&[u8])) -> Result<(usize, Option<Self>), LoadFailure> {
        match self {
            Self::Data(mut left) => {
                let taken = take(bytes, &mut left, body);
                Ok((taken, Some(if left == 0 { Self::DataEnd(2) } else { Self::Data(left) })))
            }
            Self::DataEnd(missing) => match (missing, bytes[0]) {
                (2, b'\r') => Ok((1, Some(Self::DataEnd(1)))),
                (1, b'\n') => Ok((1, Some(Self::SIZE))),
                _ => Err(LoadFailure::ResponseMalformed),
            },
            Self::Trailer { length, total } => match bytes[0] {
                _ if total >= HEAD_BYTES_MAX => Err(LoadFailure::ResponseMalformed),
                b'\n' if length == 0 => Ok((1, None)),
                b'\n' => Ok((1, Some(Self::Trailer { length: 0, total: total + 1 }))),
                b'\r' => Ok((1, Some(Self::Trailer { length, total: total + 1 }))),
                _ => Ok((1, Some(Self::Trailer { length: length + 1, total: total + 1 }))),
            },
            Self::Size { value, digits, seen, in_extension } => {
                Self::feed_size(bytes[0], value, digits, seen, in_extension).map(|next| (1, Some(next)))
            }
        }
    }

    fn feed_size(
        byte: u8,
        value: u64,
        digits: u8,
        seen: usize,
        in_extension: bool,
    ) -> Result<Self, LoadFailure> {
        if seen >= CHUNK_LINE_BYTES_MAX {
            return Err(LoadFailure::ResponseMalformed);
        }
        let seen = seen + 1;
        let digit = char::from(byte).to_digit(16).filter(|_| !in_extension);
        match (byte, digit) {
            (_, Some(digit)) if digits < 15 => Ok(Self::Size {
                value: value * 16 + u64::from(digit),
                digits: digits + 1,
                seen,
                in_extension,
            }),
            (b'\n', _) if digits > 0 => Ok(match value {
                0 => Self::Trailer { length: 0, total: 0 },
                size => Self::Data(size),
            }),
            (b'\r', _) if digits > 0 => Ok(Self::Size { value, digits, seen, in_extension: true }),
            (b';' | b' ' | b'\t', _) if digits > 0 => {
                Ok(Self::Size { value, digits, seen, in_extension: true })
            }
            _ if in_extension && byte != b'\n' => Ok(Self::Size { value, digits, seen, in_extension }),
            _ => Err(LoadFailure::ResponseMalformed),
        }
    }
}

#[cfg(test)]
mod tests;
