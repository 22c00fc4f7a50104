//! From facts to findings: pure, so that every verdict can be tested on machines that nobody has.

mod ciphers;
mod files;
mod kernel_tls;
mod machine_limits;
mod sockets;

use super::facts::Facts;
use super::finding::Finding;

/// Everything that there is to say, section by section.
pub(crate) fn examine(facts: &Facts) -> Vec<Finding> {
    let sections = [
        kernel_tls::examine(facts),
        ciphers::examine(facts),
        sockets::examine(facts),
        machine_limits::examine(facts),
        files::examine(facts),
    ];
    sections.into_iter().flatten().collect()
}
