//! One request and its response on a connection or stream: receiving the body, sending, recording.

mod alternative;
mod answered;
mod asked;
mod cmsd;
mod drive;
mod multiplexer;
mod record;
mod streams;
mod upload;

pub(crate) use alternative::{alternative, name_alternative};
pub(crate) use answered::{Answered, CarriedBy};
pub(crate) use cmsd::tell_path;
pub(crate) use drive::{Carrier, NOTHING_SENT, Sent, drive, send, short_reason};
pub(crate) use multiplexer::{
    Multiplexer, Outgoing, SERVER, Stalled, StreamCount, StreamHead, StreamRequestHead,
};
pub(crate) use record::{record, record_connection, record_refusal};
pub(crate) use streams::{
    ConnectionFacts, Early, Incoming, OpenedStream, SharedConnection, StallClock, StreamTasks, Wait, answer,
    attach, now_with,
};
pub(crate) use upload::BoundedBody;
