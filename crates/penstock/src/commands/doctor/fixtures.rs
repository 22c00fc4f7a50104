//! Machines to examine.

use penstock_egress::measure::{Cost, Costs, Rate};
use penstock_sys::aead::Cipher;
use penstock_sys::ktls::{Statistics, Support};
use penstock_sys::machine::{
    Cpu, CpuFeature, Descriptors, FileCalls, Interface, KernelTls, KernelVersion, Machine, Memory, Offload,
    ProbeAnswer, Setting, Sysctls, TlsModule,
};
use penstock_sys::traffic::ProtocolVersion;

use super::facts::{Configuration, Facts};

/// A machine that tells nothing.
pub(super) fn bare() -> Facts {
    let machine = Machine::default();
    Facts {
        machine,
        aes_hardware: false,
        support: None,
        statistics: None,
        costs: None,
        removes_ipc: None,
        uid: 998,
        configuration: Configuration::default(),
    }
}

fn cost(seal: f64, send: f64, kernel: f64) -> Cost {
    Cost {
        user_space_seal: Rate::new(seal),
        user_space_send: Rate::new(send),
        kernel_send: Rate::new(kernel),
        kernel_send_frames: Rate::new(kernel * 0.9),
    }
}

/// A machine on which everything is as it should be.
pub(super) fn fast() -> Facts {
    let ciphers = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];
    let accepted = [ProtocolVersion::Tls12, ProtocolVersion::Tls13]
        .into_iter()
        .flat_map(|version| ciphers.map(|cipher| (version, cipher)));
    Facts {
        machine: Machine {
            kernel_release: Some("6.19.2".into()),
            kernel_version: Some(KernelVersion { major: 6, minor: 19 }),
            cpu: cpu(),
            kernel_tls: KernelTls {
                protocols: Some(vec!["mptcp".into(), "tls".into()]),
                module: TlsModule::Present,
                config: Some(Setting::Module),
                device_config: Some(Setting::BuiltIn),
                gcm_driver: Some("generic-gcm-vaes-avx2".into()),
            },
            interfaces: vec![Interface {
                name: "eth0".into(),
                driver: Some("mlx5_core".into()),
                megabits_per_second: Some(25_000),
                tls_offload: Offload::On,
                udp_segmentation: Offload::Absent,
            }],
            sysctls: sysctls(),
            descriptors: Descriptors { soft: Some(1024), hard: Some(1 << 20) },
            memory: Memory {
                total_bytes: Some(64 << 30),
                page_bytes: 4096,
                huge_pages: Some("madvise".into()),
                shared_huge_pages: Some("advise".into()),
                shm_bytes: Some(32 << 30),
            },
            file_calls: FileCalls {
                openat2: ProbeAnswer::Yes,
                cachestat: ProbeAnswer::Yes,
                read_without_waiting: ProbeAnswer::Yes,
            },
            clock_source: Some("tsc".into()),
            clock_sources: vec!["tsc".into(), "hpet".into(), "acpi_pm".into()],
            numa_nodes: Some(1),
        },
        aes_hardware: true,
        support: Some(Support { ulp: true, accepted: accepted.collect(), rekey: true }),
        statistics: Some(Statistics::default()),
        costs: Some(Costs {
            aes_128_gcm: cost(7.8e9, 4.9e9, 6.1e9),
            aes_256_gcm: cost(6.9e9, 4.5e9, 5.6e9),
            chacha20_poly1305: cost(2.4e9, 1.9e9, 1.4e9),
        }),
        removes_ipc: Some(false),
        uid: 998,
        configuration: Configuration::default(),
    }
}

fn cpu() -> Cpu {
    Cpu {
        model: Some("AMD EPYC 7763 64-Core Processor".into()),
        architecture: "x86_64",
        available: Some(16),
        features: vec![
            CpuFeature::Aes,
            CpuFeature::CarrylessMultiply,
            CpuFeature::Vaes,
            CpuFeature::VectorCarrylessMultiply,
            CpuFeature::Avx2,
            CpuFeature::Sha,
        ],
    }
}

fn sysctls() -> Sysctls {
    Sysctls {
        congestion_control: Some("bbr".into()),
        congestion_controls: vec!["reno".into(), "cubic".into(), "bbr".into()],
        queueing: Some("fq".into()),
        unsent_low_water: Some(u64::from(u32::MAX)),
        tcp_memory_pages: Some([1_000_000, 1_500_000, 2_000_000]),
        send_buffer: Some([4096, 16384, 16_777_216]),
        send_buffer_max: Some(16_777_216),
        receive_buffer_max: Some(16_777_216),
        accept_queue_max: Some(4096),
        fast_open: Some(3),
        slow_start_after_idle: Some(0),
    }
}

/// A fresh virtual machine with Debian 12, as an operator finds it.
pub(super) fn fresh() -> Facts {
    let mut facts = fast();
    let machine = &mut facts.machine;
    machine.kernel_release = Some("6.1.0-28-cloud-amd64".into());
    machine.kernel_version = Some(KernelVersion { major: 6, minor: 1 });
    machine.cpu.available = Some(4);
    machine.kernel_tls.protocols = Some(vec!["mptcp".into()]);
    machine.kernel_tls.module = TlsModule::Loadable;
    machine.kernel_tls.gcm_driver = None;
    machine.interfaces = vec![Interface {
        name: "ens3".into(),
        driver: Some("virtio_net".into()),
        megabits_per_second: None,
        tls_offload: Offload::Absent,
        udp_segmentation: Offload::Absent,
    }];
    machine.sysctls.congestion_control = Some("cubic".into());
    machine.sysctls.congestion_controls = vec!["reno".into(), "cubic".into()];
    machine.sysctls.queueing = Some("fq_codel".into());
    machine.sysctls.tcp_memory_pages = Some([46_437, 61_919, 92_874]);
    machine.sysctls.send_buffer = Some([4096, 16384, 4_194_304]);
    machine.sysctls.send_buffer_max = Some(212_992);
    machine.sysctls.receive_buffer_max = Some(212_992);
    machine.sysctls.fast_open = Some(1);
    machine.sysctls.slow_start_after_idle = Some(1);
    machine.descriptors.hard = Some(524_288);
    machine.memory.total_bytes = Some(8 << 30);
    machine.memory.shm_bytes = Some(4 << 30);
    machine.memory.shared_huge_pages = Some("never".into());
    machine.file_calls.cachestat = ProbeAnswer::No;
    machine.clock_source = Some("kvm-clock".into());
    facts.support = Some(Support::default());
    facts.statistics = None;
    facts.removes_ipc = Some(true);
    facts.costs = Some(Costs {
        aes_128_gcm: Cost { kernel_send: None, ..cost(7.8e9, 4.9e9, 0.0) },
        aes_256_gcm: Cost { kernel_send: None, ..cost(6.9e9, 4.5e9, 0.0) },
        chacha20_poly1305: Cost { kernel_send: None, ..cost(2.4e9, 1.9e9, 0.0) },
    });
    facts
}
