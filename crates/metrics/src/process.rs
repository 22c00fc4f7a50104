//! Numbers of this process from `/proc/self`. A value is `None` if the kernel does not provide it.

use std::fs;

/// Resident memory in bytes.
pub(crate) fn resident_memory_bytes() -> Option<u64> {
    parse_resident_memory(&fs::read_to_string("/proc/self/status").ok()?)
}

/// Open descriptors, without the one that lists them.
pub(crate) fn open_descriptors() -> Option<u64> {
    let listed = fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(listed.saturating_sub(1)).ok()
}

/// The soft limit on open descriptors; `None` also without a limit.
pub(crate) fn descriptors_max() -> Option<u64> {
    parse_descriptors_max(&fs::read_to_string("/proc/self/limits").ok()?)
}

/// CPU time of all threads, ended ones included.
pub(crate) fn cpu_nanoseconds() -> Option<u64> {
    parse_cpu_ticks(&fs::read_to_string("/proc/self/stat").ok()?).map(|ticks| ticks * NANOSECONDS_PER_TICK)
}

/// The kernel shows times in ticks of `USER_HZ`, which is 100 on every machine that Rust's standard library supports.
const NANOSECONDS_PER_TICK: u64 = 1_000_000_000 / 100;

fn parse_resident_memory(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

fn parse_descriptors_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn parse_cpu_ticks(stat: &str) -> Option<u64> {
    // The second field is the program's name in parentheses, and may contain blanks and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    user.checked_add(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_descriptors() {
        let memory = resident_memory_bytes().unwrap();
        assert!(memory > 100 * 1024, "{memory}");
        assert!(open_descriptors().unwrap() >= 3);
        assert!(cpu_nanoseconds().is_some());
    }

    #[test]
    fn memory_is_read_from_the_status_page() {
        assert_eq!(parse_resident_memory("Name:\tx\nVmRSS:\t    1234 kB\nThreads: 3\n"), Some(1234 * 1024));
        assert_eq!(parse_resident_memory("Name:\tx\n"), None);
    }

    #[test]
    fn the_soft_limit_counts_and_no_limit_is_no_value() {
        let limits = "Max open files            1024                 524288               files     \n";
        assert_eq!(parse_descriptors_max(limits), Some(1024));
        assert_eq!(parse_descriptors_max("Max open files  unlimited  unlimited  files\n"), None);
    }

    #[test]
    fn a_program_name_with_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 100 0 0 0 31 11 0 0 20 0 1 0 100 0 0";
        assert_eq!(parse_cpu_ticks(stat), Some(42));
        assert_eq!(parse_cpu_ticks("7 (a"), None);
    }
}
