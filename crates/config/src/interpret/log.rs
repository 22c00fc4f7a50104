//! Logs other than the program's own.

use std::num::NonZeroU32;
use std::path::PathBuf;

use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::model::{AccessLog, Log, LogFormat, LogSample, Qlog, Site};
use crate::networks::{NetworkRange, NetworkSet};
use crate::raw;
use crate::section::{Position, Text, Texts, WordOr, position};

pub(super) fn log(raw: &raw::Log, sites: &[Site], reader: &mut Reader<'_>) -> Log {
    let access = raw.access.as_ref().and_then(|access| match &access.value {
        WordOr::Word(word) => {
            let text = Text::new(word.clone(), access.referenced, access.defined);
            Some(AccessLog::of(access_log(&text, reader)))
        }
        WordOr::Section(section) => in_section(section, position(access), sites, reader),
    });
    let ja4 = reader.flag("ja4", raw.ja4.as_ref(), false);
    if let Some(text) = raw.ja4.as_ref().filter(|_| ja4 && raw.access.is_none()) {
        let what = "ja4: there is no access log to write it to";
        reader.fault(position(text), what, "add access: FILE or remove ja4");
    }
    let qlog = raw.qlog.as_ref().and_then(|section| qlog(section, reader));
    Log { ja4, access, qlog }
}

fn qlog(section: &Spanned<raw::Qlog>, reader: &mut Reader<'_>) -> Option<Qlog> {
    let (raw, here) = (&section.value, position(section));
    let (Some(directory), Some(clients)) = (&raw.directory, &raw.clients) else {
        reader.fault(
            here,
            "qlog: it has no directory or no clients",
            "write {directory: DIR, clients: [192.0.2.7]}",
        );
        return None;
    };
    let mut ranges = Vec::new();
    for text in &clients.value {
        match NetworkRange::parse(&text.value) {
            Some(range) => ranges.push(range),
            None => {
                let what = format!("clients: `{}` is no network", text.value.escape_debug());
                reader.fault(position(text), what, "write one such as 192.0.2.7 or 2001:db8::/32");
            }
        }
    }
    if clients.value.is_empty() || clients.value.len() > limits::QLOG_NETWORKS {
        let what = format!("clients: there are {} networks", clients.value.len());
        reader.fault(position(clients), what, format!("write from 1 to {}", limits::QLOG_NETWORKS));
    }
    let sizes = &(limits::QLOG_FILE_BYTES_MIN..=limits::QLOG_FILE_BYTES_MAX);
    Some(Qlog {
        directory: reader.output_directory("directory", directory),
        clients: NetworkSet::new(ranges),
        files: reader.number("files", raw.files.as_ref(), &(1..=limits::QLOG_FILES_MAX), limits::QLOG_FILES),
        file_bytes: reader.size("file_size", raw.file_size.as_ref(), sizes, limits::QLOG_FILE_BYTES),
    })
}

fn in_section(
    raw: &raw::AccessLog,
    here: Position,
    sites: &[Site],
    reader: &mut Reader<'_>,
) -> Option<AccessLog> {
    let Some(path) = &raw.path else {
        reader.fault(here, "access: there is no path", "write path: FILE, stdout or syslog");
        return None;
    };
    let path = match path.value.as_str() {
        "stdout" | "stderr" => PathBuf::from(format!("/dev/{}", path.value)),
        "syslog" => PathBuf::from("/dev/log"),
        _ => access_log(path, reader),
    };
    let fields = raw.fields.as_ref().map(|fields| fields_of(fields, reader));
    let format = match raw.format.as_ref().map_or("json", |text| text.value.as_str()) {
        "json" => LogFormat::Json(fields),
        "combined" => LogFormat::Combined,
        "fields" => LogFormat::Fields(fields.unwrap_or_else(|| LogFormat::FIELDS.to_vec())),
        other => {
            let what = format!("format: `{}` is unknown", other.escape_debug());
            reader.fault(raw.format.as_ref().map_or(here, position), what, "write json, combined or fields");
            LogFormat::Json(None)
        }
    };
    let sample = raw.sample.as_ref().map_or(LogSample::OneIn(NonZeroU32::MIN), |text| sample(text, reader));
    let chosen = raw.sites.as_ref().map(|hosts| sites_of(hosts, sites, reader));
    let connections = reader.flag("connections", raw.connections.as_ref(), false);
    Some(AccessLog { path, format, sample, sites: chosen, connections })
}

fn fields_of(names: &Texts, reader: &mut Reader<'_>) -> Vec<&'static str> {
    let mut fields = Vec::new();
    for name in &names.value {
        match LogFormat::field(&name.value) {
            Some(field) => fields.push(field),
            None => {
                let what = format!("fields: there is no field `{}`", name.value.escape_debug());
                let instead = format!("write some of {}", LogFormat::FIELDS.join(", "));
                reader.fault(position(name), what, instead);
            }
        }
    }
    fields
}

fn sample(text: &Text, reader: &mut Reader<'_>) -> LogSample {
    if text.value == "errors" {
        return LogSample::Errors;
    }
    let number = text.value.strip_prefix("1/").and_then(|number| number.parse().ok());
    LogSample::OneIn(number.unwrap_or_else(|| {
        let what = format!("sample: `{}` is no sample", text.value.escape_debug());
        reader.fault(position(text), what, "write 1/100 for every hundredth response, or errors");
        NonZeroU32::MIN
    }))
}

fn sites_of(hosts: &Texts, sites: &[Site], reader: &mut Reader<'_>) -> Vec<String> {
    let names: Vec<String> =
        sites.iter().filter_map(|site| site.hosts.first()).map(ToString::to_string).collect();
    for host in hosts.value.iter().filter(|host| !names.contains(&host.value)) {
        let what = format!("sites: `{}` is not the first host of a site", host.value.escape_debug());
        reader.fault(position(host), what, format!("write some of {}", names.join(", ")));
    }
    hosts.value.iter().map(|host| host.value.clone()).collect()
}

/// The file of an access log.
pub(super) fn access_log(text: &Text, reader: &mut Reader<'_>) -> PathBuf {
    if let Some(stream) = standard_stream(&text.value) {
        let what = format!("access: `{}` would be a file of that name", text.value);
        reader.fault(position(text), what, format!("write /dev/{stream}, or ./{} for a file", text.value));
    }
    reader.output_file("access", text)
}

/// The stream that other programs mean by this name.
fn standard_stream(name: &str) -> Option<&'static str> {
    match name.to_ascii_lowercase().as_str() {
        "stdout" | "-" => Some("stdout"),
        "stderr" => Some("stderr"),
        _ => None,
    }
}
