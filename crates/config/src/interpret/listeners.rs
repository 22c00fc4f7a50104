//! Listeners: the addresses that clients connect to.

use std::net::SocketAddr;
use std::time::Duration;

use penstock_sys::socket::ListenOptions;
use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::model::{Admin, Listener};
use crate::raw;
use crate::section::{Position, Text, position, start};

/// The default options of a listener's socket.
pub(crate) fn default_options() -> ListenOptions {
    ListenOptions {
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
        let Some(listener) = listener(section, reader) else { continue };
        let here = section.value.address.as_ref().map_or_else(|| position(section), position);
        claim("address", listener.address, here, &mut taken, reader);
        listeners.push(listener);
        require_certificate(section.value.tls.as_ref(), root, reader);
    }
    if let Some((admin, here)) = admin {
        claim("admin.address", admin.address, *here, &mut taken, reader);
    }
    (listeners, taken)
}

/// Enters an address, which must be new. Port 0 never clashes: the system chooses a free one.
fn claim(
    key: &str,
    address: SocketAddr,
    here: Position,
    taken: &mut Vec<(SocketAddr, Position)>,
    reader: &mut Reader<'_>,
) {
    match taken.iter().find(|(other, _)| *other == address && address.port() != 0) {
        Some((_, first)) => {
            let what = format!("{key}: {address} is already used on line {}", first.line);
            reader.fault(here, what, "write another port or remove one of them");
        }
        None => taken.push((address, here)),
    }
}

fn require_certificate(flag: Option<&Text>, root: &raw::Root, reader: &mut Reader<'_>) {
    let Some(flag) = flag.filter(|flag| flag.value == "true") else { return };
    let certificates = root.tls.as_ref().and_then(|tls| tls.value.certificates.as_ref());
    if certificates.is_none_or(|list| list.value.is_empty()) {
        let instead = "add tls: {certificates: [{chain: FILE, key: FILE}]}, or write tls: false";
        reader.fault(position(flag), "tls: this listener needs a certificate and there is none", instead);
    }
}

fn listener(section: &Spanned<raw::Listener>, reader: &mut Reader<'_>) -> Option<Listener> {
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
    let socket = options(raw, reader);
    Some(Listener { address: address?, tls, proxy_protocol, socket })
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
    ListenOptions {
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
