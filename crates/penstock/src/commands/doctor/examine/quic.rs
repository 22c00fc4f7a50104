//! What HTTP/3 needs: buffers, trains of datagrams, an open port. Nothing is said without a listener that speaks it.

use std::net::SocketAddr;

use penstock_config::limits;
use penstock_sys::machine::Offload;

use crate::commands::doctor::facts::{Facts, bytes_text};
use crate::commands::doctor::finding::{Finding, Section};
use crate::commands::doctor::quic::QuicAnswer;

pub(super) fn examine(facts: &Facts) -> Vec<Finding> {
    let Some(quic) = &facts.configuration.quic else { return Vec::new() };
    let why = "datagrams that come while a worker is busy are lost beyond this";
    let received = facts.machine.sysctls.receive_buffer_max;
    let mut findings = vec![buffer("net.core.rmem_max", received, why), trains(facts, quic.splits)];
    findings.extend(quic.listeners.iter().map(listener));
    findings
}

/// A bound of the buffers that HTTP/3 asks for.
pub(super) fn buffer(name: &'static str, current: Option<u64>, why: &str) -> Finding {
    let what = name.rsplit('.').next().unwrap_or(name);
    let wanted = limits::UDP_BUFFER_BYTES as u64;
    let Some(bytes) = current else { return Finding::unknown(Section::Sockets, name, what, why) };
    let value = format!("{}; HTTP/3 asks for {}", bytes_text(bytes), bytes_text(wanted));
    let command = format!("sysctl -w {name}={wanted}");
    Finding::ok(Section::Sockets, name, what, value, why).better_if(
        bytes < wanted,
        bytes_text(wanted),
        command,
    )
}

fn trains(facts: &Facts, splits: Option<bool>) -> Finding {
    let (name, what) = ("udp_segmentation", "UDP_SEGMENT");
    let why = "up to 64 datagrams of HTTP/3 leave in one call; single calls cost six times as much";
    let Some(splits) = splits else { return Finding::unknown(Section::Sockets, name, what, why) };
    let interfaces = facts.machine.interfaces.iter();
    let cards: Vec<_> =
        interfaces.filter(|one| one.udp_segmentation == Offload::On).map(|one| one.name.as_str()).collect();
    let value = match (splits, &cards[..]) {
        (false, _) => "missing".to_owned(),
        (true, []) => "works; the kernel splits".to_owned(),
        (true, cards) => format!("works; {} splits", cards.join(", ")),
    };
    Finding::ok(Section::Sockets, name, what, value, why).better_if(!splits, "Linux 4.18 or later", "")
}

fn listener((address, answer): &(SocketAddr, QuicAnswer)) -> Finding {
    let why = "clients that get no answer over UDP stay with TCP; from other machines a firewall may still stand between";
    let value = match answer {
        QuicAnswer::Versions => "answers on this machine",
        QuicAnswer::Silence => "no answer, although the TCP port is open",
        QuicAnswer::NotRunning => "no server runs there",
    };
    Finding::ok(Section::Configuration, "http3", format!("UDP {address}"), value, why).problem_if(
        *answer == QuicAnswer::Silence,
        "an answer: start the server with this configuration, and let UDP pass",
        "",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::Rating;
    use crate::commands::doctor::fixtures::{fast, fresh};
    use crate::commands::doctor::quic::QuicFacts;

    fn found(mut facts: Facts, splits: Option<bool>, answer: QuicAnswer) -> Vec<Finding> {
        let listeners = vec![("192.0.2.1:443".parse().unwrap(), answer)];
        facts.configuration.quic = Some(QuicFacts { splits, listeners });
        examine(&facts)
    }

    #[test]
    fn without_a_listener_of_http_3_nothing_is_said() {
        assert_eq!(examine(&fresh()), []);
    }

    #[test]
    fn buffers_trains_and_ports_that_are_as_they_should_be_are_fine() {
        let fine = found(fast(), Some(true), QuicAnswer::Versions);
        assert!(fine.iter().all(|one| one.rating == Rating::Ok), "{fine:?}");
        assert_eq!(fine[2].what, "UDP 192.0.2.1:443");
        let stopped = found(fast(), Some(true), QuicAnswer::NotRunning);
        assert_eq!(stopped[2].rating, Rating::Ok);
    }

    #[test]
    fn small_buffers_an_old_kernel_and_a_silent_port_are_named() {
        let found = found(fresh(), Some(false), QuicAnswer::Silence);
        assert_eq!(found[0].rating, Rating::Better("4 MiB".to_owned()));
        assert_eq!(found[0].command.as_deref(), Some("sysctl -w net.core.rmem_max=4194304"));
        assert_eq!(found[1].rating, Rating::Better("Linux 4.18 or later".to_owned()));
        assert!(matches!(found[2].rating, Rating::Problem(_)));
    }
}
