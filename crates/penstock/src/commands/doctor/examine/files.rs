//! Whether files can be served without waiting for disks.

use penstock_sys::machine::ProbeAnswer;

use crate::commands::doctor::facts::{Facts, bytes_text};
use crate::commands::doctor::finding::{Finding, Section};

/// Below this a tmpfs holds no library worth the name; containers get 64 MiB.
const SHM_BYTES_MIN: u64 = 1 << 30;

pub(super) fn examine(facts: &Facts) -> Vec<Finding> {
    let calls = facts.machine.file_calls;
    let mut findings = vec![
        call("openat2", calls.openat2, "the kernel keeps paths inside a site's directory; containers and RestrictSUIDSGID= of systemd may filter the call out")
            .problem_if(calls.openat2 == ProbeAnswer::No, "Linux 5.6 or later", ""),
        call(
            "cachestat",
            calls.cachestat,
            "tells in one call whether bytes are in memory before they are sent; containers may filter it out",
        )
        .better_if(calls.cachestat == ProbeAnswer::No, "Linux 6.5 or later", ""),
        call("RWF_NOWAIT", calls.read_without_waiting, "tells the same page by page, if the file system knows it")
            .better_if(
                calls.read_without_waiting == ProbeAnswer::No,
                "ext4, xfs or btrfs",
                "",
            ),
        shm(facts),
    ];
    findings.extend(remove_ipc(facts));
    findings
}

fn call(name: &'static str, answer: ProbeAnswer, why: &str) -> Finding {
    match answer {
        ProbeAnswer::Yes => Finding::ok(Section::Files, name, name, "works", why),
        ProbeAnswer::No => Finding::ok(Section::Files, name, name, "missing", why),
        ProbeAnswer::Unknown => Finding::unknown(Section::Files, name, name, why),
    }
}

fn shm(facts: &Facts) -> Finding {
    let why = "files in memory are served without a disk; containers get more with --shm-size";
    match facts.machine.memory.shm_bytes {
        Some(bytes) => Finding::ok(Section::Files, "shm", "/dev/shm", bytes_text(bytes), why).better_if(
            bytes < SHM_BYTES_MIN,
            "half of the memory",
            "mount -o remount,size=50% /dev/shm",
        ),
        None => Finding::unknown(Section::Files, "shm", "/dev/shm", why),
    }
}

/// logind spares system users, whose numbers end at 999.
fn remove_ipc(facts: &Facts) -> Option<Finding> {
    let removes = facts.removes_ipc?;
    let is_regular = facts.uid >= 1000;
    let why = "logind deletes the memory tier of the cache when the last session of a regular user ends; services of \
               system users keep theirs";
    let value = match (removes, is_regular) {
        (false, _) => "no".to_owned(),
        (true, false) => "yes; not for this user".to_owned(),
        (true, true) => format!("yes; also for this user ({})", facts.uid),
    };
    let command = "mkdir -p /etc/systemd/logind.conf.d && printf '[Login]\\nRemoveIPC=no\\n' > \
                   /etc/systemd/logind.conf.d/penstock.conf";
    let found = Finding::ok(Section::Files, "remove_ipc", "RemoveIPC", value, why);
    Some(found.better_if(removes && is_regular, "no, or a system user", command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::Rating;
    use crate::commands::doctor::fixtures::{bare, fast};

    #[test]
    fn a_kernel_without_openat2_cannot_serve_at_all() {
        let mut facts = fast();
        facts.machine.file_calls.openat2 = ProbeAnswer::No;
        let found = examine(&facts);
        assert!(matches!(found[0].rating, Rating::Problem(_)));
        assert_eq!(found[1].rating, Rating::Ok);
    }

    #[test]
    fn a_check_that_could_not_run_is_unknown_and_not_a_fault() {
        for found in examine(&bare()) {
            assert_eq!(found.rating, Rating::Unknown, "{}", found.name);
        }
    }

    #[test]
    fn logind_takes_the_memory_tier_of_regular_users_only() {
        let mut facts = fast();
        let mut rating = |removes, uid| {
            (facts.removes_ipc, facts.uid) = (removes, uid);
            remove_ipc(&facts).map(|found| found.rating)
        };
        assert_eq!(rating(None, 1000), None);
        assert_eq!(rating(Some(true), 998), Some(Rating::Ok));
        assert_eq!(rating(Some(false), 1000), Some(Rating::Ok));
        assert_eq!(rating(Some(true), 1000), Some(Rating::Better("no, or a system user".into())));
    }

    #[test]
    fn the_64_mib_of_a_container_are_too_little() {
        let mut facts = fast();
        facts.machine.memory.shm_bytes = Some(64 << 20);
        assert_eq!(shm(&facts).rating, Rating::Better("half of the memory".into()));
    }
}
