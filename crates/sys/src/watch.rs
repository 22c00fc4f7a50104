//! Directories whose changes wake a thread (inotify).

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

/// Watches directories, not what is below their directories.
///
/// It tells only that something has changed, not what: the woken task looks itself, so that nothing is missed
/// when the kernel's queue overflows or a file is changed through another name.
#[derive(Debug)]
pub struct Watch {
    inotify: OwnedFd,
    stop: Arc<OwnedFd>,
}

/// Ends the wait of a [`Watch`] from another thread, for good.
#[derive(Clone, Debug)]
pub struct Stop(Arc<OwnedFd>);

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Something in one of the directories has changed.
    Changed,
    /// [`Stop::stop`] was called.
    Stopped,
    /// The time has passed.
    Quiet,
}

impl Watch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// When the system has no capacity for another watch of this user.
    pub fn new() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { inotify, stop: Arc::new(stop) })
    }

    /// Watches a directory from now on; watching it twice changes nothing.
    ///
    /// # Errors
    /// When it is none, or the system has no capacity for more watches of this user.
    pub fn add(&self, directory: &Path) -> io::Result<()> {
        let changes = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&self.inotify, directory, changes)?;
        Ok(())
    }

    /// The event that ends the wait.
    pub fn stop(&self) -> Stop {
        Stop(Arc::clone(&self.stop))
    }

    /// Waits for the next change for this long.
    ///
    /// # Errors
    /// None that a caller could do something about.
    pub fn wait(&self, at_most: Duration) -> io::Result<Woken> {
        let at_most = Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        let mut watched =
            [PollFd::new(&*self.stop, PollFlags::IN), PollFd::new(&self.inotify, PollFlags::IN)];
        match poll(&mut watched, Some(&at_most)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Woken::Quiet),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if !watched[0].revents().is_empty() {
            return Ok(Woken::Stopped);
        }
        self.forget_events()?;
        Ok(Woken::Changed)
    }

    fn forget_events(&self) -> io::Result<()> {
        let mut events = [0; 4096];
        loop {
            match rustix::io::read(&self.inotify, &mut events) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Stop {
    /// Ends the wait that is going on, and every later one at once.
    pub fn stop(&self) {
        // Only a counter near 2^64 could refuse it.
        rustix::io::write(&*self.0, &1_u64.to_ne_bytes()).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn every_way_to_change_a_directory_wakes() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name| directory.path().join(name);
        let watch = Watch::new().unwrap();
        watch.add(directory.path()).unwrap();
        fs::write(path("a"), "1").unwrap();
        assert_eq!(watch.wait(LONG).unwrap(), Woken::Changed);
        fs::rename(path("a"), path("b")).unwrap();
        assert_eq!(watch.wait(LONG).unwrap(), Woken::Changed);
        std::os::unix::fs::symlink("b", path("c")).unwrap();
        assert_eq!(watch.wait(LONG).unwrap(), Woken::Changed);
        fs::remove_file(path("b")).unwrap();
        assert_eq!(watch.wait(LONG).unwrap(), Woken::Changed);
        assert_eq!(watch.wait(Duration::ZERO).unwrap(), Woken::Quiet);
    }

    #[test]
    fn a_stop_ends_this_wait_and_all_later_ones() {
        let watch = Watch::new().unwrap();
        let stop = watch.stop();
        let waiting = std::thread::spawn(move || (watch.wait(LONG).unwrap(), watch.wait(LONG).unwrap()));
        stop.stop();
        assert_eq!(waiting.join().unwrap(), (Woken::Stopped, Woken::Stopped));
    }

    #[test]
    fn only_directories_can_be_watched() {
        let directory = tempfile::tempdir().unwrap();
        let watch = Watch::new().unwrap();
        assert!(watch.add(&directory.path().join("missing")).is_err());
    }
}
