//! Whether a store fits a fleet.

use std::time::Duration;

/// What a store says about itself, and how it answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreFacts {
    /// The quickest of some answers.
    pub latency: Duration,
    /// Bytes that it keeps now; `None` if it does not say.
    pub used_bytes: Option<u64>,
    /// The most bytes that it keeps; `None` if there is no bound or it does not say.
    pub max_bytes: Option<u64>,
    /// What it does when these are used up, such as `noeviction`; `None` if it does not say.
    pub policy: Option<String>,
    /// Whether it appends each change to a file; `None` if it does not say.
    pub appends: Option<bool>,
    /// Whether it is a replica, which takes no entries.
    pub is_replica: bool,
    /// Seconds that its clock is ahead of this machine's; `None` if its user may not ask.
    pub clock_ahead: Option<i64>,
}

impl StoreFacts {
    /// Whether it drops entries when its memory is used up.
    pub fn forgets(&self) -> bool {
        self.max_bytes.is_some() && self.policy.as_ref().is_some_and(|policy| policy != "noeviction")
    }

    /// Whether more than this part of its memory is used.
    pub(crate) fn uses_more_than(&self, percent: u64) -> bool {
        let (used, most) = (self.used_bytes.unwrap_or(0), self.max_bytes.unwrap_or(u64::MAX));
        u128::from(used) * 100 > u128::from(most) * u128::from(percent)
    }

    pub(crate) fn of_info(info: &str) -> Self {
        let value = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Self {
            used_bytes: value("used_memory").and_then(|bytes| bytes.trim().parse().ok()),
            max_bytes: value("maxmemory")
                .and_then(|bytes| bytes.trim().parse().ok())
                .filter(|bytes| *bytes > 0),
            policy: value("maxmemory_policy").map(|policy| policy.trim().escape_debug().to_string()),
            appends: value("aof_enabled").map(|enabled| enabled.trim() == "1"),
            is_replica: value("role").is_some_and(|role| role.trim() == "slave"),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_with_a_bound_forgets_unless_its_policy_is_noeviction_and_can_be_nearly_full() {
        let forgets = |info: &str| StoreFacts::of_info(info).forgets();
        assert!(!forgets("maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n"));
        assert!(!forgets("maxmemory:100\r\nmaxmemory_policy:noeviction\r\n"));
        assert!(forgets("# Memory\r\nmaxmemory:100\r\nmaxmemory_policy:volatile-ttl\r\n"));
        assert!(!forgets(""));
        let uses = |info: &str| StoreFacts::of_info(info).uses_more_than(90);
        assert!(uses("used_memory:91\r\nused_memory_human:91B\r\nmaxmemory:100\r\n"));
        assert!(!uses("used_memory:90\r\nmaxmemory:100\r\n") && !uses("used_memory:91\r\nmaxmemory:0\r\n"));
        let appends = |info: &str| StoreFacts::of_info(info).appends;
        assert_eq!((appends("aof_enabled:1\r\n"), appends("aof_enabled:0\r\n")), (Some(true), Some(false)));
        assert_eq!(appends("aof_last_write_status:ok\r\n"), None);
        let facts = StoreFacts::of_info("role:slave\r\nmaxmemory_policy:\x1b[31m\r\n");
        assert!(facts.is_replica && facts.policy.as_deref() == Some("\\u{1b}[31m"));
    }
}
