//! Whether the store of a fleet fits its configuration, for `check` and `doctor`.

use std::time::Duration;

use penstock_config::{Config, StrikePlace};
use penstock_edge::{StoreFacts, examine_store};

/// One property of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreFinding {
    /// A stable name for scripts.
    pub(crate) name: &'static str,
    /// Its title.
    pub(crate) what: &'static str,
    pub(crate) value: String,
    /// Why it matters.
    pub(crate) why: &'static str,
    /// What it should be, if it is not as it should be.
    pub(crate) wanted: Option<String>,
}

/// The most that clocks may differ, in seconds.
const CLOCKS_SECONDS: u64 = 30;

/// Asks the store of a configuration; nothing if the configuration has no fleet. Blocks for some seconds at most.
pub(crate) fn examine(config: &Config) -> Vec<StoreFinding> {
    let (Some(facts), Some(fleet)) = (examine_store(config), &config.fleet) else { return Vec::new() };
    let judges = config.tls.early_data.is_some_and(|early| early.register == StrikePlace::Fleet);
    findings(facts, fleet.deadline, judges)
}

/// `judges`: the store is the strike register of early data.
fn findings(facts: Result<StoreFacts, String>, deadline: Duration, judges: bool) -> Vec<StoreFinding> {
    let facts = match facts {
        Ok(facts) => facts,
        Err(why) => {
            let why = format!("cannot be used: {why}");
            let wanted = "reachable from this machine: until then each edge works alone";
            return vec![finding("fleet_store", "store", why, REACHED).but(true, wanted)];
        }
    };
    let is_slow = facts.latency > deadline / 2;
    let latency = finding("fleet_latency", "latency", format!("{:?}", rounded(facts.latency)), LATENCY);
    let policy = facts.policy.as_deref().unwrap_or("not known");
    let memory = match facts.max_bytes {
        None => "no bound".to_owned(),
        Some(bytes) => format!("{bytes} bytes, then {policy}"),
    };
    let memory = finding("fleet_memory", "maxmemory", memory, MEMORY);
    let mut found = vec![
        finding("fleet_store", "store", "answers".to_owned(), REACHED)
            .but(facts.is_replica, "the primary: a replica takes no entries"),
        latency.but(is_slow, &format!("less than {:?}, half of fleet.deadline", deadline / 2)),
        memory
            .but(facts.max_bytes.is_none(), "a bound, such as 3gb")
            .but(facts.forgets() && judges, "noeviction: the register of early data must forget nothing")
            .but(facts.forgets() && !judges, "noeviction, or purges and ticket keys may be dropped"),
    ];
    if let Some(appends) = facts.appends {
        let value = if appends { "each change" } else { "snapshots or nothing" };
        let wanted = "appendonly yes: a store that starts from a snapshot lacks the last purges and strikes";
        found.push(
            finding("fleet_persistence", "persistence", value.to_owned(), PERSISTENCE).but(!appends, wanted),
        );
    }
    if let Some(ahead) = facts.clock_ahead {
        let value = format!("{ahead} s ahead of this machine's");
        let differs = ahead.unsigned_abs() > CLOCKS_SECONDS;
        let wanted = format!("at most {CLOCKS_SECONDS} s, by NTP on every machine");
        found.push(finding("fleet_clock", "clock", value, CLOCK).but(differs, &wanted));
    }
    found
}

const REACHED: &str = "edges share sessions, ticket keys, strikes and purges there; see docs/fleet.md";
const LATENCY: &str = "a handshake waits for the store until fleet.deadline, then goes on without";
const MEMORY: &str = "a store that uses all memory, or drops entries, fails edges without a warning";
const PERSISTENCE: &str = "edges repeat purges that a restart lost, and take no early data for 90 seconds";
const CLOCK: &str = "ticket keys and the register of early data compare times of several machines";

fn finding(name: &'static str, what: &'static str, value: String, why: &'static str) -> StoreFinding {
    StoreFinding { name, what, value, why, wanted: None }
}

impl StoreFinding {
    fn but(self, condition: bool, wanted: &str) -> Self {
        if condition { Self { wanted: Some(wanted.to_owned()), ..self } } else { self }
    }
}

/// To ten microseconds.
fn rounded(time: Duration) -> Duration {
    Duration::from_micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX) / 10 * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_millis(20);

    fn wanting(facts: StoreFacts, judges: bool) -> Vec<(&'static str, String)> {
        let found = findings(Ok(facts), DEADLINE, judges);
        found.into_iter().filter_map(|one| Some((one.name, one.wanted?))).collect()
    }

    #[test]
    fn a_store_that_fits_has_no_fault_and_each_fault_says_what_to_change() {
        let fits = StoreFacts {
            latency: Duration::from_micros(345),
            used_bytes: Some(1 << 20),
            max_bytes: Some(1 << 30),
            policy: Some("noeviction".to_owned()),
            appends: Some(true),
            is_replica: false,
            clock_ahead: Some(-2),
        };
        assert_eq!(wanting(fits.clone(), true), []);
        assert_eq!(findings(Ok(fits.clone()), DEADLINE, true)[1].value, "340µs");
        let evicts = StoreFacts { policy: Some("allkeys-lru".to_owned()), ..fits };
        for (facts, judges, name, wanted) in [
            (
                StoreFacts { is_replica: true, ..fits.clone() },
                true,
                "fleet_store",
                "the primary: a replica takes no entries",
            ),
            (
                StoreFacts { latency: Duration::from_millis(11), ..fits.clone() },
                true,
                "fleet_latency",
                "less than 10ms, half of fleet.deadline",
            ),
            (
                StoreFacts { appends: Some(false), ..fits.clone() },
                true,
                "fleet_persistence",
                "appendonly yes: a store that starts from a snapshot lacks the last purges and strikes",
            ),
            (StoreFacts { max_bytes: None, ..fits.clone() }, true, "fleet_memory", "a bound, such as 3gb"),
            (
                evicts.clone(),
                true,
                "fleet_memory",
                "noeviction: the register of early data must forget nothing",
            ),
            (evicts, false, "fleet_memory", "noeviction, or purges and ticket keys may be dropped"),
            (
                StoreFacts { clock_ahead: Some(-31), ..fits },
                true,
                "fleet_clock",
                "at most 30 s, by NTP on every machine",
            ),
        ] {
            assert_eq!(wanting(facts, judges), [(name, wanted.to_owned())]);
        }
        let [away] = findings(Err("it does not answer".to_owned()), DEADLINE, true).try_into().unwrap();
        assert_eq!(away.value, "cannot be used: it does not answer");
        assert!(away.wanted.is_some());
    }
}
