//! Listeners: the addresses that clients connect to.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use penstock_sys::socket::{Binding, ListenOptions};
use penstock_sys::traffic::ProtocolVersion;
use penstock_tls::HttpVersions;
use serde_saphyr::Spanned;

use super::origins::is_path;
use super::reader::Reader;
use crate::limits;
use crate::model::{Admin, HttpsPort, Listener};
use crate::raw;
use crate::section::{Position, Text, Texts, position, start};

/// The default options of a listener's socket.
pub(crate) fn default_options() -> ListenOptions {
    ListenOptions {
        binding: Binding::Present,
        send_buffer: None,
        receive_buffer: None,
        unsent_low_water: Some(limits::UNSENT_LOW_WATER_BYTES),
        congestion_control: None,
        fast_open: 0,
        defer_accept: Duration::ZERO,
        backlog: limits::BACKLOG,
    }
}

/// The listeners, and the position of each address, the admin listener's included.
pub(super) fn listeners(
    root: &raw::Root,
    admin: Option<&(Admin, Position)>,
    newest: ProtocolVersion,
    reader: &mut Reader<'_>,
) -> (Vec<Listener>, Vec<(SocketAddr, Position)>) {
    let sections = root.listeners.as_ref().map_or(&[][..], |list| &list.value);
    if sections.is_empty() {
        let instead = "write listeners: [{address: 0.0.0.0:443, tls: true}]";
        reader.fault(start(root.listeners.as_ref()), "there is no listener", instead);
    }
    let mut taken: Vec<(SocketAddr, Position)> = Vec::new();
    let mut listeners = Vec::new();
    for section in sections {
        let Some(listener) = listener(section, &listeners, newest, reader) else { continue };
        let here = section.value.address.as_ref().map_or_else(|| position(section), position);
        claim("address", listener.address, here, &mut taken, reader);
        if let Some(list) = section.value.protocols.as_ref()
            && listener.protocols.h3
            && newest != ProtocolVersion::Tls13
        {
            let instead = "add \"1.3\" to tls.versions, or leave h3 out";
            reader.fault(position(list), "protocols: h3 needs TLS 1.3", instead);
        }
        listeners.push(listener);
        require_certificate(section.value.tls.as_ref(), root, reader);
    }
    if let Some((admin, here)) = admin
        && let Some(address) = admin.address.tcp()
    {
        claim("admin.address", address, *here, &mut taken, reader);
    }
    // The port to which a listener redirects is known when all listeners are.
    let port = https_port(&listeners);
    for listener in listeners.iter_mut().filter(|listener| listener.redirect.is_some()) {
        listener.redirect = Some(port);
    }
    (listeners, taken)
}

/// The port of HTTPS: 443 if a listener has it or none has TLS, otherwise that of the first listener with TLS.
pub(super) fn https_port(listeners: &[Listener]) -> HttpsPort {
    let ports = || listeners.iter().filter(|listener| listener.tls).map(|listener| listener.address.port());
    let usual = HttpsPort::USUAL;
    if ports().any(|port| port == usual.0) {
        return usual;
    }
    ports().find(|port| *port != 0).map_or(usual, HttpsPort)
}

fn name(text: &Text, known: &[Listener], reader: &mut Reader<'_>) -> Option<String> {
    let name = text.value.as_str();
    let name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.is_empty() || !name.bytes().all(name_byte) {
        let what = format!("name: `{}` is not a name", name.escape_debug());
        reader.fault(position(text), what, "write letters, digits, - or _, such as public");
        return None;
    }
    if known.iter().any(|listener| listener.name.as_deref() == Some(name)) {
        let what = format!("name: another listener is `{name}` already");
        reader.fault(position(text), what, "write another name");
    }
    Some(name.to_owned())
}

/// Whether a listener redirects to HTTPS. The port is not known yet.
fn redirect(text: &Text, tls: bool, reader: &mut Reader<'_>) -> Option<HttpsPort> {
    match text.value.as_str() {
        "https" if tls => {
            reader.fault(position(text), "redirect: this listener has tls: true", "remove it");
            None
        }
        "https" => Some(HttpsPort::USUAL),
        "off" | "false" => None,
        other => {
            let what = format!("redirect: `{}` is unknown", other.escape_debug());
            reader.fault(position(text), what, "write https; a site can redirect elsewhere");
            None
        }
    }
}

/// Enters an address, which must be new and may not overlap with another one. Port 0 never clashes: the system chooses a
/// free one.
pub(super) fn claim(
    key: &str,
    address: SocketAddr,
    here: Position,
    taken: &mut Vec<(SocketAddr, Position)>,
    reader: &mut Reader<'_>,
) {
    if let IpAddr::V6(ip) = address.ip()
        && let Some(inner) = ip.to_ipv4_mapped()
    {
        let what =
            format!("{key}: {address} is an address of IPv4 in the form of IPv6, which cannot be opened");
        reader.fault(here, what, format!("write {inner}:{}", address.port()));
        return;
    }
    let same = taken.iter().find(|(other, _)| *other == address && address.port() != 0);
    if let Some((_, first)) = same {
        let what = format!("{key}: {address} is already used on {}", reader.line(*first, here));
        reader.fault(here, what, "write another port or remove one of them");
        return;
    }
    if let Some((other, first)) = taken.iter().find(|(other, _)| overlap(*other, address)) {
        let what = format!(
            "{key}: {address} overlaps with {other} on {}, and the system gives a port once",
            reader.line(*first, here)
        );
        let every = if address.ip().is_unspecified() { address } else { *other };
        let instead = format!("write another port, or in place of {every} each address that is to have it");
        reader.fault(here, what, instead);
    }
    taken.push((address, here));
}

/// Whether two listeners cannot both be open, because one of them has every address of the same family. `[::]` does not
/// include IPv4.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let is_every = one.ip().is_unspecified() || other.ip().is_unspecified();
    is_every && one.port() != 0 && one.port() == other.port() && one.is_ipv4() == other.is_ipv4()
}

fn require_certificate(flag: Option<&Text>, root: &raw::Root, reader: &mut Reader<'_>) {
    let Some(flag) = flag.filter(|flag| flag.value == "true") else { return };
    let certificates = root.tls.as_ref().and_then(|tls| tls.value.certificates.as_ref());
    let orders = root.tls.as_ref().is_some_and(|tls| tls.value.acme.is_some());
    if !orders && certificates.is_none_or(|list| list.value.is_empty()) {
        let instead = "add tls: {certificates: [{chain: FILE, key: FILE}]} or tls: {acme: {agree_to_terms: true}}, or write tls: false";
        reader.fault(position(flag), "tls: this listener needs a certificate and there is none", instead);
    }
}

fn listener(
    section: &Spanned<raw::Listener>,
    known: &[Listener],
    newest: ProtocolVersion,
    reader: &mut Reader<'_>,
) -> Option<Listener> {
    let raw = &section.value;
    let address = match &raw.address {
        Some(text) => reader.address("address", text),
        None => {
            reader.fault(position(section), "this listener has no address", "add address: 0.0.0.0:443");
            None
        }
    };
    let tls = reader.flag("tls", raw.tls.as_ref(), false);
    let proxy_protocol = reader.flag("proxy_protocol", raw.proxy_protocol.as_ref(), false);
    let mut usual = default_versions(tls);
    usual.h3 &= !proxy_protocol && newest == ProtocolVersion::Tls13;
    let protocols = protocols(raw.protocols.as_ref(), usual, reader);
    if let Some(list) = raw.protocols.as_ref().filter(|_| protocols.h3) {
        check_http3(list, (tls, proxy_protocol, protocols), reader);
    }
    let health = raw.health.as_ref().and_then(|text| health(text, reader));
    let socket = options(raw, reader);
    let name = raw.name.as_ref().and_then(|text| name(text, known, reader));
    let redirect = raw.redirect.as_ref().and_then(|text| redirect(text, tls, reader));
    Some(Listener { address: address?, name, redirect, tls, protocols, proxy_protocol, health, socket })
}

/// HTTP/3 needs TLS, and clients learn of it by TCP (`Alt-Svc`).
fn check_http3(
    list: &Texts,
    (tls, proxy_protocol, protocols): (bool, bool, HttpVersions),
    reader: &mut Reader<'_>,
) {
    if !tls {
        reader.fault(position(list), "protocols: h3 needs TLS", "write tls: true, or leave h3 out");
    }
    if proxy_protocol {
        let instead = "leave out h3, or proxy_protocol";
        reader.fault(position(list), "protocols: h3 has no PROXY header", instead);
    }
    if !(protocols.h1 || protocols.h2) {
        let instead = "write [h1, h2, h3]";
        reader.fault(position(list), "protocols: h3 alone is found by no client", instead);
    }
}

/// A path of health checks, which has no query.
fn health(text: &Text, reader: &mut Reader<'_>) -> Option<String> {
    if is_path(&text.value) && !text.value.contains('?') {
        return Some(text.value.clone());
    }
    let what = format!("health: `{}` is not a path", text.value.escape_debug());
    reader.fault(position(text), what, "write a path such as /healthz");
    None
}

/// The versions of HTTP without a list. Clients of plain HTTP cannot negotiate, so HTTP/2 has to be listed there.
pub(crate) fn default_versions(tls: bool) -> HttpVersions {
    if tls { HttpVersions::ALL } else { HttpVersions::H1 }
}

/// The versions of HTTP.
fn protocols(list: Option<&Texts>, usual: HttpVersions, reader: &mut Reader<'_>) -> HttpVersions {
    let Some(list) = list else { return usual };
    let mut found = HttpVersions { h1: false, h2: false, h3: false };
    for text in &list.value {
        let version = match text.value.as_str() {
            "h1" => &mut found.h1,
            "h2" => &mut found.h2,
            "h3" => &mut found.h3,
            other => {
                let near = match other {
                    "http/1.1" | "http1" | "HTTP/1.1" => "write h1",
                    "http2" | "http/2" | "h2c" | "HTTP/2" => "write h2",
                    "http3" | "http/3" | "HTTP/3" | "quic" => "write h3",
                    _ => "write h1, h2 or h3",
                };
                reader.fault(position(text), format!("protocols: `{other}` is unknown"), near);
                continue;
            }
        };
        if std::mem::replace(version, true) {
            let what = format!("protocols: {} is listed twice", text.value);
            reader.fault(position(text), what, "keep one of them");
        }
    }
    if list.value.is_empty() {
        reader.fault(position(list), "protocols: the list is empty", "write [h1, h2]");
    }
    if found.h1 || found.h2 || found.h3 { found } else { usual }
}

fn options(raw: &raw::Listener, reader: &mut Reader<'_>) -> ListenOptions {
    let default = default_options();
    let buffer = 0..=limits::SOCKET_BUFFER_BYTES_MAX;
    let queue = 0..=limits::LISTEN_QUEUE_MAX;
    let at_least_one = 1..=limits::LISTEN_QUEUE_MAX;
    let defer = Duration::ZERO..=Duration::from_secs(limits::DEFER_ACCEPT_SECONDS_MAX);
    let some = |bytes: usize| (bytes > 0).then_some(bytes);
    let low_water: u32 = reader.size(
        "unsent_low_water",
        raw.unsent_low_water.as_ref(),
        &buffer,
        limits::UNSENT_LOW_WATER_BYTES,
    );
    let is_free = reader.flag("freebind", raw.freebind.as_ref(), default.binding == Binding::Free);
    ListenOptions {
        binding: if is_free { Binding::Free } else { Binding::Present },
        send_buffer: some(reader.size("send_buffer", raw.send_buffer.as_ref(), &buffer, 0)),
        receive_buffer: some(reader.size("receive_buffer", raw.receive_buffer.as_ref(), &buffer, 0)),
        unsent_low_water: (low_water > 0).then_some(low_water),
        congestion_control: raw.congestion_control.as_ref().and_then(|text| congestion(text, reader)),
        fast_open: reader.number("fast_open", raw.fast_open.as_ref(), &queue, default.fast_open),
        defer_accept: reader.time("defer_accept", raw.defer_accept.as_ref(), &defer, default.defer_accept),
        backlog: reader.number("backlog", raw.backlog.as_ref(), &at_least_one, default.backlog),
    }
}

/// A plausible name of an algorithm; the kernel decides when the socket is opened.
fn congestion(text: &Text, reader: &mut Reader<'_>) -> Option<String> {
    let plausible =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    let name = &text.value;
    if (1..=limits::CONGESTION_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(plausible) {
        return Some(name.clone());
    }
    let what = format!("congestion_control: `{name}` is no name of an algorithm");
    reader.fault(position(text), what, "write one of net.ipv4.tcp_available_congestion_control, such as bbr");
    None
}
