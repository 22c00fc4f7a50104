//! The content path from a request to the bytes of its response: with a scripted origin, a clock that the test moves,
//! and no socket.

mod changes;
mod fills;
mod find;
mod fixture;
mod hit;
mod kept;
mod manifests;
mod no_space;
mod own_words;
mod races;
mod relays;
mod reloads;
mod respond;
mod scripted;
mod steps;
mod validation;
mod variants;
