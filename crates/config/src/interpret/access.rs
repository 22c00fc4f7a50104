//! Who may use a site.

use std::time::Duration;

use serde_saphyr::Spanned;

use super::pem::warn_of_open_file;
use super::reader::Reader;
use super::site_tokens::claim_rules;
use crate::accounts::Accounts;
use crate::countries::{Countries, CountryCode};
use crate::limits;
use crate::model::{Access, AddressList, BasicAccess, CertificateName, CountryRules, JwtAccess, Referers};
use crate::networks::{NetworkRange, NetworkSet};
use crate::raw;
use crate::section::{Texts, position};

pub(super) fn access(raw: Option<&Spanned<raw::Access>>, reader: &mut Reader<'_>) -> Access {
    let Some(section) = raw else { return Access::default() };
    let raw = &section.value;
    let allow = raw.allow.as_ref().map(|list| addresses("allow", list, reader));
    if let (Some(list), true) =
        (&raw.allow, allow.as_ref().is_some_and(|allow| *allow == AddressList::default()))
    {
        reader.warning(
            position(list),
            "allow: the list is empty, so no client may use the site",
            "add a network",
        );
    }
    Access {
        allow,
        deny: raw.deny.as_ref().map(|list| addresses("deny", list, reader)).unwrap_or_default(),
        countries: raw.countries.as_ref().and_then(|section| countries(section, reader)),
        referers: raw.referers.as_ref().map(|list| referers(list, reader)),
        certificates: raw.certificates.as_ref().map(|list| certificates(list, reader)),
        basic: raw.basic.as_ref().and_then(|section| basic(section, reader)),
        jwt: raw.jwt.as_ref().and_then(|section| {
            if raw.basic.is_some() {
                reader.fault(
                    position(section),
                    "jwt: basic reads the field Authorization as well",
                    "write one of them; a route may have the other",
                );
            }
            jwt(section, reader)
        }),
    }
}

fn jwt(section: &Spanned<raw::JwtAccess>, reader: &mut Reader<'_>) -> Option<JwtAccess> {
    let raw = &section.value;
    let leeway = reader.time(
        "leeway",
        raw.leeway.as_ref(),
        &(Duration::ZERO..=limits::TOKEN_LEEWAY_MAX),
        limits::TOKEN_LEEWAY_DEFAULT,
    );
    let Some(text) = &raw.keys else {
        reader.fault(position(section), "jwt: it has no keys", "add keys: keys.json");
        return None;
    };
    let claims = claim_rules("keys", text, (raw.issuer.as_ref(), raw.audience.as_ref()), leeway, reader)?;
    Some(JwtAccess { claims, cookie: raw.cookie.as_ref().map(|text| text.value.clone()) })
}

fn addresses(key: &str, list: &Texts, reader: &mut Reader<'_>) -> AddressList {
    let (mut ranges, mut files) = (Vec::new(), Vec::new());
    if list.value.len() > limits::ADDRESS_LIST_ENTRIES {
        let what = format!("{key}: there are {} entries", list.value.len());
        reader.fault(
            position(list),
            what,
            format!("write at most {}, or a file", limits::ADDRESS_LIST_ENTRIES),
        );
    }
    for text in &list.value {
        if let Some(range) = NetworkRange::parse(&text.value) {
            ranges.push(range);
            continue;
        }
        let path = reader.path(text);
        match NetworkSet::read(&path) {
            Ok(networks) => files.push((path, networks)),
            Err(why) => {
                let what = format!("{key}: {} {why}", path.display());
                let instead = "write a network such as 192.0.2.0/24, or a file with one a line";
                reader.fault(position(text), what, instead);
            }
        }
    }
    AddressList { networks: NetworkSet::new(ranges), files }
}

fn countries(section: &Spanned<raw::CountryAccess>, reader: &mut Reader<'_>) -> Option<CountryRules> {
    let raw = &section.value;
    let Some(text) = &raw.file else {
        reader.fault(position(section), "countries: it has no file", "add file: GeoLite2-Country.mmdb");
        return None;
    };
    if raw.allow.is_none() && raw.deny.is_none() {
        reader.fault(position(section), "countries: it names none", "add allow: [DE] or deny: [XX]");
    }
    let allow = raw.allow.as_ref().map(|list| codes("allow", list, reader));
    let deny = raw.deny.as_ref().map(|list| codes("deny", list, reader)).unwrap_or_default();
    let file = reader.path(text);
    match Countries::read(&file) {
        Ok(database) => Some(CountryRules { file, database, allow, deny }),
        Err(why) => {
            let what = format!("file: {} {why}", file.display());
            reader.fault(position(text), what, "write the path of a database of countries (.mmdb)");
            None
        }
    }
}

fn codes(key: &str, list: &Texts, reader: &mut Reader<'_>) -> Vec<CountryCode> {
    let mut codes = Vec::new();
    for text in &list.value {
        let upper = text.value.to_ascii_uppercase();
        match <CountryCode>::try_from(upper.as_bytes()) {
            Ok(code) if code.iter().all(u8::is_ascii_uppercase) => codes.push(code),
            _ => {
                let what = format!("{key}: `{}` is no code of a country", text.value.escape_debug());
                reader.fault(position(text), what, "write two letters such as DE (ISO 3166-1)");
            }
        }
    }
    codes
}

fn referers(list: &Texts, reader: &mut Reader<'_>) -> Referers {
    let mut referers = Referers::default();
    for text in &list.value {
        let name = text.value.to_ascii_lowercase();
        let host = name.strip_prefix("*.").unwrap_or(&name);
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte);
        if name == "none" {
            referers.none = true;
        } else if host.is_empty() || !host.bytes().all(fine) {
            let what = format!("referers: `{}` is not a host", text.value.escape_debug());
            reader.fault(position(text), what, "write such as player.example.com, *.example.com or none");
        } else if host.len() < name.len() {
            referers.under.push(format!(".{host}"));
        } else {
            referers.hosts.push(name);
        }
    }
    referers
}

fn certificates(list: &Texts, reader: &mut Reader<'_>) -> Vec<CertificateName> {
    let name = |text: &str| match text.strip_prefix('*') {
        Some(end) => CertificateName::Ending(end.to_owned()),
        None => CertificateName::Exact(text.to_owned()),
    };
    for text in &list.value {
        if text.value.trim_start_matches('*').is_empty() {
            let what = format!("certificates: `{}` is no name", text.value.escape_debug());
            reader.fault(position(text), what, "write a name, or the end of names such as *.edge.example");
        }
    }
    list.value.iter().map(|text| name(&text.value)).collect()
}

fn basic(section: &Spanned<raw::BasicAccess>, reader: &mut Reader<'_>) -> Option<BasicAccess> {
    let raw = &section.value;
    let Some(text) = &raw.file else {
        reader.fault(position(section), "basic: it has no file", "add file: users.htpasswd");
        return None;
    };
    let file = reader.path(text);
    let realm = raw.realm.as_ref().map_or("Restricted", |text| text.value.as_str());
    if let (Some(text), true) = (
        &raw.realm,
        realm.len() > 200 || realm.chars().any(|one| one.is_control() || one == '"' || one == '\\'),
    ) {
        reader.fault(
            position(text),
            "realm: it has quotes or control characters, or is long",
            "write a short text",
        );
    }
    warn_of_open_file("file", &file, text, reader);
    match Accounts::read(&file) {
        Ok(accounts) => Some(BasicAccess { file, accounts, realm: realm.to_owned() }),
        Err(why) => {
            let what = format!("file: {} {why}", file.display());
            reader.fault(position(text), what, "write a file that htpasswd -B or argon2 made");
            None
        }
    }
}
