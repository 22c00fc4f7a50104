//! Fields of requests that have tokens: no origin sees them, and no key of the cache is made of them.

/// Where the tokens of a site are, beside the target of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenFields {
    /// Names of cookies.
    pub(crate) cookies: Vec<String>,
    /// The name of a field, in lower case.
    pub(crate) field: Option<String>,
}
