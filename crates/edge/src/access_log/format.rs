//! The forms of a line.

use std::fmt::Display;
use std::io::Write as _;

use penstock_config::LogFormat;

use super::fields::{FieldSink, fields_of};
use super::json::{JsonObject, decimal, digits, is_named};
use super::time::timestamp;
use super::{Record, Text, Unsigned};

/// What most lines need, so that a line is not moved while it grows.
const LINE_BYTES: usize = 768;

/// A record as one line, with its line end.
pub(super) fn line(record: &Record, format: &LogFormat) -> Vec<u8> {
    let mut line = Vec::with_capacity(LINE_BYTES);
    match format {
        LogFormat::Json(names) => {
            let mut object = JsonObject::begin(&mut line, names.as_deref());
            fields_of(record, &mut object);
            object.end();
        }
        LogFormat::Combined => combined(record, &mut line),
        LogFormat::Fields(names) => {
            let mut columns = Columns { names, part: "", values: vec![None; names.len()] };
            fields_of(record, &mut columns);
            columns.write(&mut line);
        }
    }
    line.push(b'\n');
    line
}

/// The values of fields with tabs between them; `-` for what does not apply.
struct Columns<'f> {
    names: &'f [&'static str],
    part: &'static str,
    values: Vec<Option<Vec<u8>>>,
}

impl Columns<'_> {
    fn put(&mut self, name: &str, write: impl Fn(&mut Vec<u8>)) {
        for (chosen, value) in self.names.iter().zip(&mut self.values) {
            if is_named(chosen, self.part, name) {
                write(value.get_or_insert_default());
            }
        }
    }

    fn write(&self, line: &mut Vec<u8>) {
        for (place, value) in self.values.iter().enumerate() {
            if place > 0 {
                line.push(b'\t');
            }
            line.extend_from_slice(value.as_deref().unwrap_or(b"-"));
        }
    }
}

impl FieldSink for Columns<'_> {
    fn part(&mut self, name: &'static str) {
        self.part = name;
    }

    fn text(&mut self, name: &'static str, value: &str) {
        self.put(name, |out| escaped(value.as_bytes(), out));
    }

    fn shown(&mut self, name: &'static str, value: &dyn Display) {
        self.put(name, |out| written(out, format_args!("{value}")));
    }

    fn number(&mut self, name: &'static str, value: u64) {
        self.put(name, |out| digits(value, 1, out));
    }

    fn decimal(&mut self, name: &'static str, value: u64, places: u32) {
        self.put(name, |out| decimal(value, places, out));
    }

    fn flag(&mut self, name: &'static str, value: bool) {
        self.put(name, |out| written(out, format_args!("{value}")));
    }
}

/// The combined format of Apache and nginx.
fn combined(record: &Record, line: &mut Vec<u8>) {
    let time = timestamp(record.time).strftime("%d/%b/%Y:%H:%M:%S +0000");
    written(line, format_args!("{} - - [{time}] \"", record.client.ip().to_canonical()));
    escaped(record.method.as_str().as_bytes(), line);
    line.push(b' ');
    escaped(Unsigned(&record.target).shown().as_bytes(), line);
    let protocol = match record.protocol {
        "h2" => "HTTP/2.0",
        "h3" => "HTTP/3.0",
        other => other,
    };
    written(line, format_args!(" {protocol}\" {} {} \"", record.status, record.body_bytes));
    match record.referer.as_ref().map(Unsigned) {
        Some(referer) => escaped(referer.shown().as_bytes(), line),
        None => line.push(b'-'),
    }
    line.extend_from_slice(b"\" \"");
    let agent = record.user_agent.as_ref().map(Text::as_str);
    escaped(agent.as_deref().unwrap_or("-").as_bytes(), line);
    line.push(b'"');
}

/// Text in which a client can end neither a value nor a line, as nginx escapes it.
fn escaped(text: &[u8], line: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'"' | b'\\' | 0..0x20 | 0x7f => written(line, format_args!("\\x{byte:02X}")),
            _ => line.push(*byte),
        }
    }
}

/// Writing to memory does not fail.
fn written(line: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _infallible = line.write_fmt(text);
}
