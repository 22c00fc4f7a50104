//! What an operator orders to purge.

use penstock_metrics::PurgeKind;

/// A purge, as an operator orders it on this machine or another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeOrder {
    /// The objects.
    pub target: PurgeTarget,
    /// Whether the objects only become stale: they may then be used while a newer version is fetched (RFC 5861).
    pub soft: bool,
}

/// The objects of a purge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PurgeTarget {
    /// The object at this URL; a path alone is that path on every site.
    Url(String),
    /// All objects whose URL begins with this text.
    Prefix(String),
    /// All objects with this tag, on every site.
    Tag(String),
    /// The whole cache.
    Everything,
}

impl PurgeTarget {
    /// The target of a kind that is named by its label; `None` without such a kind. The whole cache has no text.
    pub fn new(kind: &str, text: String) -> Option<Self> {
        let kind = PurgeKind::ALL.iter().find(|known| known.label() == kind)?;
        Some(match kind {
            PurgeKind::Url => Self::Url(text),
            PurgeKind::Prefix => Self::Prefix(text),
            PurgeKind::Tag => Self::Tag(text),
            PurgeKind::Everything => Self::Everything,
        })
    }

    /// The kind. Its label is the word in files, in messages between machines, on the admin listener and in metrics.
    pub fn kind(&self) -> PurgeKind {
        match self {
            Self::Url(_) => PurgeKind::Url,
            Self::Prefix(_) => PurgeKind::Prefix,
            Self::Tag(_) => PurgeKind::Tag,
            Self::Everything => PurgeKind::Everything,
        }
    }

    /// The URL, the prefix or the tag; empty for the whole cache.
    pub fn text(&self) -> &str {
        match self {
            Self::Url(text) | Self::Prefix(text) | Self::Tag(text) => text,
            Self::Everything => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_the_same_from_its_kind_and_text() {
        for kind in PurgeKind::ALL {
            let target = PurgeTarget::new(kind.label(), "a b".to_owned()).unwrap();
            assert_eq!(target.kind(), *kind);
            assert_eq!(PurgeTarget::new(target.kind().label(), target.text().to_owned()), Some(target));
        }
        assert_eq!(PurgeTarget::new("name", String::new()), None);
    }
}
