//! Certificates that are ordered from an authority, for the hosts of the sites.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use penstock_sys::traffic::Secret;
use penstock_tls::Authorities;
use serde_saphyr::Spanned;

use super::pem;
use super::reader::Reader;
use crate::certificate_files::scan;
use crate::limits;
use crate::model::{
    Acme, AcmeChallenge, AcmeKey, CertificateDirectory, ExternalAccount, HostPattern, Listener, Site, Tls,
};
use crate::raw;
use crate::section::{Position, Text, position};
use crate::signing::read_key_file;

/// Let's Encrypt.
pub(crate) const DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Where accounts, certificates and answers are kept if the configuration does not say it.
const STORAGE: &str = "/var/lib/penstock/acme";

/// Reads the section, and adds its certificates to those of the configuration.
pub(super) fn add(
    section: &Spanned<raw::Acme>,
    tls: &mut Tls,
    sites: &[Site],
    listeners: &[Listener],
    has_fleet: bool,
    reader: &mut Reader<'_>,
) {
    let raw = &section.value;
    let here = position(section);
    let shared = reader.flag("valkey", raw.valkey.as_ref(), false);
    if let Some(text) = raw.valkey.as_ref().filter(|_| shared && !has_fleet) {
        let instead = "add fleet: {valkey: \"redis://127.0.0.1:6379\", secret: fleet.key} to the file";
        reader.fault(position(text), "valkey: valkey needs a store", instead);
    }
    agreement(raw.agree_to_terms.as_ref(), here, reader);
    let challenge = challenge(raw, here, reader);
    require_listener(&challenge, raw.challenge.as_ref().map_or(here, position), listeners, reader);
    let storage = raw.storage.as_ref();
    let storage_at = storage.map_or(here, position);
    let storage = storage.map_or_else(|| STORAGE.into(), |text| reader.output_directory("storage", text));
    reader.note_secret("storage", &storage, storage_at);
    let directory = raw.directory.as_ref().map_or_else(|| DIRECTORY.to_owned(), |text| url(text, reader));
    let Some(authorities) = authorities(raw.ca_file.as_ref(), here, reader) else { return };
    let names = names(sites, tls, &challenge, here, reader);
    let acme = Acme {
        directory,
        email: raw.email.as_ref().map(|text| email(text, reader)),
        storage,
        shared,
        challenge,
        key: raw.key.as_ref().map_or_else(AcmeKey::default, |text| key(text, reader)),
        profile: raw.profile.as_ref().map(|text| word("profile", text, reader)),
        authorities,
        external_account: raw.external_account.as_ref().and_then(|raw| external_account(raw, reader)),
        names,
    };
    tls.certificate_directories.push(found(&acme, here));
    tls.acme = Some(acme);
}

/// The certificates of an authority that are there already.
pub(crate) fn found(acme: &Acme, position: Position) -> CertificateDirectory {
    let path = acme.certificates();
    // The directory is made at the start.
    let scan = scan(&path, &[], false).unwrap_or_default();
    CertificateDirectory { path, found: scan.found, unusable: scan.unusable, position }
}

fn agreement(text: Option<&Text>, here: Position, reader: &mut Reader<'_>) {
    if !reader.flag("agree_to_terms", text, false) {
        let what = "acme: the terms of the certificate authority have not been agreed to";
        reader.fault(text.map_or(here, position), what, "read them, and write agree_to_terms: true");
    }
}

fn url(text: &Text, reader: &mut Reader<'_>) -> String {
    let host = text.value.strip_prefix("https://").and_then(|rest| rest.split(['/', ':']).next());
    let plain = text.value.bytes().all(|byte| byte.is_ascii_graphic());
    if !plain || host.is_none_or(str::is_empty) {
        let what = format!("directory: `{}` is not a URL of https", text.value.escape_debug());
        reader.fault(position(text), what, format!("write the URL of the authority, such as {DIRECTORY}"));
    }
    text.value.clone()
}

fn email(text: &Text, reader: &mut Reader<'_>) -> String {
    let address = text.value.strip_prefix("mailto:").unwrap_or(&text.value);
    let is_plain = address.chars().all(|letter| !letter.is_control() && !" ,?\"<>".contains(letter));
    if !is_plain || address.split_once('@').is_none_or(|(name, host)| name.is_empty() || host.is_empty()) {
        let what = format!("email: `{}` is not an address", text.value.escape_debug());
        reader.fault(position(text), what, "write an address such as ops@example.com");
    }
    address.to_owned()
}

fn word(key: &str, text: &Text, reader: &mut Reader<'_>) -> String {
    if text.value.is_empty() || !text.value.bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = format!("{key}: `{}` is not a name", text.value.escape_debug());
        reader.fault(position(text), what, "write it as the authority tells it");
    }
    text.value.clone()
}

fn key(text: &Text, reader: &mut Reader<'_>) -> AcmeKey {
    match text.value.as_str() {
        "ecdsa-p256" => AcmeKey::EcdsaP256,
        "ecdsa-p384" => AcmeKey::EcdsaP384,
        other => {
            let what = format!("key: `{}` is unknown", other.escape_debug());
            reader.fault(position(text), what, "write ecdsa-p256 or ecdsa-p384");
            AcmeKey::default()
        }
    }
}

fn challenge(raw: &raw::Acme, here: Position, reader: &mut Reader<'_>) -> AcmeChallenge {
    let chosen = raw.challenge.as_ref().map_or("http-01", |text| text.value.as_str());
    match (chosen, &raw.command) {
        ("dns-01", Some(command)) => return AcmeChallenge::Dns01(program(command, reader)),
        ("dns-01", None) => {
            reader.fault(here, "acme: dns-01 needs a command", "add command: FILE, which sets the record");
        }
        ("http-01" | "tls-alpn-01", Some(command)) => {
            let what = format!("command: {chosen} has none");
            reader.fault(position(command), what, "remove it, or write challenge: dns-01");
        }
        ("http-01", None) => {}
        ("tls-alpn-01", None) => return AcmeChallenge::TlsAlpn01,
        (other, _) => {
            let what = format!("challenge: `{}` is unknown", other.escape_debug());
            let here = raw.challenge.as_ref().map_or(here, position);
            reader.fault(here, what, "write http-01, tls-alpn-01 or dns-01");
        }
    }
    AcmeChallenge::Http01
}

fn program(text: &Text, reader: &mut Reader<'_>) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = reader.path(text);
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if !is_program(&path) {
        let what = format!("command: {} is not a program", path.display());
        reader.fault(position(text), what, "write the path of a file with chmod +x, without arguments");
    }
    path
}

/// An authority has to reach this server in the way of the challenge.
fn require_listener(
    challenge: &AcmeChallenge,
    here: Position,
    listeners: &[Listener],
    reader: &mut Reader<'_>,
) {
    let (has, what, instead) = match challenge {
        AcmeChallenge::Http01 => (
            listeners.iter().any(|listener| !listener.tls),
            "acme: http-01 needs a listener of plain HTTP, which is reached on port 80",
            "add {address: 0.0.0.0:80, redirect: https} to listeners, or write challenge: tls-alpn-01",
        ),
        AcmeChallenge::TlsAlpn01 => (
            listeners.iter().any(|listener| listener.tls),
            "acme: tls-alpn-01 needs a listener with tls: true, which is reached on port 443",
            "add {address: 0.0.0.0:443, tls: true} to listeners",
        ),
        AcmeChallenge::Dns01(_) => return,
    };
    if !has {
        reader.fault(here, what, instead);
    }
}

fn authorities(file: Option<&Text>, here: Position, reader: &mut Reader<'_>) -> Option<Authorities> {
    if let Some(text) = file {
        return pem::authorities("ca_file", text, reader);
    }
    let of_system = Authorities::of_system();
    if of_system.is_err() {
        let what = "acme: this system has no authorities that sign certificates of servers";
        reader.fault(here, what, "install ca-certificates, or add ca_file: FILE.pem");
    }
    of_system.ok()
}

fn external_account(raw: &Spanned<raw::ExternalAccount>, reader: &mut Reader<'_>) -> Option<ExternalAccount> {
    const INSTEAD: &str = "write {id: ID, key_file: FILE}, with the key in base64url in the file";
    let (Some(id), Some(file)) = (&raw.value.id, &raw.value.key_file) else {
        reader.fault(position(raw), "external_account: it needs an id and a key_file", INSTEAD);
        return None;
    };
    let id = word("id", id, reader);
    let path = reader.path(file);
    let read = read_key_file(&path).map_err(|error| error.to_string());
    let decoded = read.and_then(|(text, is_open)| {
        let text = String::from_utf8_lossy(&text);
        let key = URL_SAFE_NO_PAD.decode(text.trim().trim_end_matches('='));
        let key = key.ok().filter(|key| !key.is_empty());
        key.map(|key| (Secret::new(key), is_open)).ok_or_else(|| "holds no key in base64url".to_owned())
    });
    match decoded {
        Ok((key, is_open)) => {
            if is_open {
                let what = format!("key_file: {} may be read by every user of this machine", path.display());
                reader.warning(position(file), what, "run chmod 600 on it");
            }
            Some(ExternalAccount { id, key })
        }
        Err(what) => {
            reader.fault(position(file), format!("key_file: {} {what}", path.display()), INSTEAD);
            None
        }
    }
}

/// The hosts of the sites that no configured certificate covers.
fn names(
    sites: &[Site],
    tls: &Tls,
    challenge: &AcmeChallenge,
    here: Position,
    reader: &mut Reader<'_>,
) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for host in sites.iter().flat_map(|site| &site.hosts) {
        let name = match host {
            HostPattern::Any => continue,
            HostPattern::Exact(name) if name.parse::<IpAddr>().is_ok() || !name.contains('.') => continue,
            HostPattern::Exact(name) => name.clone(),
            HostPattern::Under(_) => host.to_string(),
        };
        if names.contains(&name) || is_covered(tls, &name) {
            continue;
        }
        if matches!(host, HostPattern::Under(_)) && !matches!(challenge, AcmeChallenge::Dns01(_)) {
            let what = format!("acme: {name} gets no certificate: {} proves single names", challenge.name());
            reader.warning(here, what, "write challenge: dns-01, or list the names");
            continue;
        }
        names.push(name);
    }
    if names.len() > limits::ACME_NAMES {
        let what = format!("acme: {} names are more than {}", names.len(), limits::ACME_NAMES);
        reader.fault(here, what, "use a wildcard with dns-01, or another program and a directory");
    }
    if names.is_empty() {
        let what = "acme: no site has a host that needs a certificate";
        let instead = "write the names in hosts of the sites, such as hosts: [video.example.com]";
        let others = tls.certificate_directories.iter().map(|directory| directory.found.len());
        if tls.certificates.len() + others.sum::<usize>() == 0 {
            reader.fault(here, what, instead);
        } else {
            reader.warning(here, what, instead);
        }
    }
    names
}

/// Whether a certificate of the configuration is for this name.
fn is_covered(tls: &Tls, name: &str) -> bool {
    let named = tls.certificates.iter().flat_map(|one| one.certificate.names());
    let found = tls.certificate_directories.iter().flat_map(|directory| &directory.found);
    let mut covered = named.chain(found.flat_map(|one| one.summary.names()));
    let wildcard = name.split_once('.').map(|(_, domain)| format!("*.{domain}"));
    covered.any(|one| one == name || wildcard.as_ref() == Some(one))
}
