//! Gives up root for the user of the configuration.
//!
//! Configuration, certificates and keys have been read as root by then. Everything that the server opens later, it opens
//! as the user: caches, logs, listeners. So nothing differs between the start and a reload.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use penstock_config::{Config, KernelTls, User};
use penstock_sys::ktls;
use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::failure::Failure;

mod hand_over;

use hand_over::{Missing, NotGiven};

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
            note(directory, user, hand_over::give_directory(directory, user, Missing::Make))?;
        }
    }
    if let Some(state) = config.fleet.as_ref().and_then(|fleet| fleet.state.as_ref()) {
        note(state, user, hand_over::give_directory(state, user, Missing::Leave))?;
    }
    if let Some(acme) = &config.tls.acme {
        note(&acme.storage, user, hand_over::give_directory(&acme.storage, user, Missing::Make))?;
    }
    // What is no file under the hands of this program is left alone: streams of the process, the socket of syslog.
    let log = config.log.access.as_ref().map(|log| &log.path);
    if let Some(log) = log.filter(|path| !is_socket(path)) {
        note(log, user, hand_over::give_log(log, user))?;
    }
    Ok(())
}

fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// Warns of a file that is not given, unless the user has it or can make it.
fn note(path: &Path, user: &User, given: Result<Option<NotGiven>, Errno>) -> Result<(), Failure> {
    let failed = |error: Errno| {
        Failure::machine(format!("give {} to {}", path.display(), user.name))(io::Error::from(error))
    };
    let Some(why) = given.map_err(failed)? else { return Ok(()) };
    let is_usable = match path.symlink_metadata() {
        Ok(found) => found.uid() == user.uid,
        Err(_) => why.belongs_to(user),
    };
    if !is_usable {
        let (path, name) = (path.display(), &user.name);
        tracing::warn!(
            "{path} is not given to {name}: {why}; give it to {name} yourself, or choose a directory that root alone can \
             change"
        );
    }
    Ok(())
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
