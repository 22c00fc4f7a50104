//! One request and its response on a connection or stream: receiving the body, sending, recording.

mod drive;
mod record;
mod upload;

pub(crate) use drive::{Carrier, NOTHING_SENT, Sent, drive, drive_rest, send, short_reason};
pub(crate) use record::{Answered, CarriedBy, Recording, record, record_refusal};
pub(crate) use upload::BoundedBody;
