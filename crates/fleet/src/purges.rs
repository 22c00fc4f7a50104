//! Purges that reach every edge: a stream in the store, which each edge applies in order.
//!
//! An edge remembers up to which entry it applied the stream. What it finds after that it missed while it was away. If
//! the stream no longer has that entry, the edge cannot know what it missed, and purges everything.
//!
//! A store that was emptied has a stream with another name, its *epoch*. Each edge then writes the purges of its own
//! operators of the last minutes again. So an edge that followed the old stream until minutes ago misses none.
//!
//! A store that was started again may have read an older state from its disk: the stream is the same without its last
//! entries. Each edge then writes those of its own purges again that are gone, and applies the last minutes once more.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::rand;
use penstock_cache::purge::{PurgeOrder, PurgeTarget};
use penstock_sys::lock::Unpoisoned;
use redis::{Pipeline, Value};

use crate::counters::{Operation, Outcome};
use crate::known_entries::KnownEntries;
use crate::link::{Fault, Link, bytes_of, list_of, text_of};
use crate::message::{Instance, Message};
use crate::own_purges::{OwnPurges, keep};
use crate::position::{EntryId, Epoch, Position, epoch_of};
use crate::seal::{Purpose, Sealer, hex};
use crate::state::StateDirectory;
use crate::ticket_keys::seconds;

/// Applies purges to the cache of this process.
pub trait PurgeSink: Send + Sync + 'static {
    /// Applies one. It may wait for a disk. A purge that is not valid here concerns nothing that is cached here.
    fn apply(&self, order: &PurgeOrder);
}

/// Purges in the stream; an edge that missed more purges its whole cache.
const ENTRIES: usize = 4096;

/// Purges read at once.
const BATCH: usize = 64;

/// Bytes of a purge; a longer one becomes a purge of everything.
const PURGE_BYTES: usize = 16 * 1024;

/// Purges of this machine's operators that are kept to be written again after the store was emptied; beyond that they become one
/// of everything.
const OWN_PURGES: usize = 512;

/// How long those are kept, in seconds. An edge that was away for less misses none.
const OWN_SECONDS: u64 = 600;

/// The stream of purges. Shared with the threads that purge.
pub(crate) struct Purges {
    pub(crate) link: Arc<Link>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) prefix: String,
    pub(crate) state: StateDirectory,
    /// This process; its own purges are applied already.
    pub(crate) instance: Instance,
    pub(crate) sink: OnceLock<Arc<dyn PurgeSink>>,
    pub(crate) progress: Mutex<PurgeProgress>,
    /// Held while purges are written, so that none is written twice.
    pub(crate) writing: tokio::sync::Mutex<()>,
}

/// What was read and what has to be written.
pub(crate) struct PurgeProgress {
    position: Option<Position>,
    /// The process of the store whose stream was read, by its own name.
    run: Option<String>,
    /// Whether another process of the store may answer since the stream was read last.
    is_restarted: bool,
    /// When the stream was last read to its end, in seconds since 1970.
    followed: u64,
    /// When that was last written down.
    saved: u64,
    own: OwnPurges,
    /// The entries that this process has read, at most [`ENTRIES`].
    known: KnownEntries,
    /// Purges of other machines that were applied.
    pub(crate) applied: u64,
    /// How often everything was purged because purges were missed.
    pub(crate) missed: u64,
}

/// The file with the position.
const FILE: &str = "purges";

/// The file with the name of the store's process.
const RUN_FILE: &str = "store";

/// How often the time in it is renewed.
const SAVED_SECONDS: u64 = 60;

/// The last place of the stream's name, and one more.
const EPOCH_DIGITS: usize = 32;

/// What the store says of the stream.
#[derive(Clone, Copy, Debug)]
struct StreamFacts {
    epoch: Epoch,
    /// Whether it has the entry at the position of this edge.
    has_last: bool,
    /// The oldest entry.
    oldest: Option<EntryId>,
    /// Whether it may have been trimmed.
    is_full: bool,
    /// Whether the store may have been started again since the position was reached.
    is_restarted: bool,
    /// Seconds since this edge read it.
    away: u64,
}

/// What a poll of the stream says.
struct Polled {
    position: Position,
    /// Whether purges were missed, so that everything has to go.
    missed: bool,
    /// Whether the entries that were read follow the position.
    fits: bool,
}

impl Purges {
    /// Goes on where an earlier process stopped.
    pub(crate) fn restore(&self) {
        self.progress().own.restore(&self.state);
        let Some(text) = self.state.read(FILE).and_then(|bytes| String::from_utf8(bytes).ok()) else {
            return;
        };
        let Some((followed, position)) = text.trim_end().split_once(' ') else { return };
        let run = self.state.read(RUN_FILE).and_then(|bytes| String::from_utf8(bytes).ok());
        let mut progress = self.progress();
        progress.position = Position::parse(position);
        progress.followed = followed.parse().unwrap_or(0);
        progress.run = run.map(|run| run.trim_end().to_owned());
    }

    /// Notes which process of the store answers on a new connection; `None` if it does not say.
    pub(crate) fn note_store(&self, run: Option<String>) {
        let mut progress = self.progress();
        progress.is_restarted |= run.is_none() || progress.run != run;
        progress.run = run;
    }

    pub(crate) fn position(&self) -> Option<Position> {
        self.progress().position
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, PurgeProgress> {
        self.progress.lock().unpoisoned()
    }

    fn stream_name(&self) -> String {
        format!("{}purges", self.prefix)
    }

    fn epoch_name(&self) -> String {
        format!("{}purges:epoch", self.prefix)
    }

    /// The entries of the stream.
    pub(crate) fn names(&self) -> [String; 2] {
        [self.stream_name(), self.epoch_name()]
    }

    /// After how many polls the stream that this fleet writes is at its end.
    pub(crate) fn polls_max(&self) -> usize {
        ENTRIES / BATCH + 4
    }

    /// Reads some entries and applies them. Returns whether there may be more.
    pub(crate) async fn poll(&self) -> Result<bool, Fault> {
        let Some(sink) = self.sink.get() else { return self.probe().await };
        let last = self.position().map_or(EntryId::BEGIN, |position| position.last);
        let mut commands = Pipeline::with_capacity(5);
        commands.cmd("GETRANGE").arg(self.epoch_name()).arg(0).arg(EPOCH_DIGITS);
        commands.cmd("XLEN").arg(self.stream_name());
        commands.cmd("XRANGE").arg(self.stream_name()).arg(last.to_string()).arg(last.to_string());
        commands.cmd("XRANGE").arg(self.stream_name()).arg("-").arg("+").arg("COUNT").arg(1);
        commands.cmd("XREAD").arg("COUNT").arg(BATCH);
        commands.arg("STREAMS").arg(self.stream_name()).arg(last.to_string());
        let answers = match self.link.ask_patiently(Operation::PurgeRead, &commands).await {
            Err(Fault::WrongType) => return self.begin_again().await.map(|()| true),
            answers => answers?,
        };
        let [epoch, length, at_last, oldest, entries] = answers.as_slice() else {
            return Err(Fault::Refused);
        };
        let epoch = match (text_of(epoch), text_of(epoch).and_then(epoch_of)) {
            (_, Some(epoch)) => epoch,
            (Some(""), None) => return self.begin_epoch().await.map(|()| true),
            (_, None) => return self.forged().await.map(|()| true),
        };
        self.link.counters.count(Operation::PurgeRead, Outcome::Ok);
        let is_restarted = self.progress().is_restarted;
        if is_restarted {
            self.requeue_lost().await?;
        }
        let now = seconds(SystemTime::now());
        let (polled, before) = {
            let progress = self.progress();
            let seen = StreamFacts {
                epoch,
                has_last: !list_of(at_last).is_empty(),
                oldest: list_of(oldest).first().and_then(id_of),
                is_full: matches!(length, Value::Int(n) if *n >= self.most()),
                is_restarted,
                away: now.saturating_sub(progress.followed),
            };
            (follow(progress.position, seen, OWN_SECONDS), progress.position)
        };
        let mut position = polled.position;
        if polled.missed {
            self.purge_everything(sink).await;
        }
        let entries = if polled.fits { self.entries(entries) } else { Vec::new() };
        let count = entries.len();
        position.last = entries.last().map_or(position.last, |(id, _)| *id);
        if position.last.is_exhausted() {
            return self.forged().await.map(|()| true);
        }
        let read: Vec<EntryId> = entries.iter().map(|(id, _)| *id).collect();
        self.apply(sink, entries).await;
        let is_new_epoch = before.is_none_or(|before| before.epoch != position.epoch);
        self.advance(position, now, is_new_epoch);
        self.progress().known.note(read, (is_new_epoch || !polled.fits).then_some(position.last));
        if is_restarted {
            self.know_store();
        }
        Ok(count == BATCH || !polled.fits)
    }

    /// Has those purges of this edge written again that a store which was started again has lost.
    async fn requeue_lost(&self) -> Result<(), Fault> {
        let known = self.progress().own.written();
        if known.is_empty() {
            return Ok(());
        }
        let mut commands = Pipeline::with_capacity(known.len());
        for (_, id) in &known {
            commands.cmd("XRANGE").arg(self.stream_name()).arg(id.to_string()).arg(id.to_string());
        }
        let answers = self.link.ask_patiently(Operation::PurgeRead, &commands).await?;
        let gone: Vec<u64> = known
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| list_of(answer).is_empty())
            .map(|((number, _), _)| *number)
            .collect();
        if !gone.is_empty() {
            tracing::warn!(
                "fleet: the store came back without the last purges: {} of this edge are written again; set appendonly yes",
                gone.len()
            );
        }
        self.progress().own.note_lost(|number| gone.contains(&number));
        self.keep_own();
        Ok(())
    }

    /// Keeps the purges that are not in the stream for the next process.
    fn keep_own(&self) {
        let kept = self.progress().own.kept();
        if let Some(text) = kept {
            keep(&self.state, &text);
        }
    }

    /// Notes that the stream of this process of the store was read.
    fn know_store(&self) {
        let mut progress = self.progress();
        progress.is_restarted = false;
        let run = progress.run.clone();
        drop(progress);
        if let Some(run) = run {
            self.state.write(RUN_FILE, format!("{run}\n").as_bytes());
        }
    }

    fn most(&self) -> i64 {
        i64::try_from(ENTRIES).unwrap_or(i64::MAX)
    }

    /// Asks for nothing, before there is a cache to purge.
    async fn probe(&self) -> Result<bool, Fault> {
        let mut commands = Pipeline::with_capacity(1);
        commands.cmd("PING");
        self.link.ask_patiently(Operation::PurgeRead, &commands).await.map(|_| false)
    }

    /// The stream is not one that this fleet wrote.
    async fn forged(&self) -> Result<(), Fault> {
        self.link.counters.count(Operation::PurgeRead, Outcome::Forged);
        self.begin_again().await
    }

    /// Replaces a stream that cannot be used by a new one, as in a store that was emptied.
    async fn begin_again(&self) -> Result<(), Fault> {
        self.link.remove(Operation::PurgeWrite, &self.names()).await;
        self.begin_epoch().await
    }

    /// Gives the stream of an empty store a name. Of several edges that try, one succeeds.
    async fn begin_epoch(&self) -> Result<(), Fault> {
        let mut epoch = [0; 16];
        rand::fill(&mut epoch).map_err(|_| Fault::Refused)?;
        let mut commands = Pipeline::with_capacity(2);
        commands.cmd("SET").arg(self.epoch_name()).arg(hex(&epoch)).arg("NX");
        commands.cmd("GETRANGE").arg(self.epoch_name()).arg(0).arg(EPOCH_DIGITS);
        let answers = self.link.ask_patiently(Operation::PurgeWrite, &commands).await?;
        if answers.last().and_then(text_of).and_then(epoch_of).is_none() {
            // What is there is no name, and keeps the name from being written.
            self.link.remove(Operation::PurgeWrite, &[self.epoch_name()]).await;
        }
        Ok(())
    }

    /// The purges of an answer to XREAD; `None` in the place of those that are not this fleet's, or are applied already.
    fn entries(&self, answer: &Value) -> Vec<(EntryId, Option<PurgeOrder>)> {
        let entry = |(id, record): (EntryId, Option<&[u8]>)| {
            let plain = record.and_then(|record| self.sealer.open(Purpose::Purge, &[], record));
            let Some(message) = plain.and_then(|plain| Message::decode(plain.expose())) else {
                self.link.counters.count(Operation::PurgeRead, Outcome::Forged);
                return (id, None);
            };
            (id, (message.instance != self.instance).then_some(message.order))
        };
        stream_entries(answer).into_iter().map(entry).collect()
    }

    async fn apply(&self, sink: &Arc<dyn PurgeSink>, entries: Vec<(EntryId, Option<PurgeOrder>)>) {
        let purges: Vec<PurgeOrder> = entries.into_iter().filter_map(|(_, purge)| purge).collect();
        if purges.is_empty() {
            return;
        }
        let (sink, count) = (Arc::clone(sink), purges.len() as u64);
        let applied = tokio::task::spawn_blocking(move || purges.iter().for_each(|purge| sink.apply(purge)));
        if let Err(error) = applied.await {
            tracing::error!(%error, "fleet: a purge was not finished");
        }
        self.progress().applied += count;
    }

    async fn purge_everything(&self, sink: &Arc<dyn PurgeSink>) {
        tracing::warn!(
            "fleet: this edge was away for so long that purges which it missed are no longer in the store: it purges \
             its whole cache"
        );
        self.progress().missed += 1;
        let everything = PurgeOrder { target: PurgeTarget::Everything, soft: false };
        self.apply(sink, vec![(EntryId::BEGIN, Some(everything))]).await;
    }

    fn advance(&self, position: Position, now: u64, is_new_epoch: bool) {
        let mut progress = self.progress();
        let is_old = progress.saved.saturating_add(SAVED_SECONDS) <= now;
        let is_due = progress.position != Some(position) || is_old;
        (progress.position, progress.followed) = (Some(position), now);
        if is_new_epoch {
            progress.own.note_lost(|_| true);
        }
        progress.own.forget_written(Duration::from_secs(OWN_SECONDS), Instant::now());
        if is_due {
            progress.saved = now;
        }
        drop(progress);
        if is_due {
            self.state.write(FILE, format!("{now} {position}\n").as_bytes());
        }
    }

    /// Has every edge apply a purge that this one has applied. Returns its position in the stream; `None` if it waits
    /// here until the store answers.
    pub(crate) async fn publish(&self, order: &PurgeOrder) -> Option<Position> {
        let number = self.progress().own.add(order, Instant::now());
        self.write_own().await;
        self.progress().own.position_of(number)
    }

    /// Writes the purges that are not in the stream yet, in order.
    pub(crate) async fn write_own(&self) {
        let _one_at_a_time = self.writing.lock().await;
        loop {
            let Some((number, order)) = self.progress().own.next() else { break };
            let Some(position) = self.write(&Message { instance: self.instance, order }.encode()).await
            else {
                break;
            };
            self.progress().own.note_written(number, position);
        }
        self.keep_own();
    }

    async fn write(&self, message: &[u8]) -> Option<Position> {
        let record = self.sealer.seal(Purpose::Purge, &[], message)?;
        let before = self.position();
        let mut commands = Pipeline::with_capacity(2);
        commands.cmd("GETRANGE").arg(self.epoch_name()).arg(0).arg(EPOCH_DIGITS);
        commands.cmd("XADD").arg(self.stream_name()).arg("MAXLEN").arg(ENTRIES);
        commands.arg("*").arg("p").arg(record);
        let answers = match self.link.ask_patiently(Operation::PurgeWrite, &commands).await {
            Err(Fault::WrongType) => {
                // The next round writes it again. Without that it stays in the list of this edge.
                self.begin_again().await.ok()?;
                return None;
            }
            answers => answers.ok()?,
        };
        let epoch = answers.first().and_then(text_of).and_then(epoch_of)?;
        let last = answers.get(1).and_then(text_of).and_then(EntryId::parse)?;
        let written = Position { epoch, last };
        if before.is_some_and(|before| before.includes(&written)) {
            // The stream was set back: other edges would count it among those that they have applied.
            self.forged().await.ok()?;
            return None;
        }
        self.link.counters.count(Operation::PurgeWrite, Outcome::Ok);
        Some(written)
    }
}

/// The number of an entry.
fn id_of(entry: &Value) -> Option<EntryId> {
    list_of(entry).first().and_then(text_of).and_then(EntryId::parse)
}

/// The entries in an answer to XREAD, each with its first value.
pub(crate) fn stream_entries(answer: &Value) -> Vec<(EntryId, Option<&[u8]>)> {
    let stream = list_of(answer).first().map_or(&[][..], list_of);
    let entries = stream.get(1).map_or(&[][..], list_of).iter();
    let entry = |entry| {
        let [id, fields] = list_of(entry) else { return None };
        Some((EntryId::parse(text_of(id)?)?, list_of(fields).get(1).and_then(bytes_of)))
    };
    entries.filter_map(entry).collect()
}

impl PurgeProgress {
    pub(crate) fn new() -> Self {
        Self {
            position: None,
            run: None,
            is_restarted: false,
            followed: 0,
            saved: 0,
            own: OwnPurges::new(OWN_PURGES, PURGE_BYTES),
            known: KnownEntries::new(ENTRIES),
            applied: 0,
            missed: 0,
        }
    }

    /// Purges that an edge at this position has yet to apply, see [`KnownEntries::missing_at`].
    pub(crate) fn missing_at(&self, edge: &Position) -> usize {
        self.position.map_or(0, |own| self.known.missing_at(edge, &own))
    }

    /// Purges that wait until the store answers.
    pub(crate) fn waiting(&self) -> usize {
        self.own.waiting()
    }
}

/// Compares a stream with the position of this edge. Edges write their own purges of the last `own_seconds` again if the
/// store has lost them.
fn follow(position: Option<Position>, seen: StreamFacts, own_seconds: u64) -> Polled {
    let begin = Position { epoch: seen.epoch, last: EntryId::BEGIN };
    let misses = seen.away >= own_seconds;
    match position {
        Some(position) if position.epoch != seen.epoch => {
            Polled { position: begin, missed: misses, fits: false }
        }
        Some(position) if position.last != EntryId::BEGIN && !seen.has_last => {
            let oldest = seen.oldest.filter(|oldest| *oldest <= position.last);
            match (seen.is_restarted, oldest) {
                // Entries that were written meanwhile may have earlier numbers, if the clock of the store went back.
                (true, Some(oldest)) => {
                    let minutes_ago = EntryId(position.last.0.saturating_sub(own_seconds * 1000), 0);
                    let position = Position { last: minutes_ago.max(oldest), ..position };
                    Polled { position, missed: misses, fits: false }
                }
                // All that it had persisted is older than the first purge.
                (true, None) if !seen.is_full => Polled { position: begin, missed: misses, fits: false },
                // The entry was lost in this way before.
                (false, Some(_)) => Polled { position, missed: false, fits: true },
                // Trimmed: what is left is applied.
                (_, None) if seen.is_full => Polled { position, missed: true, fits: true },
                // Removed: a stream that lost its entries begins again.
                (_, None) => Polled { position: begin, missed: true, fits: false },
            }
        }
        Some(position) if position.last != EntryId::BEGIN => Polled { position, missed: false, fits: true },
        Some(_) | None => Polled { position: begin, missed: seen.is_full, fits: true },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: [u8; 16] = [1; 16];
    const HERE: Position = Position { epoch: EPOCH, last: EntryId(5, 0) };

    const FOLLOWED: StreamFacts = StreamFacts {
        epoch: EPOCH,
        has_last: true,
        oldest: Some(EntryId(4, 0)),
        is_full: false,
        is_restarted: false,
        away: 1,
    };
    const EMPTY: StreamFacts = StreamFacts { has_last: false, oldest: None, ..FOLLOWED };

    fn judged(position: Option<Position>, seen: StreamFacts) -> (bool, bool) {
        let polled = follow(position, seen, 600);
        (polled.missed, polled.fits)
    }

    #[test]
    fn an_edge_purges_everything_only_if_the_stream_no_longer_has_what_it_missed() {
        // It followed, or was away for any time while its entry stayed.
        assert_eq!(
            judged(Some(HERE), StreamFacts { is_full: true, away: 100_000, ..FOLLOWED }),
            (false, true)
        );
        // Trimmed beyond its entry; what is left is applied too.
        let trimmed = StreamFacts { oldest: Some(EntryId(6, 0)), is_full: true, ..EMPTY };
        for is_restarted in [false, true] {
            assert_eq!(judged(Some(HERE), StreamFacts { is_restarted, ..trimmed }), (true, true));
        }
        // Removed: the stream is read from its begin.
        assert_eq!(judged(Some(HERE), EMPTY), (true, false));
        // It is new here, and the stream has all that ever was in it, or not.
        assert_eq!(judged(None, StreamFacts { away: 100_000, ..EMPTY }), (false, true));
        assert_eq!(judged(None, StreamFacts { is_full: true, away: 100_000, ..EMPTY }), (true, true));
        // The store was emptied: other edges write the purges of the last ten minutes again.
        let other = Position { epoch: [2; 16], ..HERE };
        assert_eq!(judged(Some(other), StreamFacts { away: 599, ..EMPTY }), (false, false));
        assert_eq!(judged(Some(other), StreamFacts { away: 600, ..EMPTY }), (true, false));
    }

    #[test]
    fn a_store_that_came_back_from_an_older_state_makes_no_edge_purge_everything_that_followed_it() {
        let here = Position { epoch: EPOCH, last: EntryId(1_000_000, 3) };
        let older = StreamFacts { is_restarted: true, has_last: false, ..FOLLOWED };
        for (oldest, again) in [(4, EntryId(400_000, 0)), (900_000, EntryId(900_000, 0))] {
            let seen = StreamFacts { oldest: Some(EntryId(oldest, 0)), ..older };
            let polled = follow(Some(here), seen, 600);
            assert_eq!((polled.position.last, polled.missed, polled.fits), (again, false, false));
            // The next poll reads from there.
            let seen = StreamFacts { is_restarted: false, ..seen };
            assert_eq!(judged(Some(polled.position), seen), (false, true));
            assert_eq!(
                judged(Some(here), StreamFacts { is_restarted: true, away: 600, ..seen }),
                (true, false)
            );
        }
        // It had persisted no purge yet.
        let polled = follow(Some(here), StreamFacts { oldest: None, ..older }, 600);
        assert_eq!((polled.position.last, polled.missed), (EntryId::BEGIN, false));
    }
}
