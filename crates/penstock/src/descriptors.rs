//! The limit on open descriptors: each connection and each open file takes one.

use penstock_config::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Listeners, runtimes, logs and the like, generously.
const OTHERS: u64 = 256;

/// Raises the soft limit to the hard one. It is low by default only for programs that use `select`.
pub(crate) fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::debug!("cannot raise the limit on open descriptors: {error}");
    }
}

/// How many descriptors this process may have; `None` if there is no limit.
pub(crate) fn allowed() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Tells the operator when the configuration allows more than the system does.
pub(crate) fn compare_with(config: &Config) {
    let Some(allowed) = allowed() else { return };
    let counted = config.limits.connections.saturating_add(penstock_edge::descriptors_of_others(config));
    let wanted = (counted as u64).saturating_add(OTHERS);
    if wanted > allowed {
        tracing::warn!(
            "this process may open {allowed} descriptors, but limits.connections, limits.open_files and connections to \
             origins may need {wanted}: raise LimitNOFILE= in the systemd unit (ulimit -Hn), or lower the limits"
        );
    }
}
