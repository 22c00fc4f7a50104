//! Signed URLs: their keys, and the places of tokens.

use std::sync::Arc;

use penstock_http::query;
use penstock_sys::traffic::Secret;
use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::raw;
use crate::section::{Text, position};
use crate::signing::{SignedUrls, SigningKey, is_key_id, read_key_file, secret_of_file};

/// The default parameter of the token.
const PARAMETER: &str = "token";

const NEW_KEY: &str = "make a key with: (umask 077; openssl rand -hex 32 > url-2026a.key)";

pub(super) fn signed_urls(
    raw: Option<&Spanned<raw::SignedUrls>>,
    reader: &mut Reader<'_>,
) -> Option<SignedUrls> {
    let section = raw?;
    let raw = &section.value;
    let list = raw.keys.as_ref().map_or(&[][..], |list| &list.value);
    if list.is_empty() {
        let instead = format!("write keys: [{{id: 2026a, file: url-2026a.key}}]; {NEW_KEY}");
        reader.fault(position(section), "signed_urls: there is no key", instead);
    }
    if list.len() > limits::SIGNING_KEYS_MAX {
        let what = format!("signed_urls: there are {} keys", list.len());
        reader.fault(
            position(section),
            what,
            format!("keep the newest {} or fewer", limits::SIGNING_KEYS_MAX),
        );
    }
    let mut keys: Vec<Arc<SigningKey>> = Vec::new();
    for entry in list {
        let Some(key) = key(entry, reader) else { continue };
        if keys.iter().any(|known| known.id == key.id) {
            let what = format!("id: `{}` is listed twice", key.id);
            reader.fault(position(entry), what, "give each key an id of its own");
        }
        keys.push(Arc::new(key));
    }
    let parameter = raw.parameter.as_ref().map_or(Some(PARAMETER), |text| parameter(text, reader));
    let cookie = raw.cookie.as_ref().and_then(|text| cookie(text, reader));
    Some(SignedUrls {
        keys,
        parameter: parameter.unwrap_or(PARAMETER).to_owned(),
        cookie: cookie.map(str::to_owned),
    })
}

fn key(section: &Spanned<raw::SigningKey>, reader: &mut Reader<'_>) -> Option<SigningKey> {
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
    Some(SigningKey { id: id.value.clone(), secret: secret(file, reader)? })
}

fn secret(text: &Text, reader: &mut Reader<'_>) -> Option<Secret> {
    let path = reader.path(text);
    let (bytes, readable_by_others) = match read_key_file(&path) {
        Ok(found) => found,
        Err(error) => {
            reader.fault(
                position(text),
                format!("file: {} cannot be read ({error})", path.display()),
                format!("write the path of a key's file, or {NEW_KEY}"),
            );
            return None;
        }
    };
    if readable_by_others {
        let what = format!("file: {} may be read by every user of this machine", path.display());
        reader.warning(position(text), what, "run chmod 600 on it: the key signs URLs");
    }
    let secret = secret_of_file(bytes);
    if secret.is_none() {
        let least = limits::SIGNING_KEY_BYTES_MIN;
        let what = format!("file: {} has less than {least} bytes", path.display());
        reader.fault(position(text), what, NEW_KEY);
    }
    secret
}

fn parameter<'t>(text: &'t Text, reader: &mut Reader<'_>) -> Option<&'t str> {
    if matches!(query::Name::parse(&text.value), Some(query::Name::Exact(_))) && !text.value.contains('/') {
        return Some(&text.value);
    }
    let what = format!("parameter: `{}` cannot be a query parameter", text.value.escape_debug());
    reader.fault(position(text), what, "write a plain name such as token");
    None
}

/// RFC 6265 §4.1.1: a token.
fn cookie<'t>(text: &'t Text, reader: &mut Reader<'_>) -> Option<&'t str> {
    let token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !text.value.is_empty() && text.value.bytes().all(token_byte) {
        return Some(&text.value);
    }
    let what = format!("cookie: `{}` cannot be the name of a cookie", text.value.escape_debug());
    reader.fault(position(text), what, "write a plain name such as video_token");
    None
}
