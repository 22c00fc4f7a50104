//! Turns facts into findings without side effects, so that tests can examine any machine.

mod certificates;
mod ciphers;
mod configuration;
mod files;
mod fleet;
mod kernel_tls;
mod machine_limits;
mod quic;
mod remote_keys;
mod sockets;

use std::time::SystemTime;

use super::facts::Facts;
use super::finding::Finding;

/// All findings, section by section.
pub(crate) fn examine(facts: &Facts) -> Vec<Finding> {
    let now = SystemTime::now();
    let sections = [
        kernel_tls::examine(facts),
        ciphers::examine(facts),
        sockets::examine(facts),
        quic::examine(facts),
        machine_limits::examine(facts),
        files::examine(facts),
        fleet::examine(facts),
        configuration::examine(facts),
        certificates::examine(facts, now),
        remote_keys::examine(facts, now),
    ];
    sections.into_iter().flatten().collect()
}
