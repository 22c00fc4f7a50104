//! Facts about this machine that decide how fast an edge can be, read without privileges.
//!
//! Nothing here judges. Every fact may be missing (another architecture, a container without `/proc`, an old
//! kernel), and whatever the system writes into its files is taken as text from a stranger.

mod cpu;
mod interfaces;
mod kernel_tls;
mod probes;
mod source;
mod sysctls;
mod text;

use std::path::Path;

pub use cpu::{Cpu, CpuFeature, has_aes_hardware};
pub use interfaces::{Interface, Offload};
pub use kernel_tls::{KernelTls, TlsModule};
pub use probes::{Descriptors, FileCalls, ProbeAnswer};
pub use source::Source;
pub use sysctls::Sysctls;
pub use text::{KernelVersion, Setting, chosen};

const CLOCK: &str = "sys/devices/system/clocksource/clocksource0";

/// All facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// `uname -r`.
    pub kernel_release: Option<String>,
    /// The numbers at the start of the release.
    pub kernel_version: Option<KernelVersion>,
    /// The processor.
    pub cpu: Cpu,
    /// The kernel's description of its TLS.
    pub kernel_tls: KernelTls,
    /// Network interfaces, without loopback.
    pub interfaces: Vec<Interface>,
    /// Settings of the network stack.
    pub sysctls: Sysctls,
    /// Limits on open descriptors of this process.
    pub descriptors: Descriptors,
    /// Memory and its pages.
    pub memory: Memory,
    /// System calls that decide how files are read.
    pub file_calls: FileCalls,
    /// The clock source of the kernel.
    pub clock_source: Option<String>,
    /// The other clock sources.
    pub clock_sources: Vec<String>,
    /// NUMA nodes with their own memory.
    pub numa_nodes: Option<usize>,
}

/// Memory and its pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// All memory, in bytes.
    pub total_bytes: Option<u64>,
    /// Size of a page, in bytes.
    pub page_bytes: u64,
    /// Huge pages for programs: the word in brackets in `transparent_hugepage/enabled`.
    pub huge_pages: Option<String>,
    /// Huge pages for files in memory: the word in brackets in `transparent_hugepage/shmem_enabled`.
    pub shared_huge_pages: Option<String>,
    /// Size of the file system at `/dev/shm`, in bytes.
    pub shm_bytes: Option<u64>,
}

impl Machine {
    /// Reads all facts.
    #[must_use]
    pub fn read() -> Self {
        Self::read_from(&Source::at(Path::new("/")))
    }

    /// Reads all facts, taking files from elsewhere than `/`. What system calls answer is still this machine's.
    #[must_use]
    pub fn read_from(source: &Source) -> Self {
        let kernel_release = source.line("proc/sys/kernel/osrelease");
        Self {
            kernel_version: kernel_release.as_deref().and_then(KernelVersion::parse),
            kernel_tls: KernelTls::read(source, kernel_release.as_deref()),
            kernel_release,
            cpu: Cpu::read(source),
            interfaces: interfaces::read(source),
            sysctls: Sysctls::read(source),
            descriptors: Descriptors::read(),
            memory: Memory::read(source),
            file_calls: FileCalls::probe(),
            clock_source: source.line(&format!("{CLOCK}/current_clocksource")),
            clock_sources: source
                .line(&format!("{CLOCK}/available_clocksource"))
                .map(|line| text::words(&line))
                .unwrap_or_default(),
            numa_nodes: numa_nodes(source),
        }
    }
}

impl Memory {
    fn read(source: &Source) -> Self {
        let choice = |path| source.line(path).as_deref().and_then(chosen).map(str::to_owned);
        Self {
            total_bytes: source.text("proc/meminfo").as_deref().and_then(text::memory_total),
            page_bytes: crate::map::page_bytes() as u64,
            huge_pages: choice("sys/kernel/mm/transparent_hugepage/enabled"),
            shared_huge_pages: choice("sys/kernel/mm/transparent_hugepage/shmem_enabled"),
            shm_bytes: probes::file_system_bytes(&source.path("dev/shm")),
        }
    }
}

fn numa_nodes(source: &Source) -> Option<usize> {
    let is_node =
        |name: &String| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
    let nodes = source.names("sys/devices/system/node").iter().filter(|name| is_node(name)).count();
    (nodes > 0).then_some(nodes)
}

#[cfg(test)]
mod tests;
