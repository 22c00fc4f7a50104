//! The CPU time of a thread, and the end of the process.

use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::time::Duration;

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

/// The CPU time that this thread spent in the program and in system calls, as the kernel divides it.
#[must_use]
pub fn thread_cpu_modes() -> (Duration, Duration) {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is writable for the duration of the call.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    debug_assert_eq!(result, 0, "the thread is this one, and the place is valid");
    // SAFETY: zeros are a valid value, and the call has written all fields if it succeeded.
    let usage = unsafe { usage.assume_init() };
    let duration = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    (duration(usage.ru_utime), duration(usage.ru_stime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_thread_in_the_program_and_in_system_calls_grows() {
        let (user, system) = thread_cpu_modes();
        // The kernel divides by the ticks of its clock, so that both take a while.
        while thread_cpu_modes().0 <= user || thread_cpu_modes().1 <= system {
            std::hint::black_box((0..10_000_u64).fold(0, u64::wrapping_add));
        }
    }
}
