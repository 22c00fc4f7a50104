//! The surroundings of the content path: clock, tasks, counters, files and origins.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use penstock_config::limits;
use penstock_metrics::{GivenUp, Shard};
use penstock_origin::directory::OpenFiles;
use penstock_origin::io_threads::IoThreads;

use crate::clock::{Clock, Moment};
use crate::networks::{NetworkEntry, NetworkFull, Networks};
use crate::origins::Origins;
use crate::remembered::{Bitrates, CompressedManifests, FileHeads, ObjectHeads};
use crate::requester::Requester;
use crate::site::KnownKeys;

/// Whether the tokens with an id count no longer. Must not wait.
pub type IsRevoked = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The surroundings of the content path: one for each worker, shared by its requests and its fills.
pub struct Context {
    /// Monotonic and wall-clock time.
    pub clock: Clock,
    /// Counters of this worker.
    pub metrics: Arc<Shard>,
    /// Files of directory sites that this worker has open.
    pub files: OpenFiles,
    /// What the heads of those files have in common.
    pub file_heads: FileHeads,
    /// What the heads of cached objects have in common.
    pub object_heads: ObjectHeads,
    /// Keys of targets that were asked for before.
    pub known_keys: KnownKeys,
    /// What the server does without while the CPU is short.
    pub given_up: Arc<GivenUp>,
    /// Compressed forms of small text files.
    pub compressed: Arc<CompressedManifests>,
    /// Bitrates of films whose responses are paced.
    pub bitrates: Bitrates,
    /// Threads that open, read and compress files.
    pub io: Arc<IoThreads>,
    /// Where bytes that are not in the cache come from.
    pub origins: Box<dyn Origins>,
    /// Readers that may wait for one fill; a further request is answered with 503.
    pub waiters_per_fill: Cell<usize>,
    /// Requests that wait for a fetch by client network, of all workers.
    pub waits: Arc<Networks>,
    /// Fetches under way by client network, of all workers.
    pub fetches: Arc<Networks>,
    /// Fetches that one client network may have under way; 0 is no limit.
    pub fetches_per_network: Cell<usize>,
    /// Ids of tokens that count no longer, beside the lists of sites; `None` if there are none.
    pub is_revoked: Option<IsRevoked>,
    /// Source of random numbers, for multipart boundaries.
    pub random: fn() -> u64,
}

impl Context {
    /// The time now, monotonic.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// A place among the fetches of a client's network, for as long as the fetch lasts.
    ///
    /// # Errors
    /// [`NetworkFull`]: all are taken.
    pub(crate) fn enter_fetch(&self, requester: Requester) -> Result<NetworkEntry, NetworkFull> {
        self.enter(requester, self.fetches_per_network.get())
    }

    /// The same for a fetch that no response waits for yet: it leaves half of the places to those that are waited for.
    pub(crate) fn enter_prefetch(&self, requester: Requester) -> Result<NetworkEntry, NetworkFull> {
        self.enter(requester, self.fetches_per_network.get().div_ceil(2))
    }

    /// A place among the requests that wait for one fetch, `waiters` so far, for as long as the request waits. When half of the
    /// places are taken, each client network has a quarter of them, for all fetches together.
    ///
    /// # Errors
    /// [`NetworkFull`]: all are taken, or those of the network.
    pub(crate) fn enter_wait(
        &self,
        requester: Requester,
        waiters: usize,
    ) -> Result<NetworkEntry, NetworkFull> {
        let all = self.waiters_per_fill.get();
        match requester {
            _ if waiters > all => Err(NetworkFull),
            Requester::Client(client) => {
                let share = (all / limits::WAITERS_NETWORK_SHARE).max(1);
                let has_space = waiters <= all / limits::WAITERS_CROWD_SHARE;
                self.waits.enter(client, if has_space { usize::MAX } else { share })
            }
            // The node that asks has counted its client.
            Requester::Peer(_) => Ok(NetworkEntry::unlimited()),
        }
    }

    fn enter(&self, requester: Requester, most: usize) -> Result<NetworkEntry, NetworkFull> {
        match requester {
            Requester::Client(client) => self.fetches.enter(client, most),
            // The node that asks has counted its client.
            Requester::Peer(_) => Ok(NetworkEntry::unlimited()),
        }
    }

    /// The time now on both clocks.
    pub(crate) fn moment(&self) -> Moment {
        (self.clock.now(), self.clock.wall())
    }
}
