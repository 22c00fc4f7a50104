//! Whether the kernel can seal, and how well.

use penstock_egress::measure::CIPHERS;
use penstock_sys::ktls::Support;
use penstock_sys::machine::{CpuFeature, Interface, KernelVersion, Offload, Setting, TlsModule};
use penstock_sys::traffic::ProtocolVersion;

use crate::commands::doctor::facts::{Facts, cipher_name};
use crate::commands::doctor::finding::{Finding, Section};

/// Changes keys on a connection.
const REKEYS: KernelVersion = KernelVersion { major: 6, minor: 14 };
/// Seals AES-GCM with VAES where there is no AVX-512.
const VAES_WITHOUT_AVX512: KernelVersion = KernelVersion { major: 6, minor: 19 };

const LOAD: &str = "modprobe tls && echo tls > /etc/modules-load.d/penstock.conf";

pub(super) fn examine(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![kernel(facts), protocol(facts)];
    if let Some(support) = facts.support.as_ref().filter(|support| support.ulp) {
        findings.push(accepted(support));
        findings.push(rekey(support));
    }
    findings.extend(driver(facts));
    findings.extend(facts.machine.interfaces.iter().map(|interface| card(interface, facts)));
    findings
}

fn finding(name: &'static str, what: &str, value: impl Into<String>, why: &str) -> Finding {
    Finding::ok(Section::KernelTls, name, what, value, why)
}

fn kernel(facts: &Facts) -> Finding {
    let why = "Linux 6.19 seals AES-GCM faster on CPUs with VAES and without AVX-512";
    let Some(release) = &facts.machine.kernel_release else {
        return Finding::unknown(Section::KernelTls, "kernel", "kernel", why);
    };
    let cpu = &facts.machine.cpu;
    let waits_for_6_19 = cpu.has(CpuFeature::Vaes) && !cpu.has(CpuFeature::Avx512);
    let version = facts.machine.kernel_version;
    let old = waits_for_6_19 && version.is_some_and(|version| version < VAES_WITHOUT_AVX512);
    let wanted = format!("{VAES_WITHOUT_AVX512} or later");
    finding("kernel", "kernel", release, why).better_if(old, wanted, "")
}

fn protocol(facts: &Facts) -> Finding {
    let why = "with it file pages go to the network card without entering Penstock; without it Penstock seals them \
               itself";
    let tls = |value: &str| finding("tls", "tls", value, why);
    if facts.has_kernel_tls() {
        return tls("ready");
    }
    let told = &facts.machine.kernel_tls;
    match told.module {
        TlsModule::Loadable => tls("module not loaded").better_if(true, "loaded", LOAD),
        TlsModule::Missing if told.config == Some(Setting::Off) => {
            tls("not in this kernel").better_if(true, "a kernel with CONFIG_TLS", "")
        }
        // Loading a module that is not there would fail.
        TlsModule::Missing => tls("module not installed").better_if(true, "the kernel's extra modules", ""),
        TlsModule::Present => tls("there, but refused").better_if(true, "allowed by the container", ""),
        TlsModule::Unknown => tls("not loaded").better_if(true, "loaded", LOAD),
    }
}

fn accepted(support: &Support) -> Finding {
    let why = "connections with other ciphers are sealed in user space";
    let both = |cipher| {
        support.accepts(ProtocolVersion::Tls12, cipher) && support.accepts(ProtocolVersion::Tls13, cipher)
    };
    let (taken, refused): (Vec<_>, Vec<_>) = CIPHERS.into_iter().partition(|cipher| both(*cipher));
    let names = |ciphers: Vec<_>| ciphers.into_iter().map(cipher_name).collect::<Vec<_>>().join(", ");
    let value = if taken.is_empty() { "none".to_owned() } else { names(taken) };
    let missing = !refused.is_empty();
    finding("tls_ciphers", "ciphers", value, why).better_if(
        missing,
        format!("{} too", names(refused)),
        "modprobe -a gcm chacha20poly1305",
    )
}

fn rekey(support: &Support) -> Finding {
    let why = "without it a client that asks for new keys is answered and then has to reconnect";
    let value = if support.rekey { "yes" } else { "no" };
    let wanted = format!("Linux {REKEYS} or later");
    finding("tls_rekey", "new keys", value, why).better_if(!support.rekey, wanted, "")
}

/// The kernel reports only drivers that are loaded.
fn driver(facts: &Facts) -> Option<Finding> {
    let driver = facts.machine.kernel_tls.gcm_driver.as_ref()?;
    let why = "generic code is many times slower than the CPU's AES instructions";
    let generic = driver.contains("generic)") || driver.contains("fixed-time");
    let module =
        if facts.machine.cpu.architecture == "aarch64" { "aes_ce_blk ghash_ce" } else { "aesni_intel" };
    let command = format!("modprobe -a {module}");
    let slow = generic && facts.aes_hardware;
    Some(finding("tls_gcm_driver", "kernel's AES-GCM", driver, why).better_if(
        slow,
        "the CPU's AES instructions",
        command,
    ))
}

fn card(interface: &Interface, facts: &Facts) -> Finding {
    let why = "a card that seals leaves the CPU nothing to do but point at pages";
    let speed = interface.megabits_per_second.map(|megabits| {
        if megabits >= 1000 { format!("{} Gbit/s", megabits / 1000) } else { format!("{megabits} Mbit/s") }
    });
    let described: Vec<String> = interface.driver.iter().cloned().chain(speed).collect();
    let described = if described.is_empty() { String::new() } else { format!(" ({})", described.join(", ")) };
    let off = interface.tls_offload == Offload::Off;
    let state = match interface.tls_offload {
        Offload::On => "seals TLS",
        Offload::Off => "could seal TLS",
        Offload::Absent => "cannot seal TLS",
        Offload::Unknown => "does not say whether it seals TLS",
    };
    let in_kernel = facts.machine.kernel_tls.device_config != Some(Setting::Off);
    let command = format!("ethtool -K {} tls-hw-tx-offload on", interface.name);
    let value = format!("{state}{described}");
    finding("tls_offload", &interface.name, value, why).better_if(off && in_kernel, "on", command)
}

#[cfg(test)]
mod tests {
    use penstock_sys::aead::Cipher;

    use super::*;
    use crate::commands::doctor::finding::Rating;
    use crate::commands::doctor::fixtures::{bare, fast};

    #[test]
    fn a_module_that_can_be_loaded_comes_with_the_command() {
        let mut facts = bare();
        facts.machine.kernel_tls.module = TlsModule::Loadable;
        let found = protocol(&facts);
        assert_eq!(found.rating, Rating::Better("loaded".into()));
        assert_eq!(found.command.as_deref(), Some(LOAD));
    }

    #[test]
    fn a_module_that_is_not_there_is_not_to_be_loaded() {
        let mut facts = bare();
        facts.machine.kernel_tls.module = TlsModule::Missing;
        let found = protocol(&facts);
        assert_eq!(found.rating, Rating::Better("the kernel's extra modules".into()));
        assert_eq!(found.command, None);
    }

    #[test]
    fn a_kernel_without_tls_is_not_told_to_load_it() {
        let mut facts = bare();
        facts.machine.kernel_tls.module = TlsModule::Missing;
        facts.machine.kernel_tls.config = Some(Setting::Off);
        let found = protocol(&facts);
        assert_eq!(found.rating, Rating::Better("a kernel with CONFIG_TLS".into()));
        assert_eq!(found.command, None);
    }

    #[test]
    fn a_cipher_that_only_one_version_takes_counts_as_missing() {
        let support = Support {
            ulp: true,
            accepted: vec![
                (ProtocolVersion::Tls12, Cipher::Aes128Gcm),
                (ProtocolVersion::Tls13, Cipher::Aes128Gcm),
                (ProtocolVersion::Tls13, Cipher::Aes256Gcm),
            ],
            rekey: true,
        };
        let found = accepted(&support);
        assert_eq!(found.value, "AES-128-GCM");
        assert_eq!(found.rating, Rating::Better("AES-256-GCM, ChaCha20-Poly1305 too".into()));
    }

    #[test]
    fn generic_code_is_named_only_where_the_cpu_could_do_better() {
        let mut facts = fast();
        facts.machine.kernel_tls.gcm_driver = Some("gcm_base(ctr(aes-generic),ghash-generic)".into());
        assert!(matches!(driver(&facts).unwrap().rating, Rating::Better(_)));
        facts.aes_hardware = false;
        assert_eq!(driver(&facts).unwrap().rating, Rating::Ok);
        facts.machine.kernel_tls.gcm_driver = Some("generic-gcm-vaes-avx10_512".into());
        facts.aes_hardware = true;
        assert_eq!(driver(&facts).unwrap().rating, Rating::Ok);
    }

    #[test]
    fn a_card_is_switched_on_only_if_the_kernel_was_built_for_it() {
        let mut facts = bare();
        let interface = Interface {
            name: "eth1".into(),
            driver: Some("mlx5_core".into()),
            megabits_per_second: Some(100_000),
            tls_offload: Offload::Off,
            udp_segmentation: Offload::Absent,
        };
        let found = card(&interface, &facts);
        assert_eq!(found.value, "could seal TLS (mlx5_core, 100 Gbit/s)");
        assert_eq!(found.command.as_deref(), Some("ethtool -K eth1 tls-hw-tx-offload on"));
        facts.machine.kernel_tls.device_config = Some(Setting::Off);
        assert_eq!(card(&interface, &facts).rating, Rating::Ok);
    }
}
