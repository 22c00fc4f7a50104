//! The kernel's description of its TLS; `ktls` tries whether it works.

use super::source::Source;
use super::text::{self, Setting};

/// The kernel's description of its TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelTls {
    /// Protocols that can be put on top of TCP now (`tcp_available_ulp`).
    pub protocols: Option<Vec<String>>,
    /// Where its code is.
    pub module: TlsModule,
    /// `CONFIG_TLS` of the running kernel.
    pub config: Option<Setting>,
    /// `CONFIG_TLS_DEVICE`: whether network cards may seal.
    pub device_config: Option<Setting>,
    /// The kernel's fastest code for AES-GCM, of that which is loaded.
    pub gcm_driver: Option<String>,
}

/// Where the code of the kernel's TLS is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsModule {
    /// Part of the kernel or loaded already.
    Present,
    /// A module that can be loaded.
    Loadable,
    /// Nowhere: the kernel was built without it, or its modules are not installed.
    Missing,
    /// The kernel does not say, for example in a container.
    #[default]
    Unknown,
}

impl KernelTls {
    pub(super) fn read(source: &Source, release: Option<&str>) -> Self {
        let release = release.filter(|release| is_one_name(release));
        let config = source.compressed_text("proc/config.gz").or_else(|| {
            let release = release?;
            source
                .text(&format!("boot/config-{release}"))
                .or_else(|| source.text(&format!("lib/modules/{release}/config")))
        });
        let setting = |name| config.as_deref().and_then(|config| text::kernel_setting(config, name));
        let protocols = source.line("proc/sys/net/ipv4/tcp_available_ulp").map(|line| text::words(&line));
        let config = setting("CONFIG_TLS");
        Self {
            module: module(source, release, protocols.as_deref(), config),
            protocols,
            config,
            device_config: setting("CONFIG_TLS_DEVICE"),
            gcm_driver: source
                .text("proc/crypto")
                .and_then(|crypto| text::crypto_driver(&crypto, "gcm(aes)")),
        }
    }
}

fn module(
    source: &Source,
    release: Option<&str>,
    protocols: Option<&[String]>,
    config: Option<Setting>,
) -> TlsModule {
    let listed = protocols.is_some_and(|protocols| protocols.iter().any(|name| name == "tls"));
    if listed || source.exists("sys/module/tls") || config == Some(Setting::BuiltIn) {
        return TlsModule::Present;
    }
    if config == Some(Setting::Off) {
        return TlsModule::Missing;
    }
    let list = |name: &str| source.text(&format!("lib/modules/{}/{name}", release?));
    if list("modules.builtin").is_some_and(|list| text::module_file(&list, "tls").is_some()) {
        return TlsModule::Present;
    }
    match list("modules.dep") {
        Some(list) if text::module_file(&list, "tls").is_some() => TlsModule::Loadable,
        Some(_) => TlsModule::Missing,
        None => TlsModule::Unknown,
    }
}

/// Whether a release can be part of a path without leading elsewhere.
fn is_one_name(release: &str) -> bool {
    !release.contains('/') && release != "." && release != ".."
}
