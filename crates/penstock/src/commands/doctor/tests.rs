use std::{env, fs};

use proptest::prelude::*;

use super::finding::{Finding, Rating};
use super::fixtures::{bare, fast, fresh};
use super::*;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.md");
const COMMAND: &str = "UPDATE_DOCS=1 cargo test -p penstock docs_doctor";

fn plain(report: &Report) -> String {
    table::render(report, &Style::new(false, true, COLUMNS))
}

/// The text without what colours it.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[test]
fn docs_doctor_md_shows_the_table_of_a_fresh_machine() {
    let table = plain(&Report::of(fresh())).replace(env!("PENSTOCK_VERSION"), "VERSION");
    let wanted = format!("<!-- Made by: {COMMAND} -->\n```\n{}\n```", table.trim_matches('\n'));
    let text = fs::read_to_string(PATH).unwrap();
    let start = text.find("<!-- Made by:").unwrap();
    let end = start + text[start..].find("\n```\n").unwrap() + 5;
    let end = end + text[end..].find("\n```").unwrap() + 4;
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(PATH, format!("{}{wanted}{}", &text[..start], &text[end..])).unwrap();
    } else {
        assert!(
            text[start..end] == wanted,
            "docs/doctor.md does not show the table; run: {COMMAND}\n{table}"
        );
    }
}

#[test]
fn a_machine_that_is_as_it_should_be_has_no_faults() {
    let report = Report::of(fast());
    let faults: Vec<_> = report.findings.iter().filter(|one| one.rating != Rating::Ok).collect();
    assert_eq!(faults, Vec::<&Finding>::new());
    assert_eq!(report.faults(), 0);
    let table = plain(&report);
    assert!(table.trim_end().ends_with(&format!("{} ok", report.findings.len())), "{table}");
    assert!(!table.contains("sysctl.d"), "there is nothing to keep: {table}");
}

#[test]
fn a_machine_that_tells_nothing_is_examined_all_the_same() {
    let report = Report::of(bare());
    let table = plain(&report);
    assert!(table.contains("not known"), "{table}");
    assert!(table.contains("The ciphers were not measured."), "{table}");
    assert!(json::document(&report)["machine"]["kernel"].is_null());
}

#[test]
fn colours_change_nothing_but_colours() {
    for facts in [bare(), fast(), fresh()] {
        let report = Report::of(facts);
        let coloured = table::render(&report, &Style::new(true, true, COLUMNS));
        assert!(coloured.contains("\x1b[1m"));
        let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        assert_eq!(lines(&without_colours(&coloured)), lines(&plain(&report)));
    }
}

#[test]
fn a_terminal_without_unicode_gets_ascii_only() {
    for facts in [bare(), fast(), fresh()] {
        let table = table::render(&Report::of(facts), &Style::new(false, false, COLUMNS));
        assert!(table.is_ascii(), "{table}");
    }
}

#[test]
fn every_line_but_a_command_fits_the_width() {
    for width in [72, 80, 96, 110] {
        for facts in [bare(), fast(), fresh()] {
            let report = Report::of(facts);
            let table = table::render(&report, &Style::new(false, true, width));
            let commands: Vec<_> = report.findings.iter().filter_map(|one| one.command.as_deref()).collect();
            for line in table.lines().filter(|line| !commands.contains(&line.trim().trim_start_matches("# ")))
            {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn names_of_findings_are_stable_and_only_interfaces_share_one() {
    let report = Report::of(fast());
    let mut names: Vec<_> = report.findings.iter().map(|one| one.name).collect();
    names.retain(|name| *name != "tls_offload");
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for name in names {
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c)), "{name}");
    }
}

#[test]
fn the_document_has_the_shape_that_is_documented() {
    let document = json::document(&Report::of(fast()));
    assert_eq!(document["schema"], 1);
    assert_eq!(document["machine"]["interfaces"][0]["tls_offload"], "on");
    assert_eq!(document["kernel_tls"]["accepts"][5]["cipher"], "chacha20_poly1305");
    let cipher = &document["ciphers"][0];
    assert_eq!(cipher["cipher"], "aes_128_gcm");
    assert_eq!(cipher["user_space_send_bytes_per_second"], 4.9e9);
    assert_eq!(cipher["auto"]["seals"], "kernel");
    assert_eq!(cipher["auto"]["reason"], "kernel_measured_faster");
    let fresh = json::document(&Report::of(fresh()));
    assert!(fresh["ciphers"][0]["kernel_send_bytes_per_second"].is_null());
    let findings = fresh["findings"].as_array().unwrap();
    let slow_start = findings.iter().find(|one| one["name"] == "net.ipv4.tcp_slow_start_after_idle").unwrap();
    assert_eq!(slow_start["verdict"], "better");
    assert_eq!(slow_start["better"], "0");
    assert_eq!(slow_start["command"], "sysctl -w net.ipv4.tcp_slow_start_after_idle=0");
    let total: u64 =
        ["ok", "better", "problem", "unknown"].iter().map(|key| fresh["counts"][key].as_u64().unwrap()).sum();
    assert_eq!(total, findings.len() as u64);
}

proptest! {
    #[test]
    fn no_number_makes_the_doctor_panic(
        pages in any::<Option<[u64; 3]>>(),
        buffers in any::<Option<[u64; 3]>>(),
        numbers in any::<[Option<u64>; 8]>(),
        nodes in any::<Option<usize>>(),
        text in "\\PC{0,60}",
        width in any::<usize>(),
    ) {
        let mut facts = fresh();
        let machine = &mut facts.machine;
        let [low_water, largest, queue, fast_open, slow_start, soft, hard, total] = numbers;
        machine.sysctls.tcp_memory_pages = pages;
        machine.sysctls.send_buffer = buffers;
        machine.sysctls.unsent_low_water = low_water;
        machine.sysctls.send_buffer_max = largest;
        machine.sysctls.accept_queue_max = queue;
        machine.sysctls.fast_open = fast_open;
        machine.sysctls.slow_start_after_idle = slow_start;
        machine.sysctls.congestion_control = Some(text.clone());
        machine.descriptors = penstock_sys::machine::Descriptors { soft, hard };
        machine.memory.total_bytes = total;
        machine.memory.page_bytes = total.unwrap_or(0);
        machine.memory.shm_bytes = total;
        machine.interfaces[0].megabits_per_second = total;
        machine.interfaces[0].name = text.clone();
        machine.cpu.model = Some(text);
        machine.numa_nodes = nodes;
        let report = Report::of(facts);
        let table = table::render(&report, &Style::new(true, true, width));
        prop_assert!(table.contains("Kernel TLS"));
        let written = json::document(&report).to_string();
        prop_assert!(serde_json::from_str::<serde_json::Value>(&written).is_ok());
    }
}
