//! The streams of a connection that carries many responses at once.
//!
//! The task of the connection owns an [`OpenStreams`](open_streams::OpenStreams): each stream with what it has to send and what
//! has come for it, and the [`Multiplexer`](super::Multiplexer) that sends. [`answer()`] is the task of one stream: it answers
//! the request as HTTP/1 does, and leaves what it sends to the task of the connection.

mod answer;
mod body;
mod detached;
mod handle;
mod open_stream;
mod open_streams;
mod stall;
mod stream_carrier;
mod tasks;
mod wait;

pub(crate) use answer::{Early, Incoming, OpenedStream, answer, attach};
pub(crate) use open_streams::{ConnectionFacts, SharedConnection};
pub(crate) use stall::StallClock;
pub(crate) use tasks::StreamTasks;
pub(crate) use wait::{Wait, now_with};

#[cfg(test)]
mod tests;
