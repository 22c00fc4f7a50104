//! Sites that relay without the cache.

use crate::interpret::reader::Reader;
use crate::model::{SpreadBy, Uncached};
use crate::raw;
use crate::section::{Text, position};

/// How responses are relayed; `None` if they are cached.
pub(super) fn uncached(raw: &raw::Origin, reader: &mut Reader<'_>) -> Option<Uncached> {
    let proxy_protocol = proxy_protocol(raw.proxy_protocol.as_ref(), reader);
    if is_cached(raw.cache.as_ref(), reader) {
        if let Some(header) = raw.proxy_protocol.as_ref().filter(|_| proxy_protocol) {
            let what = "proxy_protocol: the responses of this site are cached";
            reader.fault(position(header), what, "add cache: off, or remove it");
        }
        return None;
    }
    let peers = raw.peers.as_ref().filter(|text| text.value != "false");
    let redirects = raw.follow_redirects.as_ref().filter(|text| text.value != "0");
    let entries = [
        ("s3", raw.s3.as_ref().map(position)),
        ("peers", peers.map(position)),
        ("shield", raw.shield.as_ref().map(position)),
        ("follow_redirects", redirects.map(position)),
        ("redirect_hosts", raw.redirect_hosts.as_ref().map(position)),
    ];
    for (key, here) in entries {
        if let Some(here) = here {
            let what = format!("{key}: a site without cache has none");
            reader.fault(here, what, "remove it, or remove cache: off");
        }
    }
    Some(Uncached { proxy_protocol })
}

fn is_cached(text: Option<&Text>, reader: &mut Reader<'_>) -> bool {
    match text.map(|text| (text, text.value.as_str())) {
        None | Some((_, "on" | "true")) => true,
        Some((_, "off" | "false")) => false,
        Some((text, other)) => {
            let what = format!("cache: `{}` is unknown", other.escape_debug());
            reader.fault(position(text), what, "write on or off");
            true
        }
    }
}

/// What chooses the server of a request.
pub(super) fn spread(raw: &raw::Origin, is_cached: bool, reader: &mut Reader<'_>) -> Option<SpreadBy> {
    let section = raw.spread.as_ref()?;
    let Some(by) = &section.value.by else {
        reader.fault(position(section), "spread: it does not say by what", "add by: url");
        return None;
    };
    match by.value.as_str() {
        "url" => Some(SpreadBy::Url),
        "path" => Some(SpreadBy::Path),
        "host" if is_cached => {
            let what = "by: the servers of a site with a cache are asked for one host";
            reader.fault(position(by), what, "write url or path, or add cache: off");
            None
        }
        "host" => Some(SpreadBy::Host),
        other => {
            let what = format!("by: `{}` is unknown", other.escape_debug());
            reader.fault(position(by), what, "write url, path or host");
            None
        }
    }
}

fn proxy_protocol(text: Option<&Text>, reader: &mut Reader<'_>) -> bool {
    match text.map(|text| (text, text.value.as_str())) {
        None | Some((_, "off" | "false")) => false,
        Some((_, "v2")) => true,
        Some((text, other)) => {
            let what = format!("proxy_protocol: `{}` is unknown", other.escape_debug());
            reader.fault(position(text), what, "write v2 or off");
            false
        }
    }
}
