//! An access log that is a pipe: opening one without a reader would block the start for ever.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

use penstock_config::{Config, Fault};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::failure::Failure;

/// Refuses a pipe without a reader. As long as the returned file is open, opening the access log cannot block.
pub(super) fn hold(config: &Config) -> Result<Option<File>, Failure> {
    let Some(path) = config.log.access.as_ref().map(|log| &log.path) else { return Ok(None) };
    // Standard output and standard error are open already.
    if path.starts_with("/dev") || path.starts_with("/proc") {
        return Ok(None);
    }
    if !fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
        return Ok(None);
    }
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(nonblocking);
    match options.open(path) {
        // A reader of this process's own stands in if the other one ends meanwhile.
        Ok(writer) => Ok(Some(options.read(true).open(path).unwrap_or(writer))),
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            let what = format!("access: no process reads the pipe {}", path.display());
            let instead = "start its reader first, or write a regular file".to_owned();
            Err(Failure::Config(vec![Fault { instead, ..config.fault_at(None, what) }]))
        }
        Err(source) => Err(open_failure(path.display().to_string(), source)),
    }
}

fn open_failure(path: String, source: io::Error) -> Failure {
    Failure::Machine { action: format!("open the access log {path}"), source }
}
