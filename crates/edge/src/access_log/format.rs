//! The forms of a line.

use std::io::Write as _;

use penstock_config::LogFormat;

use super::Record;
use super::fields::{FieldSink, Name, fields_of};
use super::json::{JsonObject, decimal, digits, is_named};
use super::time::timestamp;

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
    fn put(&mut self, name: Name, write: impl Fn(&mut Vec<u8>)) {
        for (chosen, value) in self.names.iter().zip(&mut self.values) {
            if is_named(chosen, self.part, name.plain) {
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
    fn part(&mut self, name: Name) {
        self.part = name.plain;
    }

    fn end_part(&mut self) {
        self.part = "";
    }

    fn text(&mut self, name: Name, value: &str) {
        self.put(name, |out| escaped(value.as_bytes(), out));
    }

    fn plain(&mut self, name: Name, value: &[u8]) {
        self.put(name, |out| out.extend_from_slice(value));
    }

    fn number(&mut self, name: Name, value: u64) {
        self.put(name, |out| digits(value, 1, out));
    }

    fn decimal(&mut self, name: Name, value: u64, places: u32) {
        self.put(name, |out| decimal(value, places, out));
    }

    fn flag(&mut self, name: Name, value: bool) {
        self.put(name, |out| written(out, format_args!("{value}")));
    }
}

/// The combined format of Apache and nginx.
fn combined(record: &Record, line: &mut Vec<u8>) {
    let time = timestamp(record.time).strftime("%d/%b/%Y:%H:%M:%S +0000");
    written(line, format_args!("{} - - [{time}] \"", record.client.ip().to_canonical()));
    escaped(record.text(record.method).as_bytes(), line);
    line.push(b' ');
    escaped(record.unsigned(record.target).as_bytes(), line);
    let protocol = match record.protocol {
        "h2" => "HTTP/2.0",
        "h3" => "HTTP/3.0",
        other => other,
    };
    written(line, format_args!(" {protocol}\" {} {} \"", record.status, record.body_bytes));
    match record.referer {
        Some(referer) => escaped(record.unsigned(referer).as_bytes(), line),
        None => line.push(b'-'),
    }
    line.extend_from_slice(b"\" \"");
    let agent = record.user_agent.map(|text| record.text(text));
    escaped(agent.unwrap_or("-").as_bytes(), line);
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
