//! Whether files can be served without waiting for disks.

use penstock_sys::machine::Answer;

use crate::commands::doctor::facts::{Facts, bytes_text};
use crate::commands::doctor::finding::{Finding, Section};

/// Below this a tmpfs holds no library worth the name; containers get 64 MiB.
const SHM_BYTES_MIN: u64 = 1 << 30;

pub(super) fn examine(facts: &Facts) -> Vec<Finding> {
    let calls = facts.machine.file_calls;
    vec![
        call("openat2", calls.openat2, "the kernel keeps paths inside a site's directory; containers may filter the call out")
            .problem_if(calls.openat2 == Answer::No, "Linux 5.6 or later", ""),
        call(
            "cachestat",
            calls.cachestat,
            "tells in one call whether bytes are in memory before they are sent; containers may filter it out",
        )
        .better_if(calls.cachestat == Answer::No, "Linux 6.5 or later", ""),
        call("RWF_NOWAIT", calls.read_without_waiting, "tells the same page by page, if the file system knows it")
            .better_if(
                calls.read_without_waiting == Answer::No,
                "ext4, xfs or btrfs",
                "",
            ),
        shm(facts),
    ]
}

fn call(name: &'static str, answer: Answer, why: &str) -> Finding {
    match answer {
        Answer::Yes => Finding::ok(Section::Files, name, name, "works", why),
        Answer::No => Finding::ok(Section::Files, name, name, "missing", why),
        Answer::Unknown => Finding::unknown(Section::Files, name, name, why),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::Verdict;
    use crate::commands::doctor::fixtures::{bare, fast};

    #[test]
    fn a_kernel_without_openat2_cannot_serve_at_all() {
        let mut facts = fast();
        facts.machine.file_calls.openat2 = Answer::No;
        let found = examine(&facts);
        assert!(matches!(found[0].verdict, Verdict::Problem(_)));
        assert_eq!(found[1].verdict, Verdict::Ok);
    }

    #[test]
    fn what_could_not_be_tried_is_unknown_rather_than_wrong() {
        for found in examine(&bare()) {
            assert_eq!(found.verdict, Verdict::Unknown, "{}", found.name);
        }
    }

    #[test]
    fn the_64_mib_of_a_container_are_too_little() {
        let mut facts = fast();
        facts.machine.memory.shm_bytes = Some(64 << 20);
        assert_eq!(shm(&facts).verdict, Verdict::Better("half of the memory".into()));
    }
}
