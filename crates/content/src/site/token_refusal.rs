//! Why a token is refused.

/// Why a request is refused whose site needs a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRefusal {
    /// There is no token.
    Missing,
    /// It is not written as tokens are.
    Malformed,
    /// It names a key that the site does not have.
    UnknownKey,
    /// It was changed, or signed with another key of that name.
    WrongSignature,
    /// Its time is over.
    Expired,
    /// Its time has not begun.
    NotYet,
    /// It is for another path.
    OtherPath,
    /// It is for another client: another address, country, method or protocol.
    OtherClient,
    /// A claim is not what the site needs, or is not understood.
    Claim,
    /// It is on the list of those that count no longer.
    Revoked,
}

impl TokenRefusal {
    /// The label in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::UnknownKey => "unknown_key",
            Self::WrongSignature => "wrong_signature",
            Self::Expired => "expired",
            Self::NotYet => "not_yet",
            Self::OtherPath => "other_path",
            Self::OtherClient => "other_client",
            Self::Claim => "claim",
            Self::Revoked => "revoked",
        }
    }
}
