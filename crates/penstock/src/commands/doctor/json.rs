//! The report for programs. `docs/doctor.md` describes it; a change of meaning gets another `schema`.

use penstock_egress::Traffic;
use penstock_egress::measure::{CIPHER_LABELS, CIPHERS, Rate};
use penstock_sys::aead::Cipher;
use penstock_sys::machine::{CpuFeature, Interface, Offload};
use penstock_sys::traffic::ProtocolVersion;
use serde_json::{Value, json};

use super::auto::{self, SealingChoice};
use super::facts::Facts;
use super::finding::Finding;
use super::report::Report;

/// The version of the shape.
const SCHEMA: u32 = 1;

pub(crate) fn document(report: &Report) -> Value {
    let facts = &report.facts;
    let machine = &facts.machine;
    let features: Vec<_> = machine.cpu.features.iter().map(|feature| CpuFeature::name(*feature)).collect();
    let count = |label: &str| report.findings.iter().filter(|one| one.rating.label() == label).count();
    json!({
        "schema": SCHEMA,
        "version": env!("PENSTOCK_VERSION"),
        "machine": {
            "kernel": machine.kernel_release,
            "architecture": machine.cpu.architecture,
            "cpu": machine.cpu.model,
            "cpus": machine.cpu.available,
            "cpu_features": features,
            "memory_bytes": machine.memory.total_bytes,
            "interfaces": machine.interfaces.iter().map(interface).collect::<Vec<_>>(),
        },
        "kernel_tls": kernel_tls(facts),
        "ciphers": ciphers(facts),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "counts": {
            "ok": count("ok"),
            "better": count("better"),
            "problem": count("problem"),
            "unknown": count("unknown"),
        },
    })
}

fn interface(interface: &Interface) -> Value {
    let state = |offload| match offload {
        Offload::On => "on",
        Offload::Off => "off",
        Offload::Absent => "absent",
        Offload::Unknown => "unknown",
    };
    json!({
        "name": interface.name,
        "driver": interface.driver,
        "megabits_per_second": interface.megabits_per_second,
        "tls_offload": state(interface.tls_offload),
        "udp_segmentation": state(interface.udp_segmentation),
    })
}

/// Null if the kernel could not be asked.
fn kernel_tls(facts: &Facts) -> Value {
    let Some(support) = &facts.support else { return Value::Null };
    let accepted = support.accepted.iter().map(|(version, cipher)| {
        let version = match version {
            ProtocolVersion::Tls12 => "1.2",
            ProtocolVersion::Tls13 => "1.3",
        };
        json!({ "version": version, "cipher": label(*cipher) })
    });
    json!({
        "available": support.ulp,
        "accepts": accepted.collect::<Vec<_>>(),
        "rekey": support.rekey,
    })
}

fn ciphers(facts: &Facts) -> Vec<Value> {
    let choice = |cipher, traffic| {
        let choices = auto::choices(facts, traffic)?;
        choices.iter().find(|choice| choice.cipher == cipher).map(auto_choice)
    };
    let speed = |rate: Option<Rate>| rate.map(|rate| rate.bytes_per_second().round());
    let describe = |cipher| {
        let cost = facts.costs.map(|costs| *costs.of(cipher)).unwrap_or_default();
        json!({
            "cipher": label(cipher),
            "user_space_seal_bytes_per_second": speed(cost.user_space_seal),
            "user_space_send_bytes_per_second": speed(cost.user_space_send),
            "kernel_send_bytes_per_second": speed(cost.kernel_send),
            "kernel_send_frames_bytes_per_second": speed(cost.kernel_send_frames),
            "auto": choice(cipher, Traffic::Files),
            "auto_http2": choice(cipher, Traffic::Frames),
        })
    };
    CIPHERS.into_iter().map(describe).collect()
}

fn auto_choice(choice: &SealingChoice) -> Value {
    json!({ "seals": if choice.kernel { "kernel" } else { "user_space" }, "reason": choice.reason })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "section": finding.section.label(),
        "name": finding.name,
        "what": finding.what,
        "value": finding.value,
        "verdict": finding.rating.label(),
        "better": finding.rating.wanted(),
        "why": finding.why,
        "command": finding.command,
    })
}

fn label(cipher: Cipher) -> &'static str {
    CIPHERS
        .iter()
        .position(|known| *known == cipher)
        .and_then(|at| CIPHER_LABELS.get(at))
        .copied()
        .unwrap_or("other")
}
