//! A purge as bytes, before it is sealed.

/// A purge that all edges apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPurge {
    /// Which objects.
    pub target: SharedTarget,
    /// Whether they only become stale.
    pub soft: bool,
}

/// Which objects to purge, as the operator wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedTarget {
    /// One URL, or one path on every site.
    Url(String),
    /// All URLs that begin so.
    Prefix(String),
    /// All objects with this tag.
    Tag(String),
    /// The whole cache.
    Everything,
}

/// A process: a random number.
pub(crate) type Instance = [u8; 16];

/// A purge and the process that it comes from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) instance: Instance,
    pub(crate) purge: SharedPurge,
}

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, text) = match &self.purge.target {
            SharedTarget::Url(url) => (b'u', url.as_str()),
            SharedTarget::Prefix(prefix) => (b'p', prefix.as_str()),
            SharedTarget::Tag(tag) => (b't', tag.as_str()),
            SharedTarget::Everything => (b'e', ""),
        };
        let mut bytes = vec![kind, u8::from(self.purge.soft)];
        bytes.extend_from_slice(&self.instance);
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    /// Reads [`Self::encode`]; `None` if it is of a later version or damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[kind, soft], rest) = bytes.split_first_chunk()?;
        let (instance, text) = rest.split_first_chunk()?;
        let text = || std::str::from_utf8(text).ok().map(str::to_owned);
        let target = match kind {
            b'u' => SharedTarget::Url(text()?),
            b'p' => SharedTarget::Prefix(text()?),
            b't' => SharedTarget::Tag(text()?),
            b'e' => SharedTarget::Everything,
            _ => return None,
        };
        Some(Self { instance: *instance, purge: SharedPurge { target, soft: soft != 0 } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purges_survive_encoding() {
        let text = || "https://video.example.com/a".to_owned();
        for target in [
            SharedTarget::Url(text()),
            SharedTarget::Prefix(text()),
            SharedTarget::Tag(text()),
            SharedTarget::Everything,
        ] {
            for soft in [false, true] {
                let message =
                    Message { instance: [9; 16], purge: SharedPurge { target: target.clone(), soft } };
                assert_eq!(Message::decode(&message.encode()), Some(message));
            }
        }
        for wrong in [&b""[..], b"u", b"u0123", b"x\0aaaaaaaaaaaaaaaa", b"u\0aaaaaaaaaaaaaaaa\xff"] {
            assert_eq!(Message::decode(wrong), None);
        }
    }
}
