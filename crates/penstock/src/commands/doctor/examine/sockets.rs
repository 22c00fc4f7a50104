//! Settings of the network stack.

use penstock_config::limits;
use penstock_sys::machine::Sysctls;

use crate::commands::doctor::facts::{Facts, bytes_text};
use crate::commands::doctor::finding::{Finding, Section};

/// A network card whose speed is not known counts as one of 10 Gbit/s.
const MEGABITS_PER_SECOND: u64 = 10_000;

/// How long bytes stay in the kernel until they are acknowledged, on a long path.
const ROUND_TRIP_MILLISECONDS: u64 = 200;

/// Memory that a byte in a socket takes, with the kernel's own records.
const OVERHEAD: u64 = 2;

/// 64 Mbit/s at a round trip of half a second.
const SEND_BUFFER_BYTES: u64 = 4 * limits::MIB;

/// `tcp_notsent_lowat` without a limit.
const UNLIMITED: u64 = u32::MAX as u64;

/// The bit of `tcp_fastopen` for servers.
const FAST_OPEN_SERVER: u64 = 2;

pub(super) fn examine(facts: &Facts) -> Vec<Finding> {
    let sysctls = &facts.machine.sysctls;
    vec![
        congestion_control(sysctls),
        queueing(sysctls),
        slow_start(sysctls),
        unsent(sysctls),
        memory(facts),
        send_buffer(sysctls),
        send_buffer_max(facts),
        accept_queue(sysctls),
        fast_open(sysctls),
    ]
}

fn setting(name: &'static str, value: Option<String>, why: &str) -> Finding {
    let what = name.rsplit('.').next().unwrap_or(name);
    match value {
        Some(value) => Finding::ok(Section::Sockets, name, what, value, why),
        None => Finding::unknown(Section::Sockets, name, what, why),
    }
}

fn congestion_control(sysctls: &Sysctls) -> Finding {
    let name = "net.ipv4.tcp_congestion_control";
    let current = sysctls.congestion_control.clone();
    let loss_based = current.as_ref().is_some_and(|current| !current.starts_with("bbr"));
    let load = if sysctls.congestion_controls.iter().any(|known| known == "bbr") {
        ""
    } else {
        "modprobe tcp_bbr && "
    };
    setting(name, current, "after a lost packet on a long path bbr keeps its rate where others halve it; a listener can have its own with \
         congestion_control:")
        .better_if(
            loss_based,
            "bbr",
            format!("{load}sysctl -w {name}=bbr"),
        )
}

fn queueing(sysctls: &Sysctls) -> Finding {
    let name = "net.core.default_qdisc";
    let current = sysctls.queueing.clone();
    let is_bbr = sysctls.congestion_control.as_ref().is_some_and(|control| control.starts_with("bbr"));
    let paces = current.as_ref().is_none_or(|current| current == "fq");
    let fifo = current.as_ref().is_some_and(|current| !current.starts_with("fq") && current != "cake");
    let why = if is_bbr && !paces {
        "without fq, bbr paces each connection by a timer of its own, in small pieces: a large file takes two to three times \
         the CPU time; counts for interfaces that come up later"
    } else {
        "keeps one viewer from delaying the others, and paces bbr cheaply; counts for interfaces that come up later"
    };
    setting(name, current, why).better_if(fifo || (is_bbr && !paces), "fq", format!("sysctl -w {name}=fq"))
}

fn slow_start(sysctls: &Sysctls) -> Finding {
    let name = "net.ipv4.tcp_slow_start_after_idle";
    let current = sysctls.slow_start_after_idle;
    let value = current.map(|value| value.to_string());
    setting(name, value, "players pause between segments; with 1 each segment starts again with ten packets")
        .better_if(current.is_some_and(|value| value != 0), "0", format!("sysctl -w {name}=0"))
}

/// Nothing to advise: every listener sets its own.
fn unsent(sysctls: &Sysctls) -> Finding {
    let value = sysctls.unsent_low_water.map(|bytes| {
        let system = if bytes >= UNLIMITED { "unlimited".to_owned() } else { bytes_text(bytes) };
        let own = bytes_text(u64::from(limits::UNSENT_LOW_WATER_BYTES));
        format!("{system}; listeners set their own ({own})")
    });
    let why = "bounds what lies unsent in the kernel for a slow viewer; unsent_low_water: of a listener overrides it";
    setting("net.ipv4.tcp_notsent_lowat", value, why)
}

/// Enough for the fastest card at a long round trip, but never more than a quarter of the memory.
fn memory(facts: &Facts) -> Finding {
    let name = "net.ipv4.tcp_mem";
    let why = "all of TCP shares this; when it is used up, windows shrink and every viewer slows down";
    let page = facts.machine.memory.page_bytes.max(1);
    let current = facts.machine.sysctls.tcp_memory_pages.map(|[_, _, high]| high.saturating_mul(page));
    let fastest = facts.machine.interfaces.iter().filter_map(|interface| interface.megabits_per_second).max();
    let bytes_per_second = fastest.unwrap_or(MEGABITS_PER_SECOND).saturating_mul(1_000_000 / 8);
    let in_flight = bytes_per_second / 1000 * ROUND_TRIP_MILLISECONDS;
    let quarter = facts.machine.memory.total_bytes.map_or(u64::MAX, |total| total / 4);
    let wanted = in_flight.saturating_mul(OVERHEAD).min(quarter);
    let pages = wanted / page;
    let command = format!("sysctl -w {name}='{} {} {pages}'", pages / 2, pages / 4 * 3);
    let little = current.is_some_and(|current| current < wanted / page * page);
    setting(name, current.map(bytes_text), why).better_if(little, bytes_text(wanted), command)
}

fn send_buffer(sysctls: &Sysctls) -> Finding {
    let name = "net.ipv4.tcp_wmem";
    let why = "one viewer gets at most this much per round trip: 4 MiB are 64 Mbit/s at half a second";
    let value = sysctls.send_buffer.map(|[_, _, most]| format!("up to {}", bytes_text(most)));
    let [least, first, most] = sysctls.send_buffer.unwrap_or([0, 0, SEND_BUFFER_BYTES]);
    let command = format!("sysctl -w {name}='{least} {first} {SEND_BUFFER_BYTES}'");
    setting(name, value, why).better_if(most < SEND_BUFFER_BYTES, bytes_text(SEND_BUFFER_BYTES), command)
}

/// Autotuning of TCP, which is the default, does not look at it: nothing to advise without HTTP/3.
fn send_buffer_max(facts: &Facts) -> Finding {
    let name = "net.core.wmem_max";
    let why = "send_buffer: of a listener is cut to this; autotuning, the default, is not";
    let current = facts.machine.sysctls.send_buffer_max;
    if facts.configuration.quic.is_some() {
        return super::quic::buffer(name, current, "what the socket of a worker does not take has to wait");
    }
    setting(name, current.map(|bytes| format!("{}; only for send_buffer:", bytes_text(bytes))), why)
}

fn accept_queue(sysctls: &Sysctls) -> Finding {
    let name = "net.core.somaxconn";
    let why = "connections that wait to be accepted when a live event starts; backlog: is cut to this";
    let current = sysctls.accept_queue_max;
    let wanted = u64::from(limits::BACKLOG);
    setting(name, current.map(|queue| queue.to_string()), why).better_if(
        current.is_some_and(|queue| queue < wanted),
        wanted.to_string(),
        format!("sysctl -w {name}={wanted}"),
    )
}

/// Nothing to advise: no browser uses it any more, and it is off unless a listener asks for it.
fn fast_open(sysctls: &Sysctls) -> Finding {
    let why = "fast_open: of a listener has no effect without bit 2; few clients ask for it";
    let value = sysctls.fast_open.map(|bits| {
        let servers = if bits & FAST_OPEN_SERVER != 0 { "servers may" } else { "not for servers" };
        format!("{bits}, {servers}; only for fast_open:")
    });
    setting("net.ipv4.tcp_fastopen", value, why)
}

#[cfg(test)]
mod tests {
    use penstock_sys::machine::{Interface, Offload};

    use super::*;
    use crate::commands::doctor::finding::Rating;
    use crate::commands::doctor::fixtures::{bare, fast};

    #[test]
    fn settings_that_the_kernel_hides_are_unknown() {
        for found in examine(&bare()) {
            assert_eq!(found.rating, Rating::Unknown, "{}", found.name);
            assert_eq!(found.command, None);
        }
    }

    #[test]
    fn bbr_is_loaded_only_where_it_is_missing() {
        let mut sysctls = Sysctls { congestion_control: Some("cubic".into()), ..Sysctls::default() };
        assert!(congestion_control(&sysctls).command.unwrap().starts_with("modprobe tcp_bbr && sysctl -w"));
        sysctls.congestion_controls = vec!["reno".into(), "bbr".into()];
        assert!(congestion_control(&sysctls).command.unwrap().starts_with("sysctl -w"));
        sysctls.congestion_control = Some("bbr".into());
        assert_eq!(congestion_control(&sysctls).rating, Rating::Ok);
    }

    #[test]
    fn bbr_needs_fq_and_others_only_fairness() {
        let with = |control: &str, qdisc: &str| {
            let (congestion_control, queueing_discipline) = (Some(control.into()), Some(qdisc.into()));
            queueing(&Sysctls { congestion_control, queueing: queueing_discipline, ..Sysctls::default() })
        };
        let fq = Rating::Better("fq".into());
        for (control, qdisc, rating) in [
            ("bbr", "fq_codel", &fq),
            ("bbr", "cake", &fq),
            ("bbr", "fq", &Rating::Ok),
            ("cubic", "fq_codel", &Rating::Ok),
            ("cubic", "pfifo_fast", &fq),
        ] {
            assert_eq!(&with(control, qdisc).rating, rating, "{control}, {qdisc}");
        }
        assert!(with("bbr", "pfifo_fast").why.contains("CPU time"));
        assert_eq!(
            queueing(&Sysctls { congestion_control: Some("bbr".into()), ..Sysctls::default() }).rating,
            Rating::Unknown
        );
    }

    #[test]
    fn memory_for_tcp_follows_the_fastest_card() {
        let mut facts = fast();
        facts.machine.memory.page_bytes = 4096;
        facts.machine.memory.total_bytes = Some(256 * limits::GIB);
        facts.machine.interfaces = vec![Interface {
            name: "eth0".into(),
            driver: None,
            megabits_per_second: Some(100_000),
            tls_offload: Offload::Absent,
            udp_segmentation: Offload::Absent,
        }];
        facts.machine.sysctls.tcp_memory_pages = Some([1, 2, 1_220_703]);
        let found = memory(&facts);
        assert_eq!(found.rating, Rating::Ok, "100 Gbit/s for 0.2 s, twice: 5 GB");
        facts.machine.sysctls.tcp_memory_pages = Some([1, 2, 1_220_702]);
        let found = memory(&facts);
        assert_eq!(found.rating, Rating::Better("4.6 GiB".into()));
        assert_eq!(found.command.as_deref(), Some("sysctl -w net.ipv4.tcp_mem='610351 915525 1220703'"));
    }

    #[test]
    fn a_small_machine_keeps_three_quarters_of_its_memory() {
        let mut facts = fast();
        facts.machine.memory.page_bytes = 4096;
        facts.machine.memory.total_bytes = Some(limits::GIB);
        facts.machine.interfaces = Vec::new();
        facts.machine.sysctls.tcp_memory_pages = Some([1, 2, 100]);
        assert_eq!(memory(&facts).rating, Rating::Better("256 MiB".into()));
    }

    #[test]
    fn a_send_buffer_keeps_its_other_two_numbers() {
        let sysctls = Sysctls { send_buffer: Some([4096, 16384, 1 << 20]), ..Sysctls::default() };
        let found = send_buffer(&sysctls);
        assert_eq!(found.command.as_deref(), Some("sysctl -w net.ipv4.tcp_wmem='4096 16384 4194304'"));
    }

    #[test]
    fn players_that_pause_need_no_slow_start() {
        let with = |value| slow_start(&Sysctls { slow_start_after_idle: Some(value), ..Sysctls::default() });
        assert_eq!(with(1).rating, Rating::Better("0".into()));
        assert_eq!(with(0).rating, Rating::Ok);
    }

    #[test]
    fn the_accept_queue_holds_what_listeners_ask_for() {
        let with = |queue| accept_queue(&Sysctls { accept_queue_max: Some(queue), ..Sysctls::default() });
        assert_eq!(with(128).rating, Rating::Better("4096".into()));
        assert_eq!(with(4096).rating, Rating::Ok);
    }
}
