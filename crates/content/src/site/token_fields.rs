//! Fields of requests that have tokens: no origin sees them, and no key of the cache is made of them.

/// Where the tokens of a site are, beside the target of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenFields {
    /// Names of cookies.
    pub(crate) cookies: Vec<String>,
    /// The name of a field, in lower case.
    pub(crate) field: Option<String>,
    /// Parameters that tokens have in targets, which the field Referer repeats.
    pub(crate) parameters: Vec<String>,
}

impl TokenFields {
    /// Whether a URL has a token.
    pub(crate) fn are_in(&self, url: &[u8]) -> bool {
        let mut pieces = url.split(|byte| matches!(byte, b'/' | b'?' | b'&'));
        let is_token = |piece: &[u8]| {
            let name = piece.split(|byte| *byte == b'=').next().unwrap_or_default();
            name.len() < piece.len() && self.parameters.iter().any(|one| one.as_bytes() == name)
        };
        pieces.any(is_token)
    }
}
