//! Small file systems that become full.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A small file system in memory; unmounted on drop.
pub(crate) struct Mounted(TempDir);

impl Mounted {
    /// `None`, said aloud, without the right to mount.
    pub(crate) fn new(size: &str) -> Option<Self> {
        let mount = penstock_testkit::disk_directory();
        let options = format!("size={size},mode=0700");
        let mut command = Command::new("mount");
        let mounted = command.args(["-t", "tmpfs", "-o", &options, "none"]).arg(mount.path()).status();
        if !mounted.is_ok_and(|status| status.success()) {
            println!("SKIPPED: this user may not mount a small file system");
            return None;
        }
        Some(Self(mount))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a server may still have its files open.
        drop(Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}
