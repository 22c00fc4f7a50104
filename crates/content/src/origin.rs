//! Requests to other nodes and to origins, and the bodies of their responses.

mod content_range;
mod fetched_response;
mod origin_request;
mod relay;
mod upstream;

pub(crate) use content_range::{has_unknown_end, whole_length};
pub(crate) use fetched_response::FetchedResponse;
pub(crate) use origin_request::{
    ask_for, client_request, count_answer, forward_fields, name_client, part_request, wait_before_retry,
};
pub(crate) use relay::{BodyReceiver, Relay, Repeatable, relay};
pub(crate) use upstream::{Wanted, ask, forget_on_peers};
