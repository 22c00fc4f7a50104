//! The forms of a line.

use std::io::{self, Write as _};

use penstock_config::LogFormat;
use serde_json::Value;

use super::time::timestamp;
use super::{Line, Record, Text, Unsigned};

/// What most lines need, so that a line is not moved while it grows.
const LINE_BYTES: usize = 768;

/// A record as one line, with its line end.
pub(super) fn line(record: &Record, format: &LogFormat) -> Vec<u8> {
    let mut line = Vec::with_capacity(LINE_BYTES);
    let written = write_line(record, format, &mut line);
    debug_assert!(written.is_ok(), "memory takes every line: {written:?}");
    line
}

fn write_line(record: &Record, format: &LogFormat, lines: &mut Vec<u8>) -> io::Result<()> {
    match format {
        LogFormat::Json(None) => serde_json::to_writer(&mut *lines, &Line::of(record))?,
        LogFormat::Json(Some(names)) => {
            let mut line = serde_json::to_value(Line::of(record))?;
            keep(&mut line, names);
            serde_json::to_writer(&mut *lines, &line)?;
        }
        LogFormat::Combined => combined(record, lines)?,
        LogFormat::Fields(names) => fields(record, names, lines)?,
    }
    lines.push(b'\n');
    Ok(())
}

/// Removes the fields that have none of these names.
fn keep(line: &mut Value, names: &[&str]) {
    let Value::Object(fields) = line else { return };
    fields.retain(|name, value| {
        if let Value::Object(part) = value {
            part.retain(|inner, _| names.iter().any(|wanted| wanted.split_once('.') == Some((name, inner))));
            return !part.is_empty();
        }
        names.contains(&name.as_str())
    });
}

/// The values of fields with tabs between them; `-` for what does not apply.
fn fields(record: &Record, names: &[&str], lines: &mut Vec<u8>) -> io::Result<()> {
    let line = serde_json::to_value(Line::of(record))?;
    for (place, name) in names.iter().enumerate() {
        if place > 0 {
            lines.push(b'\t');
        }
        let value = match name.split_once('.') {
            Some((part, inner)) => line.get(part).and_then(|part| part.get(inner)),
            None => line.get(name),
        };
        match value {
            None | Some(Value::Null) => lines.push(b'-'),
            Some(Value::String(text)) => escaped(text.as_bytes(), lines)?,
            Some(other) => write!(lines, "{other}")?,
        }
    }
    Ok(())
}

/// The combined format of Apache and nginx.
fn combined(record: &Record, lines: &mut Vec<u8>) -> io::Result<()> {
    let time = timestamp(record.time).strftime("%d/%b/%Y:%H:%M:%S +0000");
    write!(lines, "{} - - [{time}] \"", record.client.ip().to_canonical())?;
    escaped(record.method.as_str().as_bytes(), lines)?;
    lines.push(b' ');
    escaped(Unsigned(&record.target).shown().as_bytes(), lines)?;
    let protocol = match record.protocol {
        "h2" => "HTTP/2.0",
        "h3" => "HTTP/3.0",
        other => other,
    };
    write!(lines, " {protocol}\" {} {} \"", record.status, record.body_bytes)?;
    match record.referer.as_ref().map(Unsigned) {
        Some(referer) => escaped(referer.shown().as_bytes(), lines)?,
        None => lines.push(b'-'),
    }
    lines.extend_from_slice(b"\" \"");
    let agent = record.user_agent.as_ref().map(Text::as_str);
    escaped(agent.as_deref().unwrap_or("-").as_bytes(), lines)?;
    lines.push(b'"');
    Ok(())
}

/// Text in which a client can end neither a value nor a line, as nginx escapes it.
fn escaped(text: &[u8], lines: &mut Vec<u8>) -> io::Result<()> {
    for byte in text {
        match byte {
            b'"' | b'\\' | 0..0x20 | 0x7f => write!(lines, "\\x{byte:02X}")?,
            _ => lines.push(*byte),
        }
    }
    Ok(())
}
