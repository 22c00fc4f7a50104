//! Signed URLs: their keys, and the places of tokens.

use std::sync::Arc;

use penstock_http::query;
use penstock_sys::traffic::Secret;
use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::model::TokenRules;
use crate::raw;
use crate::section::{Sections, Text, position};
use crate::signing::{SecretForm, SigningKey, is_key_id, read_key_file};

/// The default parameter of the token.
pub(super) const PARAMETER: &str = "token";

pub(super) const NEW_KEY: &str = "make a key with: (umask 077; openssl rand -hex 32 > url-2026a.key)";

pub(super) fn signed_urls(section: &Spanned<raw::SignedUrls>, reader: &mut Reader<'_>) -> TokenRules {
    let raw = &section.value;
    if raw.keys.as_ref().is_none_or(|list| list.value.is_empty()) {
        let instead = format!("write keys: [{{id: 2026a, file: url-2026a.key}}]; {NEW_KEY}");
        reader.fault(position(section), "signed_urls: there is no key", instead);
    }
    let keys = raw.keys.as_ref().map(|list| keys("signed_urls", list, SecretForm::Text, reader));
    let parameter = raw.parameter.as_ref().and_then(|text| parameter("parameter", text, reader));
    let cookie = raw.cookie.as_ref().and_then(|text| cookie(text, reader));
    TokenRules::signed_urls(keys.unwrap_or_default(), parameter.unwrap_or(PARAMETER), cookie)
}

/// Secrets with their names.
pub(super) fn keys(
    section: &str,
    list: &Sections<raw::SigningKey>,
    form: SecretForm,
    reader: &mut Reader<'_>,
) -> Vec<Arc<SigningKey>> {
    let mut keys: Vec<Arc<SigningKey>> = Vec::new();
    check_names(section, list, reader);
    for entry in &list.value {
        let Some((id, file)) = named(entry, reader) else { continue };
        if let Some(secret) = secret("file", file, form, reader) {
            let secret = Arc::new(secret);
            keys.push(Arc::new(SigningKey { id: id.to_owned(), file: reader.path(file), secret }));
        }
    }
    keys
}

/// Checks how many keys a list has, and that no two have one name.
pub(super) fn check_names(section: &str, list: &Sections<raw::SigningKey>, reader: &mut Reader<'_>) {
    if list.value.len() > limits::SIGNING_KEYS_MAX {
        let what = format!("{section}: there are {} keys", list.value.len());
        let here = list.value.first().map_or_else(|| position(list), position);
        reader.fault(here, what, format!("keep the newest {} or fewer", limits::SIGNING_KEYS_MAX));
    }
    for (place, entry) in list.value.iter().enumerate() {
        let Some(id) = &entry.value.id else { continue };
        let is_same = |other: &Spanned<raw::SigningKey>| {
            other.value.id.as_ref().is_some_and(|one| one.value == id.value)
        };
        if list.value[..place].iter().any(is_same) {
            let what = format!("id: `{}` is listed twice", id.value);
            reader.fault(position(entry), what, "give each key an id of its own");
        }
    }
}

/// The name and the file of a key.
pub(super) fn named<'k>(
    section: &'k Spanned<raw::SigningKey>,
    reader: &mut Reader<'_>,
) -> Option<(&'k str, &'k Text)> {
    let raw = &section.value;
    let (Some(id), Some(file)) = (&raw.id, &raw.file) else {
        let what = "keys: a key needs an id and a file";
        reader.fault(position(section), what, "write {id: 2026a, file: url-2026a.key}");
        return None;
    };
    if !is_key_id(&id.value) {
        let what = format!("id: `{}` has characters that are not allowed in a URL", id.value.escape_debug());
        let most = limits::SIGNING_KEY_ID_BYTES;
        reader.fault(
            position(id),
            what,
            format!("write up to {most} letters, digits, - or _, such as 2026a"),
        );
        return None;
    }
    Some((&id.value, file))
}

/// The secret of a file that the key `name` has.
pub(super) fn secret(name: &str, text: &Text, form: SecretForm, reader: &mut Reader<'_>) -> Option<Secret> {
    let path = reader.path(text);
    let (bytes, readable_by_others) = match read_key_file(&path) {
        Ok(found) => found,
        Err(error) => {
            reader.fault(
                position(text),
                format!("{name}: {} {error}", path.display()),
                format!("write the path of a key's file, or {NEW_KEY}"),
            );
            return None;
        }
    };
    if readable_by_others {
        let what = format!("{name}: {} may be read by every user of this machine", path.display());
        reader.warning(position(text), what, "run chmod 600 on it: the key signs URLs");
    }
    match form.secret(bytes) {
        Ok(secret) => Some(secret),
        Err(why) => {
            reader.fault(position(text), format!("{name}: {} {why}", path.display()), NEW_KEY);
            None
        }
    }
}

pub(super) fn parameter<'t>(key: &str, text: &'t Text, reader: &mut Reader<'_>) -> Option<&'t str> {
    if matches!(query::Name::parse(&text.value), Some(query::Name::Exact(_))) && !text.value.contains('/') {
        return Some(&text.value);
    }
    let what = format!("{key}: `{}` cannot be a query parameter", text.value.escape_debug());
    reader.fault(position(text), what, "write a plain name such as token");
    None
}

/// RFC 6265 §4.1.1: a token.
pub(super) fn cookie<'t>(text: &'t Text, reader: &mut Reader<'_>) -> Option<&'t str> {
    if is_token(&text.value) {
        return Some(&text.value);
    }
    let what = format!("cookie: `{}` cannot be the name of a cookie", text.value.escape_debug());
    reader.fault(position(text), what, "write a plain name such as video_token");
    None
}

/// RFC 9110 §5.6.2.
pub(super) fn is_token(text: &str) -> bool {
    let token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(token_byte)
}
