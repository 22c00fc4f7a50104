//! Queries of the cases to the guest's kernel.

use std::path::Path;
use std::process::Command;

use penstock_sys::ktls::{self, Statistics};
use penstock_testkit::Setup;

/// A directory in memory for the files that are served: the host's files would be cold at each first request.
pub(crate) const ROOT: &str = "/run/served";

/// A server that has the kernel seal, serving [`ROOT`].
pub(crate) fn setup(kernel: &str) -> Setup {
    std::fs::create_dir_all(ROOT).unwrap();
    let tls = format!("certificates: [{{chain: ec.crt, key: ec.key}}]\nkernel: {kernel}");
    // Clients that offer both versions would speak HTTP/2.
    let listeners = ["tls: true, protocols: [h1]"];
    Setup::new().listeners(&listeners).tls(&tls).sites(&format!("- origin: {{directory: {ROOT}}}"))
}

/// A modprobe that finds the guest's modules.
const MODPROBE: &str = "/run/guest/modprobe";

/// Loads a module of the guest's kernel.
pub(crate) fn load(module: &str) {
    let status = Command::new(MODPROBE).arg(module).status().unwrap();
    assert!(status.success(), "modprobe {module}: {status}");
}

/// Loads all that the kernel needs to seal, and lets it load what these need in turn.
pub(crate) fn with_everything() {
    std::fs::write("/proc/sys/kernel/modprobe", MODPROBE).unwrap();
    ["tls", "gcm", "chacha20poly1305"].into_iter().for_each(load);
}

pub(crate) fn has_tls() -> bool {
    Path::new("/proc/net/tls_stat").exists()
}

pub(crate) fn statistics() -> Statistics {
    ktls::statistics().unwrap()
}

/// Nothing in this program receives by the kernel, so any such error would be a bug of its own.
pub(crate) fn no_decrypt_errors() {
    with_everything();
    assert_eq!(statistics().decrypt_errors, 0);
}
