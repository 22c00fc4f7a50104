use std::fs;

use proptest::collection::vec;
use proptest::prelude::*;

use super::text::*;
use super::*;

#[test]
fn this_machine_tells_about_itself() {
    let machine = Machine::read();
    assert!(machine.kernel_version.is_some(), "{machine:?}");
    assert!(machine.memory.total_bytes.is_some_and(|bytes| bytes > 1 << 20));
    assert!(machine.cpu.available.is_some_and(|count| count >= 1));
    assert!(machine.descriptors.soft.is_none_or(|limit| limit > 2));
    assert_ne!(machine.file_calls.openat2, ProbeAnswer::Unknown);
}

#[test]
fn a_machine_without_proc_and_sys_is_all_unknown_and_no_panic() {
    let empty = tempfile::tempdir().unwrap();
    let machine = Machine::read_from(&Source::at(empty.path()));
    assert_eq!(machine.kernel_release, None);
    assert_eq!(machine.kernel_tls, KernelTls::default());
    assert_eq!(machine.sysctls, Sysctls::default());
    assert_eq!(machine.interfaces, []);
    assert_eq!(machine.numa_nodes, None);
}

/// A machine with these files.
fn with_files(files: &[(&str, &[u8])]) -> Machine {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    Machine::read_from(&Source::at(root.path()))
}

const RELEASE: (&str, &[u8]) = ("proc/sys/kernel/osrelease", b"6.1.0-28-cloud-amd64\n");

#[test]
fn a_module_that_is_installed_can_be_loaded() {
    let list = b"kernel/net/tls/tls.ko.xz: kernel/x.ko.xz\n";
    let machine = with_files(&[RELEASE, ("lib/modules/6.1.0-28-cloud-amd64/modules.dep", list)]);
    assert_eq!(machine.kernel_tls.module, TlsModule::Loadable);
    assert_eq!(machine.kernel_version, Some(KernelVersion { major: 6, minor: 1 }));
}

#[test]
fn a_module_that_is_listed_as_protocol_is_present() {
    let machine = with_files(&[RELEASE, ("proc/sys/net/ipv4/tcp_available_ulp", b"espintcp mptcp tls\n")]);
    assert_eq!(machine.kernel_tls.module, TlsModule::Present);
}

#[test]
fn a_kernel_built_without_tls_is_missing_it_whatever_else_is_installed() {
    let machine = with_files(&[
        RELEASE,
        ("boot/config-6.1.0-28-cloud-amd64", b"CONFIG_TLS_DEVICE=y\n# CONFIG_TLS is not set\n"),
        ("lib/modules/6.1.0-28-cloud-amd64/modules.dep", b"kernel/net/tls/tls.ko:\n"),
    ]);
    assert_eq!(machine.kernel_tls.module, TlsModule::Missing);
    assert_eq!(machine.kernel_tls.config, Some(Setting::Off));
    assert_eq!(machine.kernel_tls.device_config, Some(Setting::BuiltIn));
}

#[test]
fn the_configuration_inside_the_kernel_is_read_through_gzip() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, b"CONFIG_TLS=m\n").unwrap();
    let machine = with_files(&[RELEASE, ("proc/config.gz", &gzip.finish().unwrap())]);
    assert_eq!(machine.kernel_tls.config, Some(Setting::Module));
    assert_eq!(machine.kernel_tls.module, TlsModule::Unknown, "its modules are elsewhere");
}

#[test]
fn a_release_that_is_a_path_leads_nowhere() {
    let machine = with_files(&[
        ("proc/sys/kernel/osrelease", b"../../secret\n"),
        ("secret/modules.dep", b"kernel/net/tls/tls.ko:\n"),
    ]);
    assert_eq!(machine.kernel_tls.module, TlsModule::Unknown);
}

#[test]
fn the_driver_of_the_highest_priority_is_the_one_that_is_used() {
    let crypto = "name : gcm(aes)\ndriver : gcm_base(ctr(aes-generic),ghash-generic)\npriority : 100\n\n\
                  name : gcm(aes)\ndriver : generic-gcm-vaes-avx512\npriority : 800\n\n\
                  name : ctr(aes)\ndriver : other\npriority : 900\n";
    assert_eq!(crypto_driver(crypto, "gcm(aes)").as_deref(), Some("generic-gcm-vaes-avx512"));
    assert_eq!(crypto_driver(crypto, "xts(aes)"), None);
}

#[test]
fn an_arm_processor_is_named_by_its_numbers() {
    let cpuinfo = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
    assert_eq!(cpu_model(cpuinfo).as_deref(), Some("implementer 0x41, part 0xd0c"));
    assert_eq!(cpu_model("model name\t: AMD EPYC\x1b[31m 7R13\n").as_deref(), Some("AMD EPYC[31m 7R13"));
}

#[test]
fn numbers_are_counted_strictly() {
    assert_eq!(numbers::<3>("1\t2\t3"), Some([1, 2, 3]));
    assert_eq!(numbers::<3>("1 2"), None);
    assert_eq!(numbers::<1>("-1"), None);
}

proptest! {
    #[test]
    fn no_parser_panics_whatever_the_kernel_writes(text in "(?s).{0,300}") {
        let _ = (
            KernelVersion::parse(&text), chosen(&text), memory_total(&text), cpu_model(&text),
            kernel_setting(&text, "CONFIG_TLS"), module_file(&text, "tls"), crypto_driver(&text, "gcm(aes)"),
            numbers::<3>(&text), words(&text),
        );
    }

    #[test]
    fn no_parser_panics_on_text_that_is_almost_right(
        text in "(MemTotal:|model name|CPU part|name|driver|priority|CONFIG_TLS|# CONFIG_TLS is not set|[0-9]{1,25}|[:=\\[\\]\n\t /.-]|gcm\\(aes\\)|tls\\.ko|kB){0,40}",
    ) {
        let _ = (
            KernelVersion::parse(&text), chosen(&text), memory_total(&text), cpu_model(&text),
            kernel_setting(&text, "CONFIG_TLS"), module_file(&text, "tls"), crypto_driver(&text, "gcm(aes)"),
            numbers::<3>(&text), words(&text),
        );
    }
}

proptest! {
    // Each case is a directory of files.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn text_of_the_system_can_be_printed(bytes in vec(any::<u8>(), 0..300)) {
        let machine = with_files(&[
            ("proc/sys/kernel/osrelease", &bytes),
            ("proc/cpuinfo", &bytes),
            ("proc/config.gz", &bytes),
            ("proc/crypto", &bytes),
            ("proc/meminfo", &bytes),
            ("proc/sys/net/ipv4/tcp_congestion_control", &bytes),
            ("proc/sys/net/ipv4/tcp_available_ulp", &bytes),
            ("proc/sys/net/ipv4/tcp_mem", &bytes),
            ("sys/kernel/mm/transparent_hugepage/enabled", &bytes),
            ("sys/class/net/eth0/device/x", &bytes),
            ("sys/class/net/eth0/speed", &bytes),
        ]);
        let texts = [&machine.kernel_release, &machine.cpu.model, &machine.sysctls.congestion_control];
        for text in texts.into_iter().flatten() {
            prop_assert!(!text.chars().any(char::is_control));
            prop_assert!(text.chars().count() <= 200);
        }
    }
}
