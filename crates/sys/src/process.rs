//! The end of the process.

use std::io::{self, Write};

/// Ends the process with this code, without running what libraries have registered for the end.
///
/// A thread within a PKCS #11 module cannot be waited for, since the module may hang, and would use what OpenSSL frees at an
/// orderly end: the process then ended with SIGSEGV.
pub fn end(code: u8) -> ! {
    // A reader that is gone needs nothing. Standard error has no buffer, and a thread may hold its lock for ever.
    drop(io::stdout().flush());
    // SAFETY: the call has no requirements; the kernel gives back all that the process has.
    unsafe { libc::_exit(code.into()) }
}
