//! The fleet: a store, a secret, and what of this edge goes there.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use penstock_http::query::decoded;
use penstock_sys::traffic::Secret;
use serde_saphyr::Spanned;

use super::origins::authorities;
use super::reader::Reader;
use crate::limits;
use crate::model::{EarlyData, Fleet, Listener, SessionCache, StorePlace, StoreUrl, StrikePlace, Tls};
use crate::raw;
use crate::section::{Text, position};
use crate::signing::{read_key_file, secret_of_file};

const NEW_SECRET: &str =
    "make one with: (umask 077; openssl rand -hex 32 > fleet.key), and copy it to each edge";

const URL: &str = "write redis://HOST:6379, rediss://HOST:6379 for TLS, or unix:///run/valkey/valkey.sock";

pub(super) fn fleet(
    section: Option<&Spanned<raw::Fleet>>,
    listeners: &[Listener],
    reader: &mut Reader<'_>,
) -> Option<Fleet> {
    let section = section?;
    let raw = &section.value;
    let deadline = Duration::from_millis(limits::FLEET_DEADLINE_MILLISECONDS_MIN)
        ..=Duration::from_millis(limits::FLEET_DEADLINE_MILLISECONDS_MAX);
    let default = Duration::from_millis(limits::FLEET_DEADLINE_MILLISECONDS);
    let deadline = reader.time("deadline", raw.deadline.as_ref(), &deadline, default);
    let name =
        raw.name.as_ref().map_or_else(|| own_name(reader.host_name, listeners), |text| name(text, reader));
    let state = raw.state.as_ref().map(|text| state(text, reader));
    if raw.valkey.is_none() {
        reader.fault(position(section), "fleet: there is no store", format!("add valkey: {URL}"));
    }
    if raw.secret.is_none() {
        reader.fault(
            position(section),
            "fleet: there is no secret",
            format!("add secret: FILE; {NEW_SECRET}"),
        );
    }
    let secret = raw.secret.as_ref().and_then(|text| secret(text, reader));
    let store = raw.valkey.as_ref().and_then(|text| store(text, raw.ca.as_ref(), reader));
    let password = raw.password_file.as_ref().map(|text| password(text, store.as_ref(), reader));
    let mut store = store?;
    store.password = password.unwrap_or(store.password);
    Some(Fleet { store, secret: secret?, name, state, deadline })
}

/// Refuses what needs a fleet where there is none.
pub(super) fn require(tls: &Tls, raw: Option<&Spanned<raw::Tls>>, is_there: bool, reader: &mut Reader<'_>) {
    let Some(raw) = raw.filter(|_| !is_there) else { return };
    let EarlyData { register, .. } = tls.early_data.unwrap_or_default();
    let needing = [
        (tls.tickets.shared, raw.value.tickets.as_ref().map(position), "tickets"),
        (
            tls.session_cache == SessionCache::Fleet,
            raw.value.session_cache.as_ref().map(position),
            "session_cache",
        ),
        (register == StrikePlace::Fleet, raw.value.early_data.as_ref().map(position), "early_data"),
    ];
    for (_, here, key) in needing.into_iter().filter(|(needs, ..)| *needs) {
        let what = format!("{key}: valkey needs a store");
        let instead = "add fleet: {valkey: \"redis://127.0.0.1:6379\", secret: fleet.key} to the file";
        reader.fault(here.unwrap_or_default(), what, instead);
    }
}

/// The name of the machine and the port of the first listener.
fn own_name(host_name: &str, listeners: &[Listener]) -> String {
    let machine: String = host_name.chars().filter(|letter| is_name(&letter.to_string())).collect();
    let port = listeners.first().map_or(0, |listener| listener.address.port());
    let name = format!("{machine}:{port}");
    let end = name.len().saturating_sub(limits::FLEET_NAME_BYTES);
    name[end..].to_owned()
}

fn is_name(text: &str) -> bool {
    let name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=limits::FLEET_NAME_BYTES).contains(&text.len()) && text.bytes().all(name_byte)
}

fn name(text: &Text, reader: &mut Reader<'_>) -> String {
    if !is_name(&text.value) {
        let what = format!("name: `{}` cannot be the name of an edge", text.value.escape_debug());
        let most = limits::FLEET_NAME_BYTES;
        reader.fault(position(text), what, format!("write up to {most} letters, digits, -, _, . or :"));
    }
    text.value.clone()
}

fn state(text: &Text, reader: &mut Reader<'_>) -> PathBuf {
    const WRITABLE_BY_OTHERS: u32 = 0o002;
    let path = reader.directory("state", text);
    let mode = path.metadata().map_or(0, |found| found.permissions().mode());
    if mode & WRITABLE_BY_OTHERS != 0 {
        let what = format!("state: every user of this machine may write to {}", path.display());
        reader.fault(position(text), what, "write a directory of this program's own, with chmod 700");
    }
    path
}

fn secret(text: &Text, reader: &mut Reader<'_>) -> Option<Secret> {
    const DANGER: &str = "run chmod 600 on it: its holder can read traffic";
    let bytes = private_file("secret", text, NEW_SECRET, DANGER, reader)?;
    let least = limits::FLEET_SECRET_BYTES_MIN;
    let secret = secret_of_file(bytes).filter(|secret| secret.expose().len() >= least);
    if secret.is_none() {
        let what = format!("secret: {} has less than {least} bytes", reader.path(text).display());
        reader.fault(position(text), what, NEW_SECRET);
    }
    secret
}

/// The password in a file: one line of text.
fn password(text: &Text, store: Option<&StoreUrl>, reader: &mut Reader<'_>) -> Option<Secret> {
    const INSTEAD: &str = "write the password of the store into it, on one line";
    const DANGER: &str = "run chmod 600 on it: its holder can write to the store";
    if store.is_some_and(|store| store.password.is_some()) {
        let what = "password_file: valkey has a password too";
        reader.fault(position(text), what, "remove the one in the URL, which other files repeat");
    }
    let bytes = private_file("password_file", text, INSTEAD, DANGER, reader)?;
    let password = std::str::from_utf8(&bytes).ok().map(|text| text.trim_end_matches(['\r', '\n']));
    let password = password.filter(|word| !word.is_empty() && !word.contains(['\r', '\n']));
    if password.is_none() {
        let what = format!("password_file: {} has no line of text", reader.path(text).display());
        reader.fault(position(text), what, INSTEAD);
    }
    password.map(|word| Secret::new(word.as_bytes().to_vec()))
}

/// The bytes of a file that its owner alone may read.
pub(super) fn private_file(
    key: &str,
    text: &Text,
    instead: &str,
    danger: &str,
    reader: &mut Reader<'_>,
) -> Option<Vec<u8>> {
    let path = reader.path(text);
    let shown = path.display();
    match read_key_file(&path) {
        Err(error) => {
            reader.fault(position(text), format!("{key}: {shown} {error}"), instead);
            None
        }
        Ok((bytes, readable_by_others)) => {
            if readable_by_others {
                let what = format!("{key}: {shown} may be read by every user of this machine");
                reader.fault(position(text), what, danger);
            }
            Some(bytes)
        }
    }
}

fn store(text: &Text, ca: Option<&Text>, reader: &mut Reader<'_>) -> Option<StoreUrl> {
    let Some((scheme, rest)) = text.value.split_once("://") else {
        // A password in it is not repeated.
        reader.fault(position(text), "valkey: this is not the URL of a store", URL);
        return None;
    };
    let is_secure = matches!(scheme, "rediss" | "valkeys");
    if let Some(ca) = ca.filter(|_| !is_secure) {
        reader.fault(
            position(ca),
            "ca: the store does not use TLS",
            "remove it, or write rediss:// in valkey",
        );
    }
    if scheme == "unix" {
        return unix(text, rest, reader);
    }
    if !is_secure && !matches!(scheme, "redis" | "valkey") {
        let what = format!("valkey: `{}` is not the scheme of a store", scheme.escape_debug());
        reader.fault(position(text), what, URL);
        return None;
    }
    let Some(parsed) = parse(rest) else {
        reader.fault(position(text), "valkey: this is not the URL of a store", URL);
        return None;
    };
    let is_local = parsed.host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
    if !is_secure && !is_local && parsed.host != "localhost" {
        reader.warning(
            position(text),
            "valkey: the password and the time of each operation can be read on the network",
            "write rediss://, or encrypt the network; stored values are sealed in any case",
        );
    }
    let authorities =
        if is_secure { Some(authorities(ca, true, false, position(text), reader)?) } else { None };
    let place = StorePlace::Tcp { host: parsed.host, port: parsed.port, authorities };
    Some(StoreUrl { place, user: parsed.user, password: parsed.password, database: parsed.database })
}

/// `unix://[USER[:PASSWORD]@]/run/valkey.sock`
fn unix(text: &Text, rest: &str, reader: &mut Reader<'_>) -> Option<StoreUrl> {
    let (before, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let login = if before.is_empty() { Some((None, None)) } else { before.strip_suffix('@').and_then(login) };
    let Some((user, password)) = login.filter(|_| Path::new(path).is_absolute()) else {
        reader.fault(position(text), "valkey: the path of the socket is not absolute", URL);
        return None;
    };
    Some(StoreUrl { place: StorePlace::Unix(path.into()), user, password, database: 0 })
}

/// `[USER][:PASSWORD]`, percent-encoded.
fn login(text: &str) -> Option<(Option<String>, Option<Secret>)> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let (user, password) = (decoded(user)?.into_owned(), decoded(password)?.into_owned());
    let password = Some(password).filter(|word| !word.is_empty());
    Some((Some(user).filter(|user| !user.is_empty()), password.map(|word| Secret::new(word.into_bytes()))))
}

/// The parts of a URL behind its scheme.
struct StoreAddress {
    host: String,
    port: u16,
    user: Option<String>,
    password: Option<Secret>,
    database: u32,
}

/// `[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]`
fn parse(rest: &str) -> Option<StoreAddress> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (before, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = login(before)?;
    let (host, port) = match host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port != 0)?),
        None => (host, limits::FLEET_PORT),
    };
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host = match bare {
        Some(address) => address.parse::<std::net::Ipv6Addr>().ok()?.to_string(),
        None if host.contains([':', '?', '#', ' ']) || host.is_empty() => return None,
        None => host.to_owned(),
    };
    let database = if path.is_empty() { 0 } else { path.parse().ok()? };
    Some(StoreAddress { host, port, user, password, database })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split_into_their_parts() {
        let shown = |rest: &str| {
            let parts = parse(rest)?;
            let password = parts.password.map(|word| String::from_utf8(word.expose().to_vec()).unwrap());
            Some((parts.host, parts.port, parts.user, password, parts.database))
        };
        let plain = |host: &str, port, database| Some((host.to_owned(), port, None, None, database));
        assert_eq!(shown("127.0.0.1:7000"), plain("127.0.0.1", 7000, 0));
        assert_eq!(shown("store.example.com"), plain("store.example.com", 6379, 0));
        assert_eq!(shown("[2001:db8::1]/3"), plain("2001:db8::1", 6379, 3));
        assert_eq!(shown("[2001:db8::1]:7000/"), plain("2001:db8::1", 7000, 0));
        let full = ("h".to_owned(), 1, Some("edge".to_owned()), Some("p@ss:/".to_owned()), 2);
        assert_eq!(shown("edge:p%40ss:%2F@h:1/2"), Some(full));
        assert_eq!(shown(":word@h").unwrap().3.as_deref(), Some("word"));
        for wrong in ["", "h:0", "h:x", "h/x", "a:b:1", "[h]", "h?a", ":%zz@h", "2001:db8::1"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
