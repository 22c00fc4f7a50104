//! Why a request is refused.

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRefusal {
    /// The address of the client.
    Address,
    /// The country of the client.
    Country,
    /// The page that refers to the site.
    Referer,
    /// The client's certificate, or that there is none.
    Certificate,
    /// There is no name with its password, or not the right ones.
    Credentials,
    /// There is no token.
    TokenMissing,
    /// No token that was shown is right.
    TokenInvalid,
    /// Too many passwords wait to be verified.
    Busy,
}

impl AccessRefusal {
    /// The label of metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Address => "address_denied",
            Self::Country => "country_denied",
            Self::Referer => "referer_denied",
            Self::Certificate => "certificate_denied",
            Self::Credentials => "unauthorized",
            Self::TokenMissing => "token_missing",
            Self::TokenInvalid => "token_invalid",
            Self::Busy => "passwords_busy",
        }
    }
}
