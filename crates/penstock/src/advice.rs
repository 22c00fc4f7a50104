//! Warnings about a configuration on this machine: privileges, and settings that the system cuts or ignores.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use penstock_config::{Config, Fault, Listener, User, limits};
use penstock_sys::machine::Sysctls;

use crate::privileges;

/// The bit of `tcp_fastopen` for servers.
const FAST_OPEN_SERVER: u64 = 2;

/// The circumstances of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Circumstances {
    pub(crate) sysctls: Sysctls,
    pub(crate) is_root: bool,
    /// Bytes of memory that the control groups of this process leave it; `None` is no limit.
    pub(crate) memory_max: Option<u64>,
}

impl Circumstances {
    /// Those of this process.
    pub(crate) fn read() -> Self {
        // Reading all facts of the machine would delay the start.
        let number =
            |name: &str| fs::read_to_string(format!("/proc/sys/net/{name}")).ok()?.trim().parse().ok();
        let sysctls = Sysctls {
            fast_open: number("ipv4/tcp_fastopen"),
            accept_queue_max: number("core/somaxconn"),
            send_buffer_max: number("core/wmem_max"),
            ..Sysctls::default()
        };
        Self { sysctls, is_root: privileges::is_root(), memory_max: memory_max() }
    }
}

/// The smallest `memory.max` (cgroups, version 2) of this process's control group and those above it.
fn memory_max() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let all = root.join(group);
    let limits = all.ancestors().take_while(|path| path.starts_with(root));
    limits.filter_map(|path| fs::read_to_string(path.join("memory.max")).ok()?.trim().parse().ok()).min()
}

/// All warnings, in the order of the configuration's listeners and files.
pub(crate) fn advise(config: &Config, circumstances: &Circumstances) -> Vec<Fault> {
    let sockets = config.listeners.iter().flat_map(|listener| {
        let said = socket_advice(listener, &circumstances.sysctls);
        said.into_iter().map(|(what, instead)| {
            let instead = instead.to_owned();
            Fault { instead, ..config.fault_at(Some(listener.address), what) }
        })
    });
    sockets
        .chain(root_advice(config, circumstances))
        .chain(user_advice(config))
        .chain(memory_advice(config, circumstances))
        .chain(pipe_advice(config))
        .collect()
}

fn socket_advice(listener: &Listener, sysctls: &Sysctls) -> Vec<(String, &'static str)> {
    let mut said = Vec::new();
    let socket = &listener.socket;
    if socket.fast_open > 0 && sysctls.fast_open.is_some_and(|bits| bits & FAST_OPEN_SERVER == 0) {
        let what = "fast_open: the system ignores it, since net.ipv4.tcp_fastopen has no bit 2";
        said.push((what.to_owned(), "run sysctl -w net.ipv4.tcp_fastopen=3, or remove fast_open"));
    }
    if let Some(most) = sysctls.accept_queue_max.filter(|most| u64::from(socket.backlog) > *most) {
        let what = format!("backlog: the system cuts {} to {most}, its net.core.somaxconn", socket.backlog);
        said.push((what, "raise net.core.somaxconn by sysctl, or write a smaller backlog"));
    }
    let largest = sysctls.send_buffer_max.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if let (Some(wanted), Some(most)) = (socket.send_buffer, largest)
        && wanted > most
    {
        let what = format!("send_buffer: the system cuts {wanted} bytes to {most}, its net.core.wmem_max");
        said.push((what, "raise net.core.wmem_max by sysctl, or write a smaller send_buffer"));
    }
    said
}

fn root_advice(config: &Config, circumstances: &Circumstances) -> Option<Fault> {
    let stays_root = circumstances.is_root && config.user.is_none();
    stays_root.then(|| Fault {
        instead: "add user: NAME, or start it as another user".to_owned(),
        ..config.fault_at(None, "a server started as root keeps all privileges".to_owned())
    })
}

/// Files that a reload reads again, as the user, and the directories that they are in.
fn user_advice(config: &Config) -> Vec<Fault> {
    let Some(user) = &config.user else { return Vec::new() };
    let is_refused = |path: &Path, may: fn(&User, u32, u32, u32) -> bool| {
        fs::metadata(path).is_ok_and(|found| !may(user, found.uid(), found.gid(), found.mode()))
    };
    let fault = |what: String, mode: &str| Fault {
        instead: format!("run chgrp {} on it and chmod {mode}: a reload reads it as this user", user.gid),
        ..config.fault_at(None, format!("user: {} may not {what}", user.name))
    };
    let (mut said, mut seen) = (Vec::new(), HashSet::new());
    for path in config.read_again() {
        let closed = path.ancestors().skip(1).filter(|above| is_refused(above, User::may_search)).last();
        if let Some(above) = closed {
            if seen.insert(above) {
                said.push(fault(format!("enter {}", above.display()), "750"));
            }
        } else if is_refused(path, User::may_read) && seen.insert(path) {
            said.push(fault(format!("read {}", path.display()), if path.is_dir() { "750" } else { "640" }));
        }
    }
    said
}

/// A memory tier that the process may not fill: pages of a tmpfs count as its memory.
fn memory_advice(config: &Config, circumstances: &Circumstances) -> Option<Fault> {
    let most = circumstances.memory_max.filter(|_| config.uses_cache())?;
    let size = config.cache.memory.size;
    (size > most / 100 * limits::MEMORY_TIER_PERCENT_OF_LIMIT).then(|| Fault {
        instead: "raise the limit (MemoryMax= of systemd, -m of Docker), or write a smaller size".to_owned(),
        ..config.fault_at(
            None,
            format!(
                "cache: the memory tier of {size} bytes counts as memory of this process, which may have {most} (memory.max \
                 of its cgroup): it would be killed as the tier fills"
            ),
        )
    })
}

fn pipe_advice(config: &Config) -> Option<Fault> {
    let path = config.log.access.as_ref()?;
    // Standard output may be a pipe, which has its reader.
    let is_named = !path.starts_with("/dev") && !path.starts_with("/proc");
    let is_pipe = is_named && fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    is_pipe.then(|| Fault {
        instead: "write a regular file, or /dev/stdout with a reader".to_owned(),
        ..config.fault_at(
            None,
            format!("access: {} is a pipe: without a reader the server does not start", path.display()),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn config(lines: &str) -> Config {
        let text = format!("sites: [{{origin: {{directory: /}}}}]\n{lines}\n");
        Config::from_text(&text, Path::new("/edge.yaml")).unwrap()
    }

    fn said(lines: &str, circumstances: &Circumstances) -> Vec<String> {
        advise(&config(lines), circumstances).iter().map(Fault::to_string).collect()
    }

    #[test]
    fn settings_that_the_system_cuts_or_ignores_are_named_with_their_line() {
        let sysctls = Sysctls {
            fast_open: Some(1),
            accept_queue_max: Some(128),
            send_buffer_max: Some(212_992),
            ..Sysctls::default()
        };
        let circumstances = Circumstances { sysctls, ..Circumstances::default() };
        let lines = "listeners:\n- {address: 127.0.0.1:80, fast_open: 16, backlog: 1024, send_buffer: 1MiB}";
        assert_eq!(
            said(lines, &circumstances),
            [
                "/edge.yaml:3: fast_open: the system ignores it, since net.ipv4.tcp_fastopen has no bit 2; \
                 run sysctl -w net.ipv4.tcp_fastopen=3, or remove fast_open",
                "/edge.yaml:3: backlog: the system cuts 1024 to 128, its net.core.somaxconn; raise net.core.somaxconn \
                 by sysctl, or write a smaller backlog",
                "/edge.yaml:3: send_buffer: the system cuts 1048576 bytes to 212992, its net.core.wmem_max; raise \
                 net.core.wmem_max by sysctl, or write a smaller send_buffer",
            ]
        );
    }

    #[test]
    fn settings_within_the_limits_of_the_system_are_not_mentioned() {
        let sysctls = Sysctls {
            fast_open: Some(3),
            accept_queue_max: Some(4096),
            send_buffer_max: Some(1 << 20),
            ..Sysctls::default()
        };
        let lines = "listeners: [{address: 127.0.0.1:80, fast_open: 16, backlog: 4096, send_buffer: 1MiB}]";
        let known = Circumstances { sysctls, ..Circumstances::default() };
        assert_eq!(said(lines, &known), [""; 0]);
        assert_eq!(said(lines, &Circumstances::default()), [""; 0]);
    }

    #[test]
    fn root_is_mentioned_unless_there_is_a_user() {
        let root = Circumstances { is_root: true, ..Circumstances::default() };
        let listener = "listeners: [{address: 127.0.0.1:80}]";
        assert_eq!(
            said(listener, &root),
            [
                "/edge.yaml: a server started as root keeps all privileges; add user: NAME, or start it as another user"
            ]
        );
        assert_eq!(said(&format!("{listener}\nuser: 65534:65534"), &root), [""; 0]);
        assert_eq!(said(listener, &Circumstances::default()), [""; 0]);
    }

    #[test]
    fn a_memory_tier_that_the_control_group_has_no_memory_for_is_mentioned() {
        let within = |memory_max| Circumstances { memory_max: Some(memory_max), ..Circumstances::default() };
        let lines = "listeners: [{address: 127.0.0.1:80}]\ncache: {memory: {size: 64MiB}}";
        let cached = lines.to_owned() + "\nsites: [{origin: {http: [\"http://127.0.0.1:1\"]}}]\n";
        let said = |memory_max| {
            let config = Config::from_text(&cached, Path::new("/edge.yaml")).unwrap();
            advise(&config, &within(memory_max)).len()
        };
        assert_eq!((said(64 << 20), said(79 << 20), said(128 << 20)), (1, 1, 0));
    }

    #[test]
    fn directories_that_the_user_may_not_enter_are_named_once_before_files_that_it_may_not_read() {
        let directory = penstock_testkit::disk_directory();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let (inside, video) = (directory.path().join("closed/video"), directory.path().join("video"));
        fs::create_dir_all(&inside).unwrap();
        fs::create_dir(&video).unwrap();
        set(directory.path(), 0o755);
        set(&video, 0o711);
        set(&directory.path().join("closed"), 0o700);
        let lines = format!(
            "user: 65534:65534\nlisteners: [{{address: 127.0.0.1:80}}]\nsites:\n- {{hosts: [a.example], origin: {{directory: \
             {0}}}}}\n- {{hosts: [b.example], origin: {{directory: {0}}}}}\n- {{origin: {{directory: {1}}}}}\n",
            inside.display(),
            video.display()
        );
        let config = Config::from_text(&lines, Path::new("/edge.yaml")).unwrap();
        let said: Vec<String> = user_advice(&config).iter().map(Fault::to_string).collect();
        let closed = directory.path().join("closed");
        assert_eq!(said.len(), 2, "{said:#?}");
        assert!(said[0].contains(&format!("may not enter {}; ", closed.display())), "{said:#?}");
        assert!(said[1].contains(&format!("may not read {}; ", video.display())), "{said:#?}");
    }
}
