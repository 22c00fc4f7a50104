//! The admin listener.

use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::model::Admin;
use crate::raw;
use crate::section::{Position, Texts, position};

/// The admin listener, and where its address is configured.
pub(super) fn admin(
    section: Option<&Spanned<raw::Admin>>,
    reader: &mut Reader<'_>,
) -> Option<(Admin, Position)> {
    let section = section?;
    let raw = &section.value;
    let default = ([127, 0, 0, 1], limits::ADMIN_PORT).into();
    let address = raw.address.as_ref().map_or(Some(default), |text| reader.address("address", text))?;
    let here = raw.address.as_ref().map_or_else(|| position(section), position);
    if !address.ip().is_loopback() {
        let what =
            format!("address: every machine that reaches {address} can read metrics and purge the cache");
        reader.warning(
            here,
            what,
            "write a loopback address such as 127.0.0.1:9600, or restrict the port by a firewall",
        );
    }
    let hosts = raw.hosts.as_ref().map_or_else(Vec::new, |list| hosts(list, reader));
    Some((Admin { address, hosts }, here))
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
