//! The choice of the next server, by weight and by health. Pure: time is an argument.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use super::settings::HealthLimits;

/// A change of a server's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HealthChange {
    /// It is in again.
    Up,
    /// It is out.
    Down,
}

/// The state of all servers of an origin.
#[derive(Debug)]
pub(super) struct Balance {
    limits: HealthLimits,
    servers: Vec<ServerState>,
}

#[derive(Clone, Debug)]
struct ServerState {
    weight: u32,
    /// Whether it is asked only when no other server can be.
    is_backup: bool,
    /// Credit towards its next turn; grows by its weight in each round.
    saved: i64,
    health: ServerHealth,
    /// Hashes of the paths that the last failures in a row were answers for; at most [`HealthLimits::unhealthy_after`].
    failed_paths: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerHealth {
    Up {
        failures: u32,
    },
    /// `tried`: a request was let through, and its outcome is not known yet.
    Down {
        until: Instant,
        backoff: Duration,
        tried: bool,
        good_checks: u32,
    },
}

/// Orders the servers of an origin, best first, given the responses that each is relaying; `None` for one that is out.
pub type ServerOrder<'o> = dyn Fn(&[Option<u64>]) -> Vec<usize> + 'o;

/// Servers that were asked already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TriedServers(u64);

impl TriedServers {
    /// The most servers that an origin can have.
    pub const MAX: usize = 64;

    /// Adds a server.
    pub(super) fn add(&mut self, index: usize) {
        self.0 |= bit(index);
    }

    fn has(self, index: usize) -> bool {
        self.0 & bit(index) != 0
    }
}

fn bit(index: usize) -> u64 {
    u32::try_from(index).ok().and_then(|index| 1_u64.checked_shl(index)).unwrap_or(0)
}

impl Balance {
    /// All are in. A weight of zero counts as one. `servers` are weights, and whether each is a backup.
    pub(super) fn new(servers: impl IntoIterator<Item = (u32, bool)>, limits: HealthLimits) -> Self {
        let state = |(weight, is_backup): (u32, bool)| ServerState {
            weight: weight.max(1),
            is_backup,
            saved: 0,
            health: ServerHealth::Up { failures: 0 },
            failed_paths: Vec::new(),
        };
        Self { limits, servers: servers.into_iter().map(state).collect() }
    }

    /// Chooses the next server among those not tried: one that is in, in proportion to its weight and evenly spread, or
    /// one whose backoff has passed. A backup is chosen if there is no other. Without one, chooses the server that is due
    /// first, since asking it costs less than an error. `None` only if all were tried.
    pub(super) fn choose(&mut self, now: Instant, tried: TriedServers) -> Option<usize> {
        let candidates = self.candidates(now, tried);
        self.choose_among(&candidates, now, tried)
    }

    /// As [`Self::choose`], among those with the fewest requests under way relative to their weights.
    pub(super) fn choose_least(
        &mut self,
        active: &[u64],
        now: Instant,
        tried: TriedServers,
    ) -> Option<usize> {
        // Products are compared instead of quotients; neither factor comes near 2^32.
        let load = |index: usize| {
            let requests = active.get(index).map_or(0, |active| u128::from(*active)) + 1;
            (requests, u128::from(self.servers[index].weight))
        };
        let is_less = |one: usize, other: usize| {
            let ((requests, weight), (than, its)) = (load(one), load(other));
            requests * its < than * weight
        };
        let mut candidates = self.candidates(now, tried);
        let least =
            candidates.iter().copied().reduce(|best, next| if is_less(next, best) { next } else { best });
        candidates.retain(|index| least.is_some_and(|least| !is_less(least, *index)));
        self.choose_among(&candidates, now, tried)
    }

    /// The servers not tried that may be asked: those that are no backups, or else the backups.
    fn candidates(&self, now: Instant, tried: TriedServers) -> Vec<usize> {
        let of = |backup: bool| -> Vec<usize> {
            let may = |index: &usize| {
                self.servers[*index].is_backup == backup
                    && !tried.has(*index)
                    && self.may_be_asked(*index, now)
            };
            (0..self.servers.len()).filter(may).collect()
        };
        let found = of(false);
        if found.is_empty() { of(true) } else { found }
    }

    fn choose_among(&mut self, candidates: &[usize], now: Instant, tried: TriedServers) -> Option<usize> {
        let mut total = 0;
        let mut best: Option<usize> = None;
        for index in candidates.iter().copied() {
            let state = &mut self.servers[index];
            state.saved += i64::from(state.weight);
            total += i64::from(state.weight);
            if best.is_none_or(|best| self.servers[index].saved > self.servers[best].saved) {
                best = Some(index);
            }
        }
        if let Some(index) = best {
            self.servers[index].saved -= total;
            self.begin_trial(index, now);
            return best;
        }
        self.due_first(now, tried)
    }

    /// Chooses the first server of `order` among those not tried that is in, or whose backoff has passed. Without one, the
    /// server that is due first.
    pub(super) fn choose_first(
        &mut self,
        order: &[usize],
        now: Instant,
        tried: TriedServers,
    ) -> Option<usize> {
        let mut may = order.iter().filter(|index| !tried.has(**index) && self.may_be_asked(**index, now));
        match may.next().copied() {
            Some(index) => {
                self.begin_trial(index, now);
                Some(index)
            }
            None => self.due_first(now, tried),
        }
    }

    /// Chooses this server if it is not tried and in, or due for a trial. A backup is not chosen beside a server that may be
    /// asked: what it gave once would be asked of it for ever.
    pub(super) fn choose_this(&mut self, index: usize, now: Instant, tried: TriedServers) -> Option<usize> {
        if !self.candidates(now, tried).contains(&index) {
            return None;
        }
        self.begin_trial(index, now);
        Some(index)
    }

    /// Whether a server is in, or is out and due for a trial.
    pub(super) fn may_be_asked(&self, index: usize, now: Instant) -> bool {
        match self.servers.get(index).map(|state| state.health) {
            Some(ServerHealth::Up { .. }) => true,
            Some(ServerHealth::Down { until, .. }) => !self.limits.checked && until <= now,
            None => false,
        }
    }

    /// Notes that a server is asked. No other request tries one that is out until the outcome is known, or until the next
    /// backoff has passed.
    fn begin_trial(&mut self, index: usize, now: Instant) {
        if let ServerHealth::Down { until, backoff, tried, .. } = &mut self.servers[index].health {
            (*until, *tried) = (now + *backoff, true);
        }
    }

    fn due_first(&self, now: Instant, tried: TriedServers) -> Option<usize> {
        let out_until = |index: &usize| match self.servers[*index].health {
            ServerHealth::Up { .. } => now,
            ServerHealth::Down { until, .. } => until,
        };
        (0..self.servers.len()).filter(|index| !tried.has(*index)).min_by_key(out_until)
    }

    /// Counts the failure of a request that the server has received. A server that is in fails once with each path until it
    /// answers well: clients choose the path, and one that always fails says little about the server.
    pub(super) fn report_path(&mut self, index: usize, path: &str, now: Instant) -> Option<HealthChange> {
        let state = self.servers.get_mut(index)?;
        if let ServerHealth::Up { .. } = state.health {
            let mut hasher = DefaultHasher::new();
            path.hash(&mut hasher);
            let path = hasher.finish();
            if state.failed_paths.contains(&path) {
                return None;
            }
            state.failed_paths.push(path);
        }
        self.report(index, false, now)
    }

    /// Counts the outcome of a request or of a failed health check.
    pub(super) fn report(&mut self, index: usize, good: bool, now: Instant) -> Option<HealthChange> {
        let limits = self.limits;
        let ServerState { health, failed_paths, .. } = self.servers.get_mut(index)?;
        if good {
            failed_paths.clear();
        }
        match (&mut *health, good) {
            (ServerHealth::Up { failures }, true) => *failures = 0,
            (ServerHealth::Up { failures }, false) => {
                *failures += 1;
                if *failures >= limits.unhealthy_after {
                    let backoff = limits.backoff;
                    failed_paths.clear();
                    *health =
                        ServerHealth::Down { until: now + backoff, backoff, tried: false, good_checks: 0 };
                    return Some(HealthChange::Down);
                }
            }
            (ServerHealth::Down { .. }, true) if !limits.checked => {
                *health = ServerHealth::Up { failures: 0 };
                return Some(HealthChange::Up);
            }
            // A request that was let through for want of other servers proves less than health checks do.
            (ServerHealth::Down { .. }, true) => {}
            (ServerHealth::Down { until, backoff, tried, good_checks }, false) => {
                *good_checks = 0;
                // Other requests were sent before it was out, or for want of another server: their outcome says nothing new.
                if std::mem::take(tried) {
                    *backoff = (*backoff * 2).min(limits.backoff_max);
                    *until = now + *backoff;
                }
            }
        }
        None
    }

    /// Takes a server out without waiting for further failures.
    pub(super) fn take_out(&mut self, index: usize, now: Instant) -> Option<HealthChange> {
        let left = match self.servers.get(index)?.health {
            ServerHealth::Up { failures } => self.limits.unhealthy_after.saturating_sub(failures).max(1),
            ServerHealth::Down { .. } => return None,
        };
        (0..left).find_map(|_| self.report(index, false, now))
    }

    /// Counts the outcome of a health check.
    pub(super) fn report_check(&mut self, index: usize, good: bool, now: Instant) -> Option<HealthChange> {
        let limits = self.limits;
        if let Some(ServerState { health: health @ ServerHealth::Down { .. }, .. }) =
            self.servers.get_mut(index)
            && good
            && let ServerHealth::Down { good_checks, .. } = health
        {
            *good_checks += 1;
            if *good_checks >= limits.healthy_after {
                *health = ServerHealth::Up { failures: 0 };
                return Some(HealthChange::Up);
            }
            return None;
        }
        self.report(index, good, now)
    }

    /// Whether a server is in.
    pub(super) fn is_up(&self, index: usize) -> bool {
        self.servers.get(index).is_some_and(|state| matches!(state.health, ServerHealth::Up { .. }))
    }
}

#[cfg(test)]
mod tests;
