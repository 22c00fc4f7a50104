//! Which responses leave a line.

use std::cell::Cell;

use penstock_access_log::Sink;
use penstock_config::{AccessLog, LogFormat, LogSample};

use super::{Record, format};

/// The access log, as the responses of a worker see it.
#[derive(Clone)]
pub(crate) struct Logging {
    sink: Sink,
    format: LogFormat,
    sample: LogSample,
    /// By number, whether a site leaves lines; `None` if all do, and what no site answers.
    sites: Option<Vec<bool>>,
    /// Whether connections that end without a request leave lines.
    pub(crate) connections: bool,
}

impl Logging {
    /// The log of this configuration, with the names of all sites by number.
    pub(crate) fn new<'n>(sink: Sink, configured: &AccessLog, names: impl Iterator<Item = &'n str>) -> Self {
        let chosen = |hosts: &Vec<String>| names.map(|name| hosts.iter().any(|host| host == name)).collect();
        let sites = configured.sites.as_ref().map(chosen);
        Self {
            sink,
            format: configured.format.clone(),
            sample: configured.sample,
            sites,
            connections: configured.connections,
        }
    }

    /// Whether a response of this site may leave a line. `turn` counts the responses of the worker.
    pub(crate) fn may_log(&self, site: Option<usize>, turn: &Cell<u32>) -> bool {
        let is_chosen = match &self.sites {
            None => true,
            Some(chosen) => site.and_then(|number| chosen.get(number)).is_some_and(|chosen| *chosen),
        };
        is_chosen
            && match self.sample {
                LogSample::Errors => true,
                LogSample::OneIn(number) => {
                    let place = turn.get() + 1;
                    turn.set(place % number.get());
                    place >= number.get()
                }
            }
    }

    /// Queues the line of a record, unless only others are wanted. Never waits.
    pub(crate) fn record(&self, record: &Record) {
        let is_error = record.status >= 400 || record.short.is_some() || record.without_request;
        if is_error || self.sample != LogSample::Errors {
            self.sink.line(format::line(record, &self.format));
        }
    }
}
