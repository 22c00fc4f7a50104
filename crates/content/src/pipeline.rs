//! From a request of a client to its response.

mod forward;
mod relayed;
mod respond;

pub use forward::{Forward, ForwardedResponse, PendingResponse};
pub use respond::respond;
pub(crate) use respond::{from_cache, from_object};
