//! Which keys a keyserver refuses: one line of the log for each, and one when it signs again.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use penstock_tls::remote_key::{KeyId, RemoteKeyError};

use crate::protocol::ErrorCode;

/// The keys that one keyserver refuses, with the errors that the log has said. Those of a configuration only are asked for, so
/// that their number is bounded.
#[derive(Debug, Default)]
pub(super) struct Refusals(RefCell<BTreeSet<(KeyId, u8)>>);

const KEY_NOT_FOUND: u8 = ErrorCode::KeyNotFound as u8;

/// What changed, as a line of the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The first refusal, with its error of the protocol.
    Refused(KeyId, u8),
    SignsAgain(KeyId),
}

impl Refusals {
    /// Notes how an operation ended; `None` if the log has said it already.
    pub(super) fn note(&self, key: KeyId, error: Option<RemoteKeyError>) -> Option<Change> {
        let mut refused = self.0.borrow_mut();
        match error {
            // Other errors depend on what a client asks for, and end with no success.
            None => refused.remove(&(key, KEY_NOT_FOUND)).then_some(Change::SignsAgain(key)),
            // The server is overloaded or has failed: that says nothing of the key.
            Some(RemoteKeyError::Refused(code)) if code != ErrorCode::Internal as u8 => {
                refused.insert((key, code)).then_some(Change::Refused(key, code))
            }
            Some(_) => None,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(key, code) if *code == KEY_NOT_FOUND => write!(
                f,
                "has no key {key} for this edge (error {code}); add its file there, or add it to keys of this edge's \
                 entry in clients"
            ),
            Self::Refused(key, code) => write!(f, "refuses to sign with the key {key} (error {code})"),
            Self::SignsAgain(key) => write!(f, "signs with the key {key} again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_reported_once_when_it_is_refused_and_once_when_it_is_not() {
        let refusals = Refusals::default();
        let (one, other) = (KeyId([1; 20]), KeyId([2; 20]));
        let missing = Some(RemoteKeyError::Refused(KEY_NOT_FOUND));
        assert_eq!(refusals.note(one, None), None);
        assert_eq!(refusals.note(one, missing), Some(Change::Refused(one, 2)));
        let others =
            [Some(RemoteKeyError::TimedOut), Some(RemoteKeyError::Refused(ErrorCode::Internal as u8))];
        for error in others.into_iter().chain([missing; 9]) {
            assert_eq!(refusals.note(one, error), None, "{error:?}");
        }
        assert_eq!(refusals.note(other, missing), Some(Change::Refused(other, 2)));
        assert_eq!(refusals.note(one, None), Some(Change::SignsAgain(one)));
        assert_eq!(refusals.note(one, None), None);
        // A client that asks for a kind of signature that is refused, and one that does not, take turns.
        let kind = ErrorCode::BadOpcode as u8;
        let turns = [Some(RemoteKeyError::Refused(kind)), None, Some(RemoteKeyError::Refused(kind)), None];
        let said: Vec<_> = turns.into_iter().filter_map(|error| refusals.note(one, error)).collect();
        assert_eq!(said, [Change::Refused(one, kind)]);
    }
}
