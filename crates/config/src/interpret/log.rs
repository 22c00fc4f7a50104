//! Logs other than the program's own.

use std::path::PathBuf;

use super::reader::Reader;
use crate::model::Log;
use crate::raw;
use crate::section::{Text, position};

pub(super) fn log(raw: &raw::Log, reader: &mut Reader<'_>) -> Log {
    let access = raw.access.as_ref().map(|text| access_log(text, reader));
    let ja4 = reader.flag("ja4", raw.ja4.as_ref(), false);
    if let Some(text) = raw.ja4.as_ref().filter(|_| ja4 && access.is_none()) {
        let what = "ja4: there is no access log to write it to";
        reader.fault(position(text), what, "add access: FILE or remove ja4");
    }
    Log { ja4, access }
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
