//! Parsers of option values.

use std::net::SocketAddr;
use std::num::NonZeroUsize;

use penstock_config::limits;
use tracing_subscriber::filter::{LevelFilter, Targets};

pub(super) fn workers(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|number: &NonZeroUsize| number.get() <= limits::WORKERS_MAX);
    number.ok_or_else(|| format!("write a number from 1 to {}", limits::WORKERS_MAX))
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an IP address and a port, such as 127.0.0.1:8443 or [::]:8443".to_owned())
}

/// Refuses misspelt levels, which `Targets` takes for names of crates.
pub(super) fn levels(text: &str) -> Result<Targets, String> {
    let misspelt = |part: &&str| !part.contains('=') && part.parse::<LevelFilter>().is_err();
    match (text.split(',').find(misspelt), text.parse()) {
        (None, Ok(levels)) => Ok(levels),
        _ => Err("write off, error, warn, info, debug or trace, or info,penstock_tls=debug".to_owned()),
    }
}
