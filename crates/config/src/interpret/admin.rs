//! The admin listener.

use penstock_sys::traffic::Secret;
use serde_saphyr::Spanned;

use super::fleet::private_file;
use super::reader::Reader;
use crate::limits;
use crate::model::{Admin, AdminAddress, UNIX};
use crate::raw;
use crate::section::{Position, Text, Texts, position};
use crate::signing::secret_of_file;

/// The admin listener, and where its address is configured.
pub(super) fn admin(
    section: Option<&Spanned<raw::Admin>>,
    reader: &mut Reader<'_>,
) -> Option<(Admin, Position)> {
    let section = section?;
    let raw = &section.value;
    let address = match &raw.address {
        Some(text) => address(text, reader)?,
        None => AdminAddress::Tcp(([127, 0, 0, 1], limits::ADMIN_PORT).into()),
    };
    let here = raw.address.as_ref().map_or_else(|| position(section), position);
    let token = raw.token.as_ref().and_then(|text| token(text, reader));
    if address.tcp().is_some_and(|address| !address.ip().is_loopback()) {
        let (what, instead) = match raw.token {
            None => (
                format!("address: every machine that reaches {address} can read metrics and purge the cache"),
                "write a loopback address such as 127.0.0.1:9600, restrict the port by a firewall, or add token: FILE",
            ),
            Some(_) => (
                format!("address: who can read the network can read the token that is sent to {address}"),
                "write a loopback address such as 127.0.0.1:9600, or use it through a private network only",
            ),
        };
        reader.warning(here, what, instead);
    }
    let hosts = raw.hosts.as_ref().map_or_else(Vec::new, |list| hosts(list, reader));
    let mode = raw.mode.as_ref().map_or(Admin::MODE, |text| mode(text, reader));
    Some((Admin { address, mode, hosts, token }, here))
}

/// The longest path of a socket (`sun_path` of unix(7), with its last zero).
const SOCKET_PATH_BYTES: usize = 107;

fn address(text: &Text, reader: &mut Reader<'_>) -> Option<AdminAddress> {
    let Some(path) = text.value.strip_prefix(UNIX) else {
        return reader.address("address", text).map(AdminAddress::Tcp);
    };
    let path = (!path.is_empty())
        .then(|| reader.absolute(&Text::new(path.to_owned(), text.referenced, text.defined)));
    let path = path.filter(|path| path.as_os_str().len() <= SOCKET_PATH_BYTES);
    if path.is_none() {
        let what = format!("address: `{}` is not the path of a socket", text.value.escape_debug());
        reader.fault(position(text), what, "write at most 107 bytes, such as unix:/run/penstock/admin.sock");
    }
    path.map(AdminAddress::Unix)
}

/// The permissions of a Unix socket.
fn mode(text: &Text, reader: &mut Reader<'_>) -> u32 {
    match text.value.as_str() {
        "0600" | "600" => 0o600,
        "0660" | "660" => 0o660,
        other => {
            let what = format!("mode: `{}` is no mode", other.escape_debug());
            reader.fault(position(text), what, "write 0600, or 0660 for the group too");
            Admin::MODE
        }
    }
}

/// The token in a file: one line of visible ASCII characters, so that it can be sent in a field.
fn token(text: &Text, reader: &mut Reader<'_>) -> Option<Secret> {
    const INSTEAD: &str = "make one with: (umask 077; openssl rand -hex 32 > admin.token)";
    const DANGER: &str = "run chmod 600 on it: its holder can purge the cache";
    let bytes = private_file("token", text, INSTEAD, DANGER, reader)?;
    let secret = secret_of_file(bytes).filter(|secret| secret.expose().iter().all(u8::is_ascii_graphic));
    if secret.is_none() {
        let what = format!(
            "token: {} has no line of at least 16 visible ASCII characters",
            reader.path(text).display()
        );
        reader.fault(position(text), what, INSTEAD);
    }
    secret
}

fn hosts(list: &Texts, reader: &mut Reader<'_>) -> Vec<String> {
    if list.value.len() > limits::ADMIN_HOSTS_MAX {
        let what = format!("hosts: there are {} names", list.value.len());
        reader.fault(position(list), what, format!("write at most {}", limits::ADMIN_HOSTS_MAX));
    }
    let mut hosts: Vec<String> = Vec::new();
    for text in &list.value {
        let name = text.value.to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        let label_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(label_byte);
        if name.split('.').all(is_label) {
            hosts.push(name.to_owned());
        } else {
            let what = format!("hosts: `{}` is not a DNS name", text.value.escape_debug());
            reader.fault(position(text), what, "write a name without a port, such as edge1.example.com");
        }
    }
    hosts
}
