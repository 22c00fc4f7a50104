//! Gives up root for the user of the configuration.
//!
//! Configuration, certificates and keys have been read as root by then. Everything that the server opens later, it opens
//! as the user: caches, logs, listeners. So nothing differs between the start and a reload.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, lchown};
use std::path::Path;

use penstock_config::{Config, KernelTls, User};
use penstock_sys::ktls;
use rustix::fs::{Gid, OFlags, Uid};
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::failure::Failure;

/// Levels of directories below a directory of the cache.
const LEVELS: usize = 4;

/// Whether this process has the privileges of root.
pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}

/// Becomes the user of the configuration, if there is one. Has to be called before the first thread starts.
pub(crate) fn give_up(config: &Config) -> Result<(), Failure> {
    let Some(user) = &config.user else { return Ok(()) };
    let current = geteuid();
    if current.as_raw() == user.uid {
        return Ok(());
    }
    if !current.is_root() {
        tracing::warn!("user: ignored, since the server was not started as root");
        return Ok(());
    }
    if config.tls.kernel != KernelTls::Off && config.listeners.iter().any(|listener| listener.tls) {
        // Only root makes the kernel load its module.
        drop(ktls::probe());
    }
    hand_over_files(config, user)?;
    become_user(user).map_err(Failure::machine(format!("become the user {}", user.name)))?;
    tracing::info!("running as {} ({}:{})", user.name, user.uid, user.gid);
    Ok(())
}

/// Makes the directories of the cache and the access log, and gives the user those that belong to root.
fn hand_over_files(config: &Config, user: &User) -> Result<(), Failure> {
    if config.uses_cache() {
        let disks = config.cache.disks.iter().map(|disk| &disk.directory);
        for directory in disks.chain([&config.cache.memory.directory]) {
            let failed = Failure::machine(format!("give {} to {}", directory.display(), user.name));
            // Whether a tier can be used is decided when it is opened.
            drop(directory.parent().map(fs::create_dir_all));
            drop(fs::DirBuilder::new().mode(0o700).create(directory));
            give_tree(directory, user, LEVELS).map_err(failed)?;
        }
    }
    if let Some(state) = config.fleet.as_ref().and_then(|fleet| fleet.state.as_ref()) {
        let failed = Failure::machine(format!("give {} to {}", state.display(), user.name));
        give_tree(state, user, LEVELS).map_err(failed)?;
    }
    if let Some(log) = &config.log.access {
        let failed = Failure::machine(format!("give {} to {}", log.display(), user.name));
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        let opened =
            fs::OpenOptions::new().append(true).create(true).mode(0o640).custom_flags(flags).open(log);
        // A link or a pipe stays as it is.
        if opened.is_ok_and(|file| file.metadata().is_ok_and(|found| found.is_file())) {
            give(log, user).map_err(failed)?;
        }
    }
    Ok(())
}

fn give_tree(path: &Path, user: &User, levels: usize) -> io::Result<()> {
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    // Another user may have put links into a directory of its own.
    if found.uid() != 0 && found.uid() != user.uid || found.is_file() && found.nlink() > 1 {
        return Ok(());
    }
    give(path, user)?;
    if levels == 0 || !found.is_dir() {
        return Ok(());
    }
    fs::read_dir(path)?.try_for_each(|entry| give_tree(&entry?.path(), user, levels - 1))
}

/// Changes the owner of a file of root. Files of others stay as they are, and links are not followed.
fn give(path: &Path, user: &User) -> io::Result<()> {
    match path.symlink_metadata()?.uid() {
        0 => lchown(path, Some(user.uid), Some(user.gid)),
        _ => Ok(()),
    }
}

fn become_user(user: &User) -> io::Result<()> {
    let threads = fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        // Another thread would stay root.
        return Err(io::Error::other(format!("there are {threads} threads already")));
    }
    let groups: Vec<Gid> = user.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_keep_capabilities(true)?;
    set_thread_groups(&groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    // A container may have taken it away.
    let kept = capabilities(None)?.permitted & CapabilitySet::NET_BIND_SERVICE;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)?;
    set_keep_capabilities(false)?;
    Ok(())
}
