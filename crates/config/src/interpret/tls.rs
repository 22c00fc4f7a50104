//! The policy of handshakes.

use std::path::PathBuf;

use penstock_tls::Group;
use serde_saphyr::Spanned;

use super::certificates::{certificates, directories};
use super::ciphers;
use super::client_certificates::client_certificates;
use super::compression::certificate_compression;
use super::early_data::early_data;
use super::ech;
use super::ocsp::ocsp;
use super::reader::Reader;
use super::tickets::tickets;
use super::unknown_keys::nearest;
use super::versions::{Versions, versions};
use crate::model::{KernelTls, SessionCache, Tls};
use crate::raw;
use crate::section::{Text, Texts, WordOr, position};

pub(super) fn tls(section: Option<&Spanned<raw::Tls>>, reader: &mut Reader<'_>) -> Tls {
    let default = Tls::default();
    let Some(Spanned { value: raw, .. }) = section else { return default };
    let Versions { oldest, newest, legacy } = versions(raw.versions.as_ref(), reader);
    let (suites, chacha20) = ciphers::ciphers(raw.ciphers.as_ref(), legacy.is_some(), reader);
    let ocsp = raw.ocsp.as_ref().and_then(|section| ocsp(section, reader)).unwrap_or(default.ocsp);
    let certificates = certificates(raw, &ocsp, reader);
    let certificate_directories = directories(raw, reader);
    let ech = ech::ech(raw.ech.as_ref(), newest, reader);
    let named = certificates.iter().flat_map(|one| one.certificate.names());
    let found = certificate_directories.iter().flat_map(|directory| &directory.found);
    let covered = named.chain(found.flat_map(|one| one.summary.names())).map(String::as_str);
    ech::warn(raw.ech.as_ref(), ech.as_deref(), covered, reader);
    Tls {
        certificates,
        certificate_directories,
        // Added when the sites are known.
        acme: None,
        oldest,
        newest,
        legacy,
        kernel: raw.kernel.as_ref().and_then(|text| kernel(text, reader)).unwrap_or(default.kernel),
        groups: raw.groups.as_ref().map_or(default.groups, |list| groups(list, reader)),
        asks_for_best_group: raw
            .hello_retry
            .as_ref()
            .and_then(|text| hello_retry(text, reader))
            .unwrap_or(default.asks_for_best_group),
        suites,
        chacha20: chacha20.unwrap_or(default.chacha20),
        tickets: tickets(raw.tickets.as_ref(), reader),
        session_cache: session_cache(raw.session_cache.as_ref(), reader),
        early_data: early_data(raw.early_data.as_ref(), newest, reader),
        certificate_compression: raw
            .certificate_compression
            .as_ref()
            .map_or(default.certificate_compression, |list| certificate_compression(list, reader)),
        ocsp,
        ech,
        client_certificates: client_certificates(raw.client_certificates.as_ref(), reader),
        key_log: raw.key_log.as_ref().map(|text| key_log(text, reader)),
    }
}

fn kernel(text: &Text, reader: &mut Reader<'_>) -> Option<KernelTls> {
    match text.value.as_str() {
        "auto" => return Some(KernelTls::Auto),
        "off" | "false" => return Some(KernelTls::Off),
        "on" | "true" => return Some(KernelTls::On),
        other => {
            reader.fault(position(text), format!("kernel: `{other}` is unknown"), "write auto, on or off")
        }
    }
    None
}

const GROUPS: [(&str, Group); 4] = [
    ("X25519MLKEM768", Group::X25519MlKem768),
    ("X25519", Group::X25519),
    ("P-256", Group::P256),
    ("P-384", Group::P384),
];

/// Names of P-256 in other programs' configurations.
const OTHER_NAMES_OF_P256: [&str; 4] = ["secp256r1", "prime256v1", "p256", "p_256"];

/// Whether a better group is worth a round trip.
fn hello_retry(text: &Text, reader: &mut Reader<'_>) -> Option<bool> {
    match text.value.as_str() {
        "needed" => return Some(false),
        "best" => return Some(true),
        other => {
            let what = format!("hello_retry: `{other}` is unknown");
            reader.fault(position(text), what, "write needed or best");
        }
    }
    None
}

fn groups(list: &Texts, reader: &mut Reader<'_>) -> Vec<Group> {
    let mut groups = Vec::new();
    for text in &list.value {
        let name = text.value.as_str();
        match GROUPS.iter().find(|(known, _)| *known == name) {
            Some((_, group)) if groups.contains(group) => {
                reader.fault(position(text), format!("groups: {name} is listed twice"), "keep one of them");
            }
            Some((_, group)) => groups.push(*group),
            None => {
                let is_p256 = OTHER_NAMES_OF_P256.contains(&name.to_ascii_lowercase().as_str());
                let near = nearest(name, GROUPS.iter().map(|(known, _)| *known));
                let instead = match near.filter(|_| !is_p256) {
                    _ if is_p256 => "write P-256".to_owned(),
                    Some(near) => format!("write {near}"),
                    None => "write X25519MLKEM768, X25519, P-256 or P-384".to_owned(),
                };
                reader.fault(position(text), format!("groups: `{name}` is unknown"), instead);
            }
        }
    }
    if list.value.is_empty() {
        let instead = "write [X25519MLKEM768, X25519, P-256] or remove the key";
        reader.fault(position(list), "groups: the list is empty", instead);
    }
    groups
}

fn session_cache(
    section: Option<&Spanned<WordOr<raw::SharedSessions>>>,
    reader: &mut Reader<'_>,
) -> SessionCache {
    let Some(cache) = section else { return SessionCache::Internal };
    match &cache.value {
        WordOr::Section(shared) if reader.flag("valkey", shared.valkey.as_ref(), false) => {
            SessionCache::Fleet
        }
        WordOr::Section(_) => SessionCache::Internal,
        WordOr::Word(word) if word == "internal" => SessionCache::Internal,
        WordOr::Word(word) if word == "none" => SessionCache::None,
        WordOr::Word(word) => {
            let what = format!("session_cache: `{word}` is unknown");
            reader.fault(position(cache), what, "write internal, none or {valkey: true}");
            SessionCache::None
        }
    }
}

fn key_log(text: &Text, reader: &mut Reader<'_>) -> PathBuf {
    let path = reader.output_file("key_log", text);
    let what = format!("key_log: a reader of {} can decrypt all traffic", path.display());
    reader.warning(position(text), what, "remove it after debugging");
    path
}
