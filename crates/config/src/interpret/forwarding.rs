//! Methods that are forwarded to an origin, and the fields that name the client and the request.

use super::reader::Reader;
use crate::forwarding::{Forwarded, RequestIds, default_methods};
use crate::limits;
use crate::model::SiteSettings;
use crate::raw;
use crate::section::{Text, Texts, position};

/// Methods that this server answers itself, or that concern one hop only.
const NEVER_PASSED: [&str; 5] = ["GET", "HEAD", "OPTIONS", "CONNECT", "TRACE"];

pub(super) fn methods(raw: Option<&Texts>, reader: &mut Reader<'_>) -> Vec<String> {
    let Some(list) = raw else { return default_methods() };
    let most = limits::PASSED_METHODS_MAX;
    if list.value.len() > most {
        let what = format!("methods: there are {} names", list.value.len());
        reader.fault(position(list), what, format!("write at most {most}"));
    }
    let mut methods = Vec::new();
    for text in &list.value {
        let name = text.value.as_str();
        let fine = (1..=limits::PASSED_METHOD_BYTES).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        if NEVER_PASSED.contains(&name) {
            let what = format!("methods: {name} is never forwarded");
            reader.fault(position(text), what, "remove it: GET, HEAD and OPTIONS are answered in any case");
        } else if !fine {
            let what = format!("methods: `{}` is not the name of a method", name.escape_debug());
            reader.fault(position(text), what, "write names in capital letters, such as POST");
        } else if !methods.iter().any(|known| known == name) {
            methods.push(name.to_owned());
        }
    }
    methods
}

pub(super) fn forwarded(raw: Option<&Text>, reader: &mut Reader<'_>) -> Forwarded {
    let Some(text) = raw else { return Forwarded::default() };
    match text.value.as_str() {
        "x_forwarded" => Forwarded::XForwarded,
        "forwarded" => Forwarded::Standard,
        "off" | "false" => Forwarded::Off,
        other => {
            let what = format!("forwarded: `{}` is unknown", other.escape_debug());
            reader.fault(position(text), what, "write x_forwarded, forwarded or off");
            Forwarded::default()
        }
    }
}

/// Reads `request_id` behind the rules of the cache. A field in `cache.vary` has the client's value, which this one replaces.
pub(super) fn request_id(raw: &raw::SiteSettings, settings: &mut SiteSettings, reader: &mut Reader<'_>) {
    if let Some(text) = &raw.request_id {
        settings.request_id = match text.value.as_str() {
            "generate" => RequestIds::Generate,
            "preserve" => RequestIds::Preserve,
            "off" | "false" => RequestIds::Off,
            other => {
                let what = format!("request_id: `{}` is unknown", other.escape_debug());
                reader.fault(position(text), what, "write generate, preserve or off");
                RequestIds::Off
            }
        };
    }
    let varies = settings.cache.vary.iter().any(|name| name == "x-request-id");
    if varies && settings.request_id != RequestIds::Off {
        let here = raw.cache.as_ref().map(position).or_else(|| raw.request_id.as_ref().map(position));
        let what = "vary: X-Request-Id has another value in each request, as request_id says";
        reader.fault(here.unwrap_or_default(), what, "remove it from cache.vary, or write request_id: off");
    }
}
