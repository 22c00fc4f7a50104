//! What players say of themselves, by kind of client.

use std::time::Duration;

use crate::cells::{Counter, Histogram, Multiple};
use crate::distinct::{Distinct, NameHash};
use crate::labels::ClientKind;

/// Registers for the sessions of a site: the standard error is 3.3 %.
const SITE_REGISTERS: usize = 1024;

/// Registers for the sessions of a site by kind of client: the standard error is 6.5 %.
const KIND_REGISTERS: usize = 256;

/// What players of one site said. A worker has one for each site to whose players it listened.
#[derive(Debug, Default)]
pub(crate) struct PlayerCounters {
    pub(crate) kinds: [KindOfPlayer; ClientKind::ALL.len()],
    pub(crate) sessions: Distinct<SITE_REGISTERS>,
}

/// What players of one kind said.
#[derive(Debug, Default)]
pub(crate) struct KindOfPlayer {
    pub(crate) requests: Counter,
    pub(crate) starved: Counter,
    pub(crate) startup: Counter,
    pub(crate) malformed: Counter,
    pub(crate) buffer: Histogram,
    pub(crate) throughput: Histogram<Multiple>,
    pub(crate) sessions: Distinct<KIND_REGISTERS>,
}

/// What a player said of itself with a request (CTA-5004).
#[derive(Clone, Copy, Debug)]
pub struct PlayerSaid {
    /// The name of its session.
    pub session: Option<NameHash>,
    /// How much it has in its buffer.
    pub buffer: Option<Duration>,
    /// Whether its buffer has run empty.
    pub starved: bool,
    /// Whether it needs the object to start.
    pub startup: bool,
    /// Whether a part of it is malformed, and was not read.
    pub malformed: bool,
    /// The throughput that it has measured, and the encoded bitrate of the object, in the same unit.
    pub throughput: Option<(u64, u64)>,
}

/// Who asks for a title.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Audience<'a> {
    pub(crate) kind: ClientKind,
    /// What the player says of itself.
    pub(crate) said: Option<&'a PlayerSaid>,
}

impl PlayerCounters {
    pub(crate) fn count(&self, kind: ClientKind, said: &PlayerSaid) {
        let kind = &self.kinds[kind as usize];
        kind.requests.add(1);
        kind.starved.add(u64::from(said.starved));
        kind.startup.add(u64::from(said.startup));
        kind.malformed.add(u64::from(said.malformed));
        if let Some(buffer) = said.buffer {
            kind.buffer.observe(buffer);
        }
        if let Some(ratio) = said.throughput.and_then(|(measured, encoded)| thousandths(measured, encoded)) {
            kind.throughput.observe_parts(ratio);
        }
        if let Some(session) = said.session {
            self.sessions.add(session);
            kind.sessions.add(session);
        }
    }
}

/// A part of a whole in thousandths; `None` if there is no whole.
pub(crate) fn thousandths(part: u64, whole: u64) -> Option<u64> {
    let ratio = u128::from(part).checked_mul(1_000)?.checked_div(u128::from(whole))?;
    Some(u64::try_from(ratio).unwrap_or(u64::MAX))
}
