//! Fields that are found while a head is parsed.

/// Values of the fields that have accessors in [`Request`](super::Request).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownFields<'h> {
    pub(super) range: Option<&'h str>,
    pub(super) if_range: Option<&'h str>,
    pub(super) if_match: Option<&'h str>,
    pub(super) if_none_match: Option<&'h str>,
    pub(super) if_modified_since: Option<&'h str>,
    pub(super) if_unmodified_since: Option<&'h str>,
    pub(super) accept_encoding: Option<&'h str>,
    pub(super) origin: Option<&'h str>,
    pub(super) user_agent: Option<&'h str>,
    pub(super) referer: Option<&'h str>,
    pub(super) traceparent: Option<&'h str>,
    pub(super) early_data: bool,
    pub(super) cdn_loop: bool,
    pub(super) cmcd: bool,
}
