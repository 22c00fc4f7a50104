//! TCP connections as the kernel lists them.

use std::fs;

/// Connections in `/proc/net/tcp`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// Connections of the local port that both sides have open, or that only the other side has closed.
    pub open: usize,
    /// Those of them whose other side takes nothing: bytes wait, and the kernel probes a window of zero.
    pub blocked: usize,
    /// Bytes of them that the other side has not acknowledged, unsent ones included.
    pub unacknowledged: u64,
}

impl Sockets {
    /// The connections whose local port this is.
    ///
    /// # Panics
    /// If the kernel does not list them.
    #[must_use]
    pub fn of_port(port: u16) -> Self {
        const OPEN: [&str; 2] = ["01", "08"];
        const WINDOW_PROBE: &str = "04:";
        let mut found = Self::default();
        let local = format!(":{port:04X}");
        for line in fs::read_to_string("/proc/net/tcp").unwrap().lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            if columns[1].ends_with(&local) && OPEN.contains(&columns[3]) {
                found.open += 1;
                let queued = columns[4].split(':').next().unwrap();
                found.unacknowledged += u64::from_str_radix(queued, 16).unwrap();
                found.blocked += usize::from(columns[5].starts_with(WINDOW_PROBE));
            }
        }
        found
    }
}
