//! Protocols to which connections may switch.

use std::time::Duration;

use crate::interpret::reader::Reader;
use crate::limits;
use crate::model::Upgrades;
use crate::raw;
use crate::section::position;

/// What is passed on; `None` without a list.
pub(super) fn upgrades(raw: &raw::Origin, reader: &mut Reader<'_>) -> Option<Upgrades> {
    let idle_range = Duration::from_secs(limits::UPGRADE_IDLE_SECONDS_MIN)
        ..=Duration::from_secs(limits::UPGRADE_IDLE_SECONDS_MAX);
    let idle_default = Duration::from_secs(limits::UPGRADE_IDLE_SECONDS);
    let idle = reader.time("upgrade_idle", raw.upgrade_idle.as_ref(), &idle_range, idle_default);
    let list = raw.upgrades.as_ref().filter(|list| !list.value.is_empty());
    if let (None, Some(text)) = (list, &raw.upgrade_idle) {
        let what = "upgrade_idle: there are no upgrades, whose end it would set";
        reader.fault(position(text), what, "add upgrades: [websocket], or remove it");
    }
    let list = list?;
    if raw.s3.is_some() {
        reader.fault(position(list), "upgrades: a bucket has none", "remove it");
        return None;
    }
    let mut protocols: Vec<String> = Vec::new();
    for text in &list.value {
        let name = text.value.to_ascii_lowercase();
        if is_carrier(&name) {
            // Behind it, requests would pass that no rule here has seen (RFC 9113 section 3.1 has removed h2c).
            let what = format!("upgrades: `{name}` would carry requests past the rules of this server");
            reader.fault(position(text), what, "remove it");
        } else if !is_protocol(&name) {
            let what = format!("upgrades: `{}` is not the name of a protocol", name.escape_debug());
            reader.fault(position(text), what, "write a name such as websocket");
        } else if protocols.contains(&name) {
            let what = format!("upgrades: `{name}` is listed twice");
            reader.fault(position(text), what, "keep one of them");
        } else {
            protocols.push(name);
        }
    }
    Some(Upgrades { protocols, idle })
}

/// Whether this is a token with or without a version (RFC 9110 section 7.8).
fn is_protocol(name: &str) -> bool {
    let is_token = |part: &str| {
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        !part.is_empty() && part.bytes().all(fine)
    };
    let mut parts = name.split('/');
    let base = parts.next().unwrap_or_default();
    is_token(base) && parts.next().is_none_or(is_token) && parts.next().is_none()
}

/// Whether this is a version of HTTP, or TLS, within which requests follow.
fn is_carrier(name: &str) -> bool {
    matches!(name.split('/').next(), Some("h2c" | "h2" | "h3" | "http" | "tls"))
}

#[cfg(test)]
mod tests {
    use super::{is_carrier, is_protocol};

    #[test]
    fn a_protocol_is_a_token_with_or_without_a_version_and_neither_http_nor_tls() {
        for name in ["websocket", "irc/6.9", "x-own"] {
            assert!(is_protocol(name) && !is_carrier(name), "{name}");
        }
        for name in ["", "a b", "a,b", "a/", "/1", "a/b/c", "a\r\nb"] {
            assert!(!is_protocol(name), "{name:?}");
        }
        for name in ["h2c", "http/1.1", "http/2.0", "tls/1.2"] {
            assert!(is_carrier(name), "{name:?}");
        }
    }
}
