//! Facts that only a system call can tell.

use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::process::{Resource, getrlimit};

use crate::file::resident;

/// Limits on open descriptors of this process; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptors {
    /// The present limit.
    pub soft: Option<u64>,
    /// The limit up to which the process may raise it.
    pub hard: Option<u64>,
}

/// Whether the kernel has a system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// It works.
    Yes,
    /// The kernel does not have it, or a filter of system calls hides it.
    No,
    /// It could not be tried.
    #[default]
    Unknown,
}

/// System calls that decide how files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCalls {
    /// Opening below a directory that paths cannot leave (Linux 5.6).
    pub openat2: ProbeAnswer,
    /// Counting cached pages (Linux 6.5).
    pub cachestat: ProbeAnswer,
    /// Reading only what needs no waiting, on the file system of this program.
    pub read_without_waiting: ProbeAnswer,
}

impl Descriptors {
    pub(super) fn read() -> Self {
        let limit = getrlimit(Resource::Nofile);
        Self { soft: limit.current, hard: limit.maximum }
    }
}

impl FileCalls {
    pub(super) fn probe() -> Self {
        Self {
            openat2: openat2(),
            cachestat: on_own_program(cachestat),
            read_without_waiting: on_own_program(read_without_waiting),
        }
    }
}

/// The size of the file system that holds `path`.
pub(super) fn file_system_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    stat.f_blocks.checked_mul(stat.f_frsize)
}

fn openat2() -> ProbeAnswer {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(rustix::fs::CWD, "/", flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS);
    match opened {
        Ok(_) => ProbeAnswer::Yes,
        Err(Errno::NOSYS | Errno::PERM) => ProbeAnswer::No,
        Err(_) => ProbeAnswer::Unknown,
    }
}

fn on_own_program(probe: fn(&std::fs::File) -> ProbeAnswer) -> ProbeAnswer {
    std::fs::File::open("/proc/self/exe").map_or(ProbeAnswer::Unknown, |program| probe(&program))
}

fn cachestat(file: &std::fs::File) -> ProbeAnswer {
    match resident::cachestat(file.as_raw_fd(), 0, 1) {
        // An error for missing rights means that the kernel has the call.
        Ok(_) | Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => ProbeAnswer::Yes,
        Err(Errno::NOSYS) => ProbeAnswer::No,
        Err(_) => ProbeAnswer::Unknown,
    }
}

fn read_without_waiting(file: &std::fs::File) -> ProbeAnswer {
    let mut byte = [0];
    let buffers = &mut [std::io::IoSliceMut::new(&mut byte)];
    match rustix::io::preadv2(file, buffers, 0, ReadWriteFlags::NOWAIT) {
        Ok(_) | Err(Errno::AGAIN) => ProbeAnswer::Yes,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => ProbeAnswer::No,
        Err(_) => ProbeAnswer::Unknown,
    }
}
