use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::thread;

use rustix::fs::CWD;
use rustix::process::{Resource, Rlimit, Uid, geteuid, setrlimit};
use tempfile::TempDir;

use super::*;

fn root_with(files: &[&str]) -> (TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    for name in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    let root = Root::open(dir.path()).unwrap();
    (dir, root)
}

#[test]
fn a_regular_file_opens_with_its_identity() {
    let (dir, root) = root_with(&["a/b.ts"]);
    let file = root.open_regular("a/b.ts", false).unwrap();
    let metadata = fs::metadata(dir.path().join("a/b.ts")).unwrap();
    assert_eq!(file.len(), 6);
    assert_eq!(file.inode(), metadata.ino());
    assert_eq!(file.modified(), metadata.modified().unwrap());
    assert_eq!(file.identity(), root.identify("a/b.ts", false).unwrap());
}

#[test]
fn a_file_just_written_opens_without_waiting() {
    let (_dir, root) = root_with(&["a/b.ts"]);
    match root.open_regular("a/b.ts", true) {
        Ok(file) => assert_eq!(file.len(), 6),
        // Overlayfs always wants to wait.
        Err(OpenError::WouldBlock) => println!("SKIPPED: this file system never answers from memory"),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_file_system_that_must_be_asked_would_block() {
    // The kernel makes up the names below /proc/sys at each look.
    let root = Root::open(Path::new("/proc/sys")).unwrap();
    assert!(matches!(root.open_regular("kernel/ostype", true), Err(OpenError::WouldBlock)));
    assert!(root.open_regular("kernel/ostype", false).is_ok());
}

#[test]
fn a_missing_file_is_not_found() {
    let (_dir, root) = root_with(&["a"]);
    let long = "x".repeat(300);
    for path in ["b", "a/", "a/b", "no/such", "nul\0byte", &long] {
        assert!(matches!(root.open_regular(path, false), Err(OpenError::NotFound)), "{path:?}");
    }
}

#[test]
fn a_directory_is_told_apart() {
    let (_dir, root) = root_with(&["a/b"]);
    for path in ["", ".", "a", "a/"] {
        assert!(matches!(root.open_regular(path, false), Err(OpenError::IsDirectory)), "{path:?}");
    }
}

#[test]
fn a_link_that_stays_inside_works() {
    let (dir, root) = root_with(&["a/b", "c/d"]);
    symlink("../c/d", dir.path().join("a/link")).unwrap();
    symlink("c", dir.path().join("folder")).unwrap();
    assert_eq!(root.open_regular("a/link", false).unwrap().len(), 3);
    assert_eq!(root.open_regular("folder/d", false).unwrap().len(), 3);
}

#[test]
fn a_path_or_link_that_leaves_is_outside() {
    let (dir, root) = root_with(&["inner/a", "secret"]);
    drop(root);
    let inner = dir.path().join("inner");
    symlink("../secret", inner.join("relative")).unwrap();
    symlink(dir.path().join("secret"), inner.join("absolute")).unwrap();
    symlink("/proc/self/root/etc", inner.join("magic")).unwrap();
    symlink("..", inner.join("up")).unwrap();
    let root = Root::open(&inner).unwrap();
    for path in
        ["../secret", "relative", "absolute", "magic/passwd", "up/secret", "up/inner/a", "/etc/passwd"]
    {
        for nonblocking in [false, true] {
            match root.open_regular(path, nonblocking) {
                Err(OpenError::OutsideRoot) => {}
                Err(OpenError::WouldBlock) if nonblocking => {}
                other => panic!("{path}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_loop_of_links_is_not_found() {
    let (dir, root) = root_with(&[]);
    symlink("two", dir.path().join("one")).unwrap();
    symlink("one", dir.path().join("two")).unwrap();
    assert!(matches!(root.open_regular("one", false), Err(OpenError::NotFound)));
}

#[test]
fn a_magic_link_is_not_followed() {
    let root = Root::open(Path::new("/proc")).unwrap();
    assert!(matches!(root.open_regular("self/exe", false), Err(OpenError::NotFound)));
}

#[test]
fn fifos_sockets_and_devices_are_not_opened() {
    let (dir, root) = root_with(&[]);
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _listener = UnixListener::bind(dir.path().join("socket")).unwrap();
    for path in ["fifo", "socket"] {
        assert!(matches!(root.open_regular(path, false), Err(OpenError::NotRegular)), "{path}");
    }
    // A non-blocking writer finds no reader: the FIFO was never opened.
    let writer = rustix::fs::open(&fifo, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
    assert_eq!(writer.unwrap_err(), Errno::NXIO);

    let devices = Root::open(Path::new("/dev")).unwrap();
    assert!(matches!(devices.open_regular("null", false), Err(OpenError::NotRegular)));
    symlink("null", dir.path().join("device")).unwrap();
    assert!(matches!(root.open_regular("device", false), Err(OpenError::NotFound)));
}

#[test]
fn an_unreadable_file_is_forbidden() {
    let (dir, root) = root_with(&["locked", "closed/inside"]);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(dir.path().join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(dir.path().join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            become_unprivileged();
            for path in ["locked", "closed/inside"] {
                assert!(matches!(root.open_regular(path, false), Err(OpenError::Forbidden)), "{path}");
            }
        });
    });
    fs::set_permissions(dir.path().join("closed"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn no_descriptor_left_is_told_apart() {
    const CHILD: &str = "PENSTOCK_TEST_NO_DESCRIPTOR_LEFT";
    // The limit counts for a whole process, so another one gets it.
    if std::env::var_os(CHILD).is_none() {
        let name = thread::current().name().unwrap().to_owned();
        let child = Command::new(std::env::current_exe().unwrap())
            .args([&name, "--exact", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert!(child.status.success(), "{child:?}");
        return;
    }
    let (_dir, root) = root_with(&["a"]);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
    assert!(matches!(root.open_regular("a", false), Err(OpenError::TooManyOpenFiles)));
}

#[test]
fn only_a_directory_can_be_a_root() {
    let (dir, _root) = root_with(&["a"]);
    assert!(matches!(Root::open(&dir.path().join("a")), Err(RootError::NotADirectory)));
    assert!(matches!(Root::open(&dir.path().join("b")), Err(RootError::NotFound)));
}

/// Root may read everything, so this thread stops being root; the others stay what they are.
fn become_unprivileged() {
    if geteuid().is_root() {
        rustix::thread::set_thread_uid(Uid::from_raw(65_534)).unwrap();
    }
}
