//! Cross-origin resource sharing of a site.

use std::time::Duration;

use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::model::{Cors, CorsOrigins};
use crate::raw;
use crate::section::{Text, Texts, position};

/// Reads the section `cors` of a site, or `headers.cors` in its place.
pub(super) fn cors(
    section: Option<&Spanned<raw::Cors>>,
    of_headers: Option<&Text>,
    reader: &mut Reader<'_>,
) -> Option<Cors> {
    let Some(section) = section else {
        return Some(Cors::same(&origin("cors", of_headers?, reader)?));
    };
    if let Some(text) = of_headers {
        reader.fault(position(text), "cors: the site has a section cors as well", "keep one of them");
    }
    let raw = &section.value;
    let origins = origins(raw.origins.as_ref(), section, reader)?;
    let credentials = reader.flag("credentials", raw.credentials.as_ref(), false);
    if let (true, CorsOrigins::Same(_), Some(text)) = (credentials, &origins, &raw.credentials) {
        let what = "credentials: browsers do not send them to a site that allows all origins";
        reader.fault(position(text), what, "name the origins, or remove credentials");
    }
    let range = Duration::ZERO..=Duration::from_secs(limits::CORS_MAX_AGE_SECONDS_MAX);
    let default = Duration::from_secs(limits::CORS_MAX_AGE_SECONDS);
    Some(Cors {
        origins,
        credentials,
        allow: names("allow", raw.allow.as_ref(), reader),
        expose: names("expose", raw.expose.as_ref(), reader),
        max_age: reader.time("max_age", raw.max_age.as_ref(), &range, default),
    })
}

fn origins(
    list: Option<&Texts>,
    section: &Spanned<raw::Cors>,
    reader: &mut Reader<'_>,
) -> Option<CorsOrigins> {
    let Some(list) = list.filter(|list| !list.value.is_empty()) else {
        let instead = "add origins: [https://player.example.com]";
        reader.fault(position(section), "cors: it has no origins", instead);
        return None;
    };
    check_length("origins", list, reader);
    let listed: Vec<String> = list.value.iter().filter_map(|text| origin("origins", text, reader)).collect();
    match list.value.iter().find(|text| text.value == "*") {
        None => Some(CorsOrigins::Listed(listed)),
        Some(all) => {
            if list.value.len() > 1 {
                reader.fault(position(all), "origins: `*` is every origin", "remove the others or `*`");
            }
            Some(CorsOrigins::Same("*".to_owned()))
        }
    }
}

/// Names of fields.
pub(super) fn names(key: &str, list: Option<&Texts>, reader: &mut Reader<'_>) -> Vec<String> {
    let Some(list) = list else { return Vec::new() };
    check_length(key, list, reader);
    let name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let mut names = Vec::new();
    for text in &list.value {
        if !text.value.is_empty() && text.value.bytes().all(name_byte) {
            names.push(text.value.clone());
        } else {
            let what = format!("{key}: `{}` cannot be the name of a field", text.value.escape_debug());
            reader.fault(position(text), what, "write a name such as Authorization");
        }
    }
    names
}

fn check_length(key: &str, list: &Texts, reader: &mut Reader<'_>) {
    let most = limits::CORS_ENTRIES_MAX;
    if list.value.len() > most {
        let what = format!("{key}: there are {} entries", list.value.len());
        reader.fault(position(list), what, format!("write at most {most}"));
    }
}

/// `*` or one origin in the form of the Origin field (RFC 6454 §6.2).
fn origin(name: &str, text: &Text, reader: &mut Reader<'_>) -> Option<String> {
    let origin = text.value.as_str();
    let rest = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    let authority_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if origin == "*" || rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(authority_byte)) {
        return Some(origin.to_owned());
    }
    let host_end = rest.and_then(|rest| rest.find('/'));
    let instead = match (rest, host_end) {
        (Some(rest), Some(end)) if end > 0 => {
            format!("write {}", &origin[..origin.len() - rest.len() + end])
        }
        _ => "write \"*\" or an origin such as https://player.example.com".to_owned(),
    };
    reader.fault(position(text), format!("{name}: `{origin}` is not an origin"), instead);
    None
}
