//! Requests to other nodes and to origins, and the bodies of their responses.

mod content_range;
mod origin_request;
mod origin_response;
mod relay;
mod upstream;

pub(crate) use content_range::{has_unknown_end, whole_length};
pub(crate) use origin_request::{
    ask_for, client_request, count_answer, forward_fields, name_client, part_request, wait_before_retry,
};
pub(crate) use origin_response::OriginResponse;
pub(crate) use relay::{BodyReceiver, Relay, Repeatable, relay};
pub(crate) use upstream::{Wanted, ask, forget_on_peers};
