//! A process hands its work over to a new one (SIGUSR2), and no client notices.
//!
//! The old process starts the program that lies at its own path now, with its own arguments. They speak over a pair of Unix
//! sockets, which is the standard input of the new one:
//!
//! | from | message | means |
//! |---|---|---|
//! | new | `begin` | The configuration is valid. |
//! | old | `sockets`, `tickets`, `tier` | What the new process takes over, with descriptors. |
//! | old | `all` | That was everything. |
//! | new | `ready` | It accepts connections. |
//! | old | `leaving` | It accepts nothing more, and takes no orders. |
//! | old | `changed` | Targets that its clients have changed (RFC 9111 §4.4); repeated. |
//! | old | `busy` | The slots of the memory tier that it still reads; repeated. |
//!
//! Either may end at any time, which the other one sees as the end of the messages. Until `ready` the old process then goes on
//! as before; from then on until it drains, it serves again if the new one fails. The new one begins as if there had been no
//! other.

mod message;
mod predecessor;
mod successor;

pub(crate) use predecessor::{Estate, Predecessor, PredecessorEnd, WaitStop};
pub(crate) use successor::{Accepted, Program, Successor, end_successor};

use std::time::Duration;

use penstock_config::limits;

/// The environment variable that tells a program that its standard input is the channel of a predecessor, with the id of that.
const VARIABLE: &str = "PENSTOCK_PREDECESSOR";

/// For how long the successor may take to be ready.
const START_LIMIT: Duration = Duration::from_secs(limits::SUCCESSOR_START_SECONDS);
