//! A purge as bytes, before it is sealed.

use penstock_cache::purge::{PurgeOrder, PurgeTarget};
use penstock_metrics::PurgeKind;

/// A process: a random number.
pub(crate) type Instance = [u8; 16];

/// A purge and the process that it comes from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) instance: Instance,
    pub(crate) order: PurgeOrder,
}

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let PurgeOrder { target, soft } = &self.order;
        let mut bytes = vec![letter(target.kind()), u8::from(*soft)];
        bytes.extend_from_slice(&self.instance);
        bytes.extend_from_slice(target.text().as_bytes());
        bytes
    }

    /// Reads [`Self::encode`]; `None` if it is of a later version or damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[kind, soft], rest) = bytes.split_first_chunk()?;
        let (instance, text) = rest.split_first_chunk()?;
        let kind = PurgeKind::ALL.iter().find(|known| letter(**known) == kind)?;
        let target = PurgeTarget::new(kind.label(), str::from_utf8(text).ok()?.to_owned())?;
        Some(Self { instance: *instance, order: PurgeOrder { target, soft: soft != 0 } })
    }
}

/// The first byte of a purge of this kind.
fn letter(kind: PurgeKind) -> u8 {
    match kind {
        PurgeKind::Url => b'u',
        PurgeKind::Prefix => b'p',
        PurgeKind::Tag => b't',
        PurgeKind::Everything => b'e',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purges_survive_encoding() {
        let text = || "https://video.example.com/a".to_owned();
        for target in [
            PurgeTarget::Url(text()),
            PurgeTarget::Prefix(text()),
            PurgeTarget::Tag(text()),
            PurgeTarget::Everything,
        ] {
            for soft in [false, true] {
                let message =
                    Message { instance: [9; 16], order: PurgeOrder { target: target.clone(), soft } };
                assert_eq!(Message::decode(&message.encode()), Some(message));
            }
        }
        for wrong in [&b""[..], b"u", b"u0123", b"x\0aaaaaaaaaaaaaaaa", b"u\0aaaaaaaaaaaaaaaa\xff"] {
            assert_eq!(Message::decode(wrong), None);
        }
    }
}
