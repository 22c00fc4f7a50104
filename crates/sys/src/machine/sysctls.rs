//! Settings of the network stack.

use super::source::Source;
use super::text::{numbers, words};

/// Settings of the network stack, `None` where the kernel has none or does not show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sysctls {
    /// `net.ipv4.tcp_congestion_control`
    pub congestion_control: Option<String>,
    /// `net.ipv4.tcp_available_congestion_control`; more may be loadable.
    pub congestion_controls: Vec<String>,
    /// `net.core.default_qdisc`
    pub queueing: Option<String>,
    /// `net.ipv4.tcp_notsent_lowat` in bytes; 2^32-1 is no limit.
    pub unsent_low_water: Option<u64>,
    /// `net.ipv4.tcp_mem`: low, pressure and high, in pages.
    pub tcp_memory_pages: Option<[u64; 3]>,
    /// `net.ipv4.tcp_wmem`: least, first and largest send buffer, in bytes.
    pub send_buffer: Option<[u64; 3]>,
    /// `net.core.wmem_max`: the largest `SO_SNDBUF`, in bytes.
    pub send_buffer_max: Option<u64>,
    /// `net.core.rmem_max`: the largest `SO_RCVBUF`, in bytes.
    pub receive_buffer_max: Option<u64>,
    /// `net.core.somaxconn`: the longest accept queue.
    pub accept_queue_max: Option<u64>,
    /// `net.ipv4.tcp_fastopen`, a set of bits: 1 for clients, 2 for servers.
    pub fast_open: Option<u64>,
    /// `net.ipv4.tcp_slow_start_after_idle`: 0 is off.
    pub slow_start_after_idle: Option<u64>,
}

impl Sysctls {
    pub(super) fn read(source: &Source) -> Self {
        let line = |name: &str| source.line(&format!("proc/sys/net/{name}"));
        let number = |name: &str| numbers::<1>(&line(name)?).map(|[value]| value);
        Self {
            congestion_control: line("ipv4/tcp_congestion_control"),
            congestion_controls: line("ipv4/tcp_available_congestion_control")
                .map(|line| words(&line))
                .unwrap_or_default(),
            queueing: line("core/default_qdisc"),
            unsent_low_water: number("ipv4/tcp_notsent_lowat"),
            tcp_memory_pages: line("ipv4/tcp_mem").as_deref().and_then(numbers),
            send_buffer: line("ipv4/tcp_wmem").as_deref().and_then(numbers),
            send_buffer_max: number("core/wmem_max"),
            receive_buffer_max: number("core/rmem_max"),
            accept_queue_max: number("core/somaxconn"),
            fast_open: number("ipv4/tcp_fastopen"),
            slow_start_after_idle: number("ipv4/tcp_slow_start_after_idle"),
        }
    }
}
