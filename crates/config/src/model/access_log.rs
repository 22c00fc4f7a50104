//! The access log, interpreted.

use std::num::NonZeroU32;
use std::path::PathBuf;

/// The access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// A file, a stream of the process, or a socket of datagrams.
    pub path: PathBuf,
    /// What a line looks like.
    pub format: LogFormat,
    /// Which responses leave a line.
    pub sample: LogSample,
    /// The sites whose responses leave a line, by their first hosts; `None` is all.
    pub sites: Option<Vec<String>>,
    /// Whether connections that end without a request leave a line.
    pub connections: bool,
}

impl AccessLog {
    /// The log of all responses in JSON.
    #[must_use]
    pub fn of(path: PathBuf) -> Self {
        Self {
            path,
            format: LogFormat::Json(None),
            sample: LogSample::OneIn(NonZeroU32::MIN),
            sites: None,
            connections: false,
        }
    }
}

/// What a line looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A JSON object, with all fields or with these.
    Json(Option<Vec<&'static str>>),
    /// The combined format of Apache and nginx.
    Combined,
    /// The values of these fields, with tabs between them.
    Fields(Vec<&'static str>),
}

impl LogFormat {
    /// The names of all fields, in the order of a JSON line. Those of a part are written with the part: `tls.version`.
    pub const FIELDS: &[&str] = &[
        "time",
        "client_ip",
        "client_port",
        "host",
        "site",
        "route",
        "method",
        "target",
        "status",
        "refusal",
        "body_bytes",
        "duration_ms",
        "ttfb_ms",
        "rtt_ms",
        "delivery_bytes_per_second",
        "retransmitted_ratio",
        "referer",
        "user_agent",
        "range",
        "protocol",
        "tls.version",
        "tls.cipher",
        "tls.group",
        "tls.resumed",
        "tls.ja4",
        "tls.client_certificate",
        "early_data",
        "outlet",
        "request_number",
        "stream",
        "request_id",
        "trace_id",
        "cmcd_session",
        "cmcd_content",
        "cache",
        "tier",
        "upstream.url",
        "upstream.connect_ms",
        "upstream.ttfb_ms",
        "upstream.duration_ms",
        "outcome",
    ];

    /// The field of this name.
    #[must_use]
    pub fn field(name: &str) -> Option<&'static str> {
        Self::FIELDS.iter().copied().find(|known| *known == name)
    }
}

/// Which responses leave a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSample {
    /// One in so many of each worker.
    OneIn(NonZeroU32),
    /// Those with a status from 400 on, and those that ended early.
    Errors,
}
