//! The configuration of `penstock keyserver`.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use penstock_tls::remote_key::KeyId;
use serde_saphyr::Spanned;

use super::client_certificates::client_rules;
use super::log::access_log;
use super::reader::Reader;
use super::{admin, pem, tokens, unknown_keys, worker_for_each_core};
use crate::limits;
use crate::model::{KeyserverClient, KeyserverConfig, TokenAccess};
use crate::raw;
use crate::section::{Position, Sections, Text, Texts, position, start};

/// Reads the whole file; `None` after a fault.
pub(crate) fn keyserver(root: &raw::Keyserver, reader: &mut Reader<'_>) -> Option<KeyserverConfig> {
    unknown_keys::report(root, reader);
    let address = required("address", root.address.as_ref(), "address: 0.0.0.0:2407", reader)
        .and_then(|text| reader.address("address", text));
    let chain = required("chain", root.chain.as_ref(), "chain: keyserver.pem", reader);
    let key = required("key", root.key.as_ref(), "key: keyserver.key", reader);
    let certificate = chain.zip(key).and_then(|(chain, key)| pem::certificate(chain, key, reader));
    let ca = required("ca", root.ca.as_ref(), "ca: edges.pem", reader);
    let client_certificates = ca.and_then(|ca| client_rules(ca, root.crl.as_ref(), reader));
    let (directories, tokens) = keys(root.keys.as_ref(), reader);
    let clients = clients(root.clients.as_ref(), reader);
    let admin = admin::admin(root.admin.as_ref(), reader).map(|(admin, _)| admin);
    let log = root.log.as_ref().and_then(|section| section.value.access.as_ref());
    let range = Duration::ZERO..=Duration::from_secs(24 * 3600);
    let drain = Duration::from_secs(limits::KEYSERVER_DRAIN_SECONDS);
    Some(KeyserverConfig {
        address: address?,
        certificate: Arc::new(certificate?),
        client_certificates: client_certificates?,
        directories,
        tokens,
        clients,
        threads: threads(root.threads.as_ref(), reader),
        legacy_hashes: reader.flag("legacy_hashes", root.legacy_hashes.as_ref(), false),
        admin,
        access_log: log.map(|text| access_log(text, reader)),
        drain_deadline: reader.time("drain_deadline", root.drain_deadline.as_ref(), &range, drain),
        warnings: Vec::new(),
    })
}

fn required<'t>(
    key: &str,
    text: Option<&'t Text>,
    instead: &str,
    reader: &mut Reader<'_>,
) -> Option<&'t Text> {
    if text.is_none() {
        reader.fault(Position::NONE, format!("there is no {key}"), format!("write {instead}"));
    }
    text
}

fn threads(raw: Option<&Text>, reader: &mut Reader<'_>) -> NonZeroUsize {
    let automatic = worker_for_each_core();
    let Some(text) = raw.filter(|text| text.value != "auto") else { return automatic };
    let number = reader.number("threads", Some(text), &(1..=limits::WORKERS_MAX as u64), automatic.get());
    NonZeroUsize::new(number).unwrap_or(automatic)
}

/// Directories and tokens.
fn keys(
    raw: Option<&Sections<raw::KeySource>>,
    reader: &mut Reader<'_>,
) -> (Vec<PathBuf>, Vec<Arc<TokenAccess>>) {
    let sections = raw.map_or(&[][..], |list| &list.value);
    if sections.is_empty() {
        reader.fault(start(raw), "there are no keys", "write keys: [{directory: /etc/penstock/keys}]");
    }
    let (mut directories, mut keys) = (Vec::new(), Vec::new());
    let deadline = Duration::from_secs(limits::KEYSERVER_DEADLINE_SECONDS);
    for section in sections {
        match (&section.value.directory, &section.value.pkcs11) {
            (Some(text), None) => directories.push(reader.directory("directory", text)),
            (None, Some(uri)) => keys.extend(tokens::token(uri, deadline, reader)),
            (Some(_), Some(_)) => {
                let what = "keys: this entry names a directory and a hardware module";
                reader.fault(position(section), what, "write an entry for each");
            }
            (None, None) => {
                let what = "keys: this entry names neither a directory nor a hardware module";
                let instead = "write directory: /etc/penstock/keys or pkcs11: \"pkcs11:...\"";
                reader.fault(position(section), what, instead);
            }
        }
    }
    (directories, keys)
}

fn clients(raw: Option<&Sections<raw::KeyserverClient>>, reader: &mut Reader<'_>) -> Vec<KeyserverClient> {
    let sections = raw.map_or(&[][..], |list| &list.value);
    if sections.is_empty() {
        let instead = "write clients: [{name: edge1.example.com, keys: [\"*\"]}]";
        reader.fault(start(raw), "no client may sign", instead);
    }
    if sections.len() > limits::KEYSERVER_CLIENTS_MAX {
        let what = format!("clients: there are {}", sections.len());
        reader.fault(start(raw), what, format!("write at most {}", limits::KEYSERVER_CLIENTS_MAX));
    }
    let mut clients: Vec<KeyserverClient> = Vec::new();
    for section in sections {
        let Some(client) = client(section, reader) else { continue };
        if clients.iter().any(|other| other.name == client.name) {
            let what = format!("clients: `{}` is there twice", client.name.escape_debug());
            reader.fault(position(section), what, "write one entry with all its keys");
        }
        clients.push(client);
    }
    clients
}

fn client(section: &Spanned<raw::KeyserverClient>, reader: &mut Reader<'_>) -> Option<KeyserverClient> {
    let raw = &section.value;
    let (Some(name), Some(keys)) = (&raw.name, &raw.keys) else {
        let instead = "write {name: edge1.example.com, keys: [video.example.com]}";
        reader.fault(position(section), "clients: this entry needs name and keys", instead);
        return None;
    };
    let most = limits::KEYSERVER_CLIENT_OPERATIONS_MAX;
    Some(KeyserverClient {
        name: name.value.clone(),
        keys: keys_of(keys, reader),
        operations: reader.number(
            "operations",
            raw.operations.as_ref(),
            &(1..=most),
            limits::KEYSERVER_CLIENT_OPERATIONS,
        ),
        rate: reader.number("rate", raw.rate.as_ref(), &(0..=limits::KEYSERVER_CLIENT_RATE_MAX), 0),
        connections: reader.number(
            "connections",
            raw.connections.as_ref(),
            &(1..=limits::KEYSERVER_CLIENT_CONNECTIONS_MAX),
            limits::KEYSERVER_CLIENT_CONNECTIONS,
        ),
    })
}

/// The keys; identifiers in lowercase letters.
fn keys_of(list: &Texts, reader: &mut Reader<'_>) -> Option<BTreeSet<String>> {
    if list.value.is_empty() {
        reader.fault(position(list), "keys: this client may use no key", "name one, or write [\"*\"]");
    }
    if list.value.iter().any(|text| text.value == "*") {
        return None;
    }
    let canonical =
        |text: &Text| KeyId::from_hex(&text.value).map_or_else(|| text.value.clone(), |id| id.to_string());
    Some(list.value.iter().map(canonical).collect())
}
