//! The table of all metrics. To add a metric, add a row: the Prometheus text and `docs/metrics.md` follow.

mod cache;
mod certificates;
mod cluster;
mod connections;
mod disk;
mod egress;
mod extensions;
mod files;
mod fleet;
mod http2;
mod http3;
mod keys;
mod live;
mod origins;
mod players;
mod pressure;
mod process;
mod program;
mod requests;
mod resumption;
mod sites;
mod tickets;
mod tls;
mod workers;

use crate::metric::Metric;

/// Metrics that belong together.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) metrics: &'static [Metric],
}

/// All metrics, in the order of a scrape and of `docs/metrics.md`.
pub(crate) static TABLE: &[Section] = &[
    Section { title: "Connections", metrics: connections::METRICS },
    Section { title: "TLS", metrics: tls::METRICS },
    Section { title: "Resumption", metrics: resumption::METRICS },
    Section { title: "TLS extensions", metrics: extensions::METRICS },
    Section { title: "Certificates", metrics: certificates::METRICS },
    Section { title: "Private keys elsewhere", metrics: keys::METRICS },
    Section { title: "Session tickets", metrics: tickets::METRICS },
    Section { title: "Fleet", metrics: fleet::METRICS },
    Section { title: "Requests", metrics: requests::METRICS },
    Section { title: "Sites", metrics: sites::METRICS },
    Section { title: "Clients and players", metrics: players::METRICS },
    Section { title: "HTTP/2", metrics: http2::METRICS },
    Section { title: "HTTP/3", metrics: http3::METRICS },
    Section { title: "Bytes out", metrics: egress::METRICS },
    Section { title: "Files", metrics: files::METRICS },
    Section { title: "Cache and origins", metrics: cache::METRICS },
    Section { title: "Servers of origins", metrics: origins::METRICS },
    Section { title: "Other nodes of the cluster", metrics: cluster::METRICS },
    Section { title: "Disks of the cache", metrics: disk::METRICS },
    Section { title: "Live streams", metrics: live::METRICS },
    Section { title: "Workers", metrics: workers::METRICS },
    Section { title: "Pressure", metrics: pressure::METRICS },
    Section { title: "The program", metrics: program::METRICS },
    Section { title: "The process", metrics: process::METRICS },
];
