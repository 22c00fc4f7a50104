//! Memory and descriptors of the program under test, as the system counts them.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

use crate::server::Server;

impl Server {
    /// Memory of its own, in bytes: pages of mapped files are not counted.
    pub fn memory(&self) -> u64 {
        self.status("RssAnon:")
    }

    /// The most memory that it has had, in bytes, pages of mapped files included.
    pub fn memory_peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    fn status(&self, line: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let value = status.lines().find_map(|one| one.strip_prefix(line)).unwrap();
        let kib: u64 = value.trim().strip_suffix(" kB").unwrap().parse().unwrap();
        kib * 1024
    }

    /// Descriptors that it has open.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Sets how many descriptors it may have open.
    pub fn limit_descriptors(&self, most: u64) {
        let limit = Rlimit { current: Some(most), maximum: getrlimit(Resource::Nofile).maximum };
        prlimit(Some(self.pid()), Resource::Nofile, limit).unwrap();
    }
}
