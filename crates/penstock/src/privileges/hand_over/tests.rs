//! Trees of root and of a user, in which the user puts links and exchanges names. Only root can test this.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, symlink};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use rustix::fs::{RenameFlags, mkfifoat, renameat_with};
use tempfile::TempDir;

use super::*;

/// A user that is in every `/etc/passwd`, by its number.
const UNPRIVILEGED: u32 = 65534;
/// A third user.
const ANOTHER: u32 = 65533;
/// Exchanges of two names, and hand-overs meanwhile.
const ROUNDS: u32 = 1000;

fn user() -> User {
    User { name: "65534:65534".to_owned(), uid: UNPRIVILEGED, gid: UNPRIVILEGED, groups: Vec::new() }
}

/// A temporary directory of root. `None` for others than root, with a message.
fn scene() -> Option<TempDir> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: this test needs root");
        return None;
    }
    let scene = tempfile::tempdir().unwrap();
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o755)).unwrap();
    Some(scene)
}

fn make(path: &Path, owner: u32) {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path).unwrap();
    chown(path, Some(owner), Some(owner)).unwrap();
}

fn write(path: &Path, owner: u32) {
    fs::write(path, "a key").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    chown(path, Some(owner), Some(owner)).unwrap();
}

fn owner(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().uid()
}

#[test]
fn a_link_in_a_directory_of_the_user_gives_nothing_away() {
    let Some(scene) = scene() else { return };
    let at = |name: &str| scene.path().join(name);
    make(&at("root/p"), 0);
    write(&at("root/p/key"), 0);
    make(&at("priv"), 0);
    make(&at("priv/cache"), UNPRIVILEGED);
    symlink(at("root"), at("priv/cache/tiers")).unwrap();
    for missing in [Missing::Make, Missing::Leave] {
        for name in ["priv/cache/tiers/p", "priv/cache/tiers/new", "priv/cache/tiers"] {
            let given = give_directory(&at(name), &user(), missing).unwrap();
            let why = given.unwrap_or_else(|| panic!("{name} was given"));
            assert_eq!(
                why.to_string(),
                format!("others than root can change {}", at("priv/cache").display())
            );
            assert!(why.belongs_to(&user()));
        }
        assert!(give_log(&at("priv/cache/tiers/p/key"), &user()).unwrap().is_some());
        assert!(give_log(&at("priv/cache/tiers/p/new"), &user()).unwrap().is_some());
    }
    for name in ["root", "root/p", "root/p/key"] {
        assert_eq!(owner(&at(name)), 0, "{name}");
    }
    assert!(!at("root/new").exists() && !at("root/p/new").exists());
}

#[test]
fn exchanging_a_directory_and_a_link_in_a_loop_gives_nothing_away() {
    let Some(scene) = scene() else { return };
    let at = |name: &str| scene.path().join(name);
    make(&at("root/p"), 0);
    write(&at("root/p/key"), 0);
    make(&at("cache"), UNPRIVILEGED);
    make(&at("cache/tiers"), UNPRIVILEGED);
    make(&at("cache/tiers/p"), UNPRIVILEGED);
    write(&at("cache/tiers/p/key"), UNPRIVILEGED);
    symlink(at("root"), at("cache/link")).unwrap();
    let (is_over, exchanged) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let (one, other) = (at("cache/tiers"), at("cache/link"));
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                exchanged.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut round = 0;
        while round < ROUNDS || exchanged.load(Ordering::Relaxed) < ROUNDS {
            for name in ["cache", "cache/tiers", "cache/tiers/p"] {
                give_directory(&at(name), &user(), Missing::Make).unwrap();
            }
            give_log(&at("cache/tiers/p/key"), &user()).unwrap();
            round += 1;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    for name in ["root", "root/p", "root/p/key"] {
        assert_eq!(owner(&at(name)), 0, "{name}");
    }
}

#[test]
fn a_tree_of_root_is_given_except_what_others_could_have_put_there() {
    let Some(scene) = scene() else { return };
    let at = |name: &str| scene.path().join(name);
    for name in ["tier", "tier/deep", "open", "outside"] {
        make(&at(name), 0);
    }
    make(&at("tier/of-user"), UNPRIVILEGED);
    make(&at("tier/shared"), 0);
    fs::set_permissions(at("tier/shared"), fs::Permissions::from_mode(0o777)).unwrap();
    for name in ["tier/slices", "tier/deep/file", "tier/of-user/key", "tier/shared/key", "outside/key"] {
        write(&at(name), 0);
    }
    write(&at("tier/of-another"), ANOTHER);
    fs::hard_link(at("outside/key"), at("tier/second-name")).unwrap();
    symlink(at("outside/key"), at("tier/link")).unwrap();
    mkfifoat(CWD, at("tier/pipe"), Mode::from_raw_mode(0o600)).unwrap();
    assert_eq!(give_directory(&at("tier"), &user(), Missing::Make), Ok(None));
    for name in ["tier", "tier/deep", "tier/slices", "tier/deep/file"] {
        assert_eq!(owner(&at(name)), UNPRIVILEGED, "{name}");
    }
    for name in
        ["tier/of-user/key", "tier/shared", "tier/shared/key", "outside/key", "tier/link", "tier/pipe"]
    {
        assert_eq!(owner(&at(name)), 0, "{name}");
    }
    assert_eq!(owner(&at("tier/of-another")), ANOTHER);

    // It is the user's now, so what root puts there later stays root's.
    write(&at("tier/later"), 0);
    assert_eq!(give_directory(&at("tier"), &user(), Missing::Make), Ok(None));
    assert_eq!(owner(&at("tier/later")), 0);
}

#[test]
fn a_directory_that_is_missing_is_made_where_root_alone_decides() {
    let Some(scene) = scene() else { return };
    let at = |name: &str| scene.path().join(name);
    assert_eq!(give_directory(&at("a/b/tier"), &user(), Missing::Leave), Ok(None));
    assert!(!at("a").exists());
    assert_eq!(give_directory(&at("a/../a/b/tier"), &user(), Missing::Make), Ok(None));
    assert_eq!((owner(&at("a/b")), owner(&at("a/b/tier"))), (0, UNPRIVILEGED));
    assert_eq!(fs::metadata(at("a/b/tier")).unwrap().mode() & 0o777, 0o700);

    // As in /dev/shm: others can add names there, and change only their own.
    make(&at("sticky"), 0);
    fs::set_permissions(at("sticky"), fs::Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(give_directory(&at("sticky/tier"), &user(), Missing::Make), Ok(None));
    assert_eq!(owner(&at("sticky/tier")), UNPRIVILEGED);
    make(&at("sticky/of-another"), ANOTHER);
    assert_eq!(give_directory(&at("sticky/of-another"), &user(), Missing::Make), Ok(None));
    assert_eq!(owner(&at("sticky/of-another")), ANOTHER);

    make(&at("shared"), 0);
    fs::set_permissions(at("shared"), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(give_directory(&at("shared/tier"), &user(), Missing::Make).unwrap().is_some());
    assert!(!at("shared/tier").exists());
}

#[test]
fn links_of_root_are_followed_and_links_in_shared_directories_are_not() {
    let Some(_) = scene() else { return };
    // Not below /tmp, to which all may write.
    let scene = penstock_testkit::disk_directory();
    let at = |name: &str| scene.path().join(name);
    if reach(&at("any"), Missing::Leave).is_err() {
        eprintln!("SKIPPED: others than root can change the directory of the build");
        return;
    }
    make(&at("disk/penstock"), 0);
    symlink("disk", at("link")).unwrap();
    symlink(at("link"), at("second")).unwrap();
    symlink("loop", at("loop")).unwrap();
    assert_eq!(give_directory(&at("second/penstock"), &user(), Missing::Make), Ok(None));
    assert_eq!(owner(&at("disk/penstock")), UNPRIVILEGED);
    assert_eq!(give_directory(&at("loop/penstock"), &user(), Missing::Make), Ok(None));
    make(&at("sticky"), 0);
    fs::set_permissions(at("sticky"), fs::Permissions::from_mode(0o1777)).unwrap();
    make(&at("disk/other"), 0);
    symlink(at("disk"), at("sticky/link")).unwrap();
    assert!(give_directory(&at("sticky/link/other"), &user(), Missing::Make).unwrap().is_some());
    assert_eq!(owner(&at("disk/other")), 0);
}

#[test]
fn a_log_is_made_for_the_user_and_one_of_root_is_given_where_root_alone_decides() {
    let Some(scene) = scene() else { return };
    let at = |name: &str| scene.path().join(name);
    make(&at("log"), 0);
    make(&at("of-user"), UNPRIVILEGED);
    write(&at("log/old"), 0);
    write(&at("of-user/old"), 0);
    write(&at("key"), 0);
    symlink(at("key"), at("log/link")).unwrap();
    for name in ["log/new", "of-user/new", "log/old", "log/link"] {
        assert_eq!(give_log(&at(name), &user()), Ok(None), "{name}");
    }
    assert!(give_log(&at("of-user/old"), &user()).unwrap().is_some());
    for name in ["log/new", "of-user/new", "log/old"] {
        assert_eq!(owner(&at(name)), UNPRIVILEGED, "{name}");
    }
    for name in ["of-user/old", "log/link", "key"] {
        assert_eq!(owner(&at(name)), 0, "{name}");
    }
    assert_eq!(fs::metadata(at("log/new")).unwrap().mode() & 0o777, 0o640);
}
