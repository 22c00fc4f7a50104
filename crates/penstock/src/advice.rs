//! Warnings about a configuration on this machine: privileges, and settings that the system cuts or ignores.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use penstock_config::{Config, ConfigPart, Fault, Listener, User, limits};
use penstock_sys::machine::Sysctls;
use penstock_sys::socket::probe_congestion_control;
use rustix::io::Errno;

use crate::finding::Finding;
use crate::privileges;

/// The bit of `tcp_fastopen` for servers.
const FAST_OPEN_SERVER: u64 = 2;

/// The type of tmpfs (statfs(2)).
pub(crate) const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// The circumstances of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Circumstances {
    pub(crate) sysctls: Sysctls,
    pub(crate) is_root: bool,
    /// Bytes of memory that the control groups of this process leave it; `None` is no limit.
    pub(crate) memory_max: Option<u64>,
    /// Bytes of memory of the machine; `None` if it is not known.
    pub(crate) memory_total: Option<u64>,
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
        Self {
            sysctls,
            is_root: privileges::is_root(),
            memory_max: memory_max(),
            memory_total: memory_total(),
        }
    }
}

/// `MemTotal` of the machine.
fn memory_total() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kibibytes = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(kibibytes.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
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

/// Findings about a configuration on a machine: of each listener, then of the rest.
pub(crate) fn advise(config: &Config, circumstances: &Circumstances) -> Vec<Finding> {
    let sockets = config.listeners.iter().flat_map(|listener| {
        let said = socket_advice(listener, &circumstances.sysctls);
        said.into_iter().map(|(what, instead)| {
            let instead = instead.to_owned();
            Fault { instead, ..config.fault_at(Some(listener.address), what) }
        })
    });
    let advice = sockets.chain(root_advice(config, circumstances));
    let warnings = user_advice(config)
        .into_iter()
        .chain(memory_advice(config, circumstances))
        .chain(pipe_advice(config));
    advice.map(Finding::advice).chain(warnings.map(Finding::warning)).collect()
}

/// Listeners with an algorithm that the kernel lacks or refuses this user: they could not be opened.
pub(crate) fn congestion_advice(config: &Config) -> Vec<Fault> {
    let named = config.listeners.iter().enumerate();
    let named = named.filter_map(|(number, one)| Some((number, one.socket.congestion_control.as_ref()?)));
    let refused = named.filter_map(|(number, name)| {
        let error = probe_congestion_control(name).err()?;
        let (what, instead) = match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => (
                format!("congestion_control: this kernel has no `{name}`, and the listener cannot be opened"),
                format!("write one of {}, or run modprobe tcp_{name}", algorithms("available")),
            ),
            Some(Errno::PERM) => (
                format!("congestion_control: only a user with CAP_NET_ADMIN may choose `{name}`"),
                format!(
                    "write one of {}, or add it to net.ipv4.tcp_allowed_congestion_control",
                    algorithms("allowed")
                ),
            ),
            _ => return None,
        };
        Some(Fault { instead, ..config.fault_of(ConfigPart::CongestionControl(number), what) })
    });
    refused.collect()
}

/// The algorithms that are `available` or `allowed`.
fn algorithms(which: &str) -> String {
    let path = format!("/proc/sys/net/ipv4/tcp_{which}_congestion_control");
    let names = fs::read_to_string(path).unwrap_or_default();
    match names.split_whitespace().collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => format!("net.ipv4.tcp_{which}_congestion_control"),
        names => names,
    }
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
    let (mut said, mut seen) = (Vec::new(), HashSet::new());
    for path in config.read_again() {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let Some((refused, verb, mode)) =
            refused_on_the_way(user, path).or_else(|| refused_on_the_way(user, &real))
        else {
            continue;
        };
        if seen.insert(refused.to_owned()) {
            let what = format!("user: {} may not {verb} {}", user.name, refused.display());
            let instead =
                format!("run chgrp {} on it and chmod {mode}: a reload reads it as this user", user.gid);
            said.push(Fault { instead, ..config.fault_of(ConfigPart::User, what) });
        }
    }
    said
}

/// The first directory on the way to a path that the user may not enter, or the file that it may not read; with the verb and the
/// missing permission.
fn refused_on_the_way<'p>(user: &User, path: &'p Path) -> Option<(&'p Path, &'static str, &'static str)> {
    let may = |path: &Path, may: fn(&User, u32, u32, u32) -> bool| {
        let Ok(found) = fs::metadata(path) else { return true };
        may(user, found.uid(), found.gid(), found.mode()) || has_access_list(path)
    };
    let mut way: Vec<&Path> = path.ancestors().collect();
    way.reverse();
    let directories = way.into_iter().filter(|path| path.is_dir());
    let closed = directories.into_iter().find(|path| !may(path, User::may_search));
    let unreadable = || (!path.is_dir() && !may(path, User::may_read)).then_some((path, "read", "g+r"));
    closed.map(|path| (path, "enter", "g+x")).or_else(unreadable)
}

/// Whether users have permissions that the mode does not show.
fn has_access_list(path: &Path) -> bool {
    rustix::fs::getxattr(path, "system.posix_acl_access", &mut [0_u8; 0]).is_ok()
}

/// A memory tier that the process may not fill: pages of a tmpfs count as its memory.
fn memory_advice(config: &Config, circumstances: &Circumstances) -> Option<Fault> {
    let is_in_memory = || {
        let existing = config.cache.memory.directory.ancestors().find(|path| path.is_dir());
        existing
            .and_then(|path| rustix::fs::statfs(path).ok())
            .is_some_and(|found| found.f_type == TMPFS_MAGIC)
    };
    if !config.uses_cache() || !is_in_memory() {
        return None;
    }
    let size = config.cache.memory.size;
    if let Some(total) = circumstances.memory_total.filter(|total| size > *total) {
        let what = format!(
            "cache: the memory tier of {size} bytes is larger than the memory of this machine, {total} bytes"
        );
        return Some(Fault {
            instead: "write a smaller size".to_owned(),
            ..config.fault_of(ConfigPart::MemoryTier, what)
        });
    }
    let most = circumstances.memory_max?;
    (size > most / 100 * limits::MEMORY_TIER_PERCENT_OF_LIMIT).then(|| Fault {
        instead: "raise the limit (MemoryMax= of systemd, -m of Docker), or write a smaller size".to_owned(),
        ..config.fault_of(
            ConfigPart::MemoryTier,
            format!(
                "cache: the memory tier of {size} bytes counts as memory of this process, which may have {most} (memory.max \
                 of its cgroup): it would be killed as the tier fills"
            ),
        )
    })
}

fn pipe_advice(config: &Config) -> Option<Fault> {
    let path = &config.log.access.as_ref()?.path;
    // Standard output may be a pipe, which has its reader.
    let is_named = !path.starts_with("/dev") && !path.starts_with("/proc");
    let is_pipe = is_named && fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    is_pipe.then(|| Fault {
        instead: "write a regular file, or /dev/stdout with a reader".to_owned(),
        ..config.fault_of(
            ConfigPart::AccessLog,
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
        advise(&config(lines), circumstances).iter().map(|one| one.fault.to_string()).collect()
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
        let of_machine = |total| {
            let config = Config::from_text(&cached, Path::new("/edge.yaml")).unwrap();
            let machine = Circumstances { memory_total: Some(total), ..Circumstances::default() };
            advise(&config, &machine)
                .iter()
                .map(|one| one.fault.what.contains("memory of this machine"))
                .collect::<Vec<_>>()
        };
        assert_eq!((of_machine((64 << 20) - 1), of_machine(64 << 20)), (vec![true], vec![]));
    }

    #[test]
    fn directories_that_the_user_may_not_enter_are_named_once_and_files_that_it_may_not_read() {
        let directory = penstock_testkit::disk_directory();
        let at = |name: &str| directory.path().join(name);
        let set = |name: &str, mode| fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        for name in ["closed/video", "listed", "searched"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("closed/video"), at("link")).unwrap();
        for (name, mode) in
            [("", 0o755), ("closed", 0o700), ("closed/video", 0o755), ("listed", 0o744), ("searched", 0o711)]
        {
            set(name, mode);
        }
        let said = |names: &[&str]| -> Vec<String> {
            let site = |name: &&str| {
                format!("- {{hosts: [{name}.example], origin: {{directory: {}}}}}\n", at(name).display())
            };
            let sites: String =
                names.iter().map(site).collect::<String>().replace("closed/video.ex", "closed.ex");
            let text = format!("user: 65534:65534\nlisteners: [{{address: 127.0.0.1:80}}]\nsites:\n{sites}");
            let config = Config::from_text(&text, &at("edge.yaml")).unwrap();
            let prefix = format!("{}/", directory.path().display());
            user_advice(&config).iter().map(|fault| fault.what.replace(&prefix, "")).collect()
        };
        let refused = |name: &str| format!("user: 65534:65534 may not enter {name}");
        assert_eq!(said(&["searched"]), [""; 0]);
        assert_eq!(said(&["listed"]), [refused("listed")]);
        assert_eq!(said(&["closed/video", "link", "searched"]), [refused("closed")]);
        fs::write(at("edge.yaml"), "").unwrap();
        set("edge.yaml", 0o600);
        assert_eq!(said(&["searched"]), ["user: 65534:65534 may not read edge.yaml"]);
    }
}
