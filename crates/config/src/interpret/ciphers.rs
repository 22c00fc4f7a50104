//! Cipher suites in their order, and which clients get ChaCha20.

use penstock_sys::traffic::ProtocolVersion;
use penstock_tls::{ChaCha20, LEGACY_SUITES, SUITES, Suite};
use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::raw;
use crate::section::{Text, Texts, position};

/// The suites in order, and which clients get ChaCha20; `None` unless the key has a valid value.
pub(super) fn ciphers(
    section: Option<&Spanned<raw::Ciphers>>,
    legacy: bool,
    reader: &mut Reader<'_>,
) -> (Vec<&'static Suite>, Option<ChaCha20>) {
    let raw = section.map(|section| &section.value);
    let mut suites = list("tls13", ProtocolVersion::Tls13, raw.and_then(|raw| raw.tls13.as_ref()), reader);
    let tls12 = raw.and_then(|raw| raw.tls12.as_ref());
    suites.extend(list("tls12", ProtocolVersion::Tls12, tls12, reader));
    if let Some(list) = tls12 {
        judge_legacy(list, &suites, legacy, reader);
    } else if legacy {
        suites.extend(&LEGACY_SUITES);
    }
    let chacha20 = raw.and_then(|raw| raw.chacha20.as_ref()).and_then(|text| chacha20_mode(text, reader));
    (suites, chacha20)
}

/// Requires legacy suites with legacy versions, which have no others, and refuses them without.
fn judge_legacy(list: &Texts, suites: &[&Suite], legacy: bool, reader: &mut Reader<'_>) {
    let old = suites.iter().find(|suite| suite.is_legacy());
    match (old, legacy) {
        (Some(old), false) => {
            let what = format!("tls12: {} is only for clients of TLS 1.0 and 1.1", old.openssl_name);
            reader.fault(position(list), what, "remove it, or add \"1.0\" and \"1.1\" to versions");
        }
        (None, true) => {
            let what = "tls12: TLS 1.1 and older know none of these suites";
            let instead = "add ECDHE-ECDSA-AES128-SHA and ECDHE-RSA-AES128-SHA, or remove the key";
            reader.fault(position(list), what, instead);
        }
        _ => {}
    }
}

fn list(
    key: &str,
    version: ProtocolVersion,
    list: Option<&Texts>,
    reader: &mut Reader<'_>,
) -> Vec<&'static Suite> {
    let Some(list) = list else { return Suite::all(version) };
    let mut suites: Vec<&'static Suite> = Vec::new();
    for text in &list.value {
        match suite(text.value.as_str(), version) {
            Ok(suite) if suites.contains(&suite) => {
                let what = format!("{key}: {} is listed twice", text.value);
                reader.fault(position(text), what, "keep one of them");
            }
            Ok(suite) => suites.push(suite),
            Err((what, instead)) => reader.fault(position(text), format!("{key}: {what}"), instead),
        }
    }
    if list.value.is_empty() {
        let instead = "remove the key; to leave a version of TLS out, write tls.versions";
        reader.fault(position(list), format!("{key}: the list is empty"), instead);
    }
    suites
}

/// The suite of that name, or the fault and its remedy.
fn suite(name: &str, version: ProtocolVersion) -> Result<&'static Suite, (String, String)> {
    let is_named = |suite: &&Suite| {
        suite.name.eq_ignore_ascii_case(name) || suite.openssl_name.eq_ignore_ascii_case(name)
    };
    if let Some(found) = SUITES.iter().chain(&LEGACY_SUITES).find(is_named) {
        if found.version == version {
            return Ok(found);
        }
        let home = if found.version == ProtocolVersion::Tls13 { "tls13" } else { "tls12" };
        return Err((format!("{name} is not a suite of this version"), format!("move it to {home}")));
    }
    let what = format!(
        "`{name}` is not a supported suite: those have forward secrecy and AES-GCM or ChaCha20-Poly1305"
    );
    let instead = match nearest(name, version) {
        Some(near) => format!("write {near}"),
        None => {
            let all: Vec<&str> = Suite::all(version).into_iter().map(|suite| suite.openssl_name).collect();
            format!("write one of: {}", all.join(", "))
        }
    };
    Err((what, instead))
}

/// The most similar name of a suite, in either spelling.
fn nearest(name: &str, version: ProtocolVersion) -> Option<&'static str> {
    let name = name.to_ascii_uppercase();
    let tolerated = name.len() / 3;
    Suite::all(version)
        .into_iter()
        .flat_map(|suite| [suite.name, suite.openssl_name])
        .map(|candidate| (strsim::osa_distance(&name, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerated)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn chacha20_mode(text: &Text, reader: &mut Reader<'_>) -> Option<ChaCha20> {
    let found = ChaCha20::named(&text.value);
    if found.is_none() {
        let what = format!("chacha20: `{}` is unknown", text.value);
        reader.fault(position(text), what, "write client, never or auto");
    }
    found
}
