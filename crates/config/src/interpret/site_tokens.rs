//! Tokens that requests of a site carry, in formats of several systems.

use std::sync::Arc;
use std::time::Duration;

use serde_saphyr::Spanned;

use super::pem::warn_of_open_file;
use super::reader::Reader;
use super::signed_urls::{PARAMETER, check_names, cookie, is_token, keys, named, parameter, secret};
use crate::limits;
use crate::model::{
    AkamaiTokens, ClaimRules, ExpiredAnswer, JwtTokens, LinkExpression, PublicKey, SecureLink, TokenFormat,
    TokenRules,
};
use crate::raw;
use crate::revoked::RevokedTokens;
use crate::section::{Text, WordOr, position};
use crate::signing::{SecretForm, SigningKey};
use crate::token_keys::TokenKeys;

/// What nginx's documentation has.
const EXPRESSION: &str = "$secure_link_expires$uri$remote_addr $secret";

const FORMATS: &str = "write secure_link, akamai, cloudfront, jwt, cat or penstock";

/// The fields that a token could not be read from: they have another meaning.
const OTHER_FIELDS: [&str; 6] =
    ["host", "cookie", "range", "content-length", "connection", "transfer-encoding"];

/// Reads a section; `None` for `off` and after a fault.
pub(super) fn site_tokens(
    written: &Spanned<WordOr<raw::Tokens>>,
    reader: &mut Reader<'_>,
) -> Option<TokenRules> {
    let raw = match &written.value {
        WordOr::Section(section) => section,
        WordOr::Word(word) if matches!(word.as_str(), "off" | "false") => return None,
        WordOr::Word(word) => {
            let what = format!("tokens: `{}` is unknown", word.escape_debug());
            reader.fault(position(written), what, "write {format: penstock, key: token.key}, or off");
            return None;
        }
    };
    let Some(name) = &raw.format else {
        reader.fault(position(written), "tokens: it has no format", FORMATS);
        return None;
    };
    if raw.key.is_some() == raw.keys.as_ref().is_some_and(|list| !list.value.is_empty()) {
        let what = if raw.key.is_some() { "tokens: it has key and keys" } else { "tokens: there is no key" };
        reader.fault(position(written), what, "write key: FILE, or keys: [{id: 2026a, file: FILE}]");
        return None;
    }
    let leeway = reader.time(
        "leeway",
        raw.leeway.as_ref(),
        &(Duration::ZERO..=limits::TOKEN_LEEWAY_MAX),
        limits::TOKEN_LEEWAY_DEFAULT,
    );
    check_keys_of_format(raw, &name.value, reader);
    let (format, default) = match name.value.as_str() {
        "penstock" => (TokenFormat::Penstock(secrets(raw, SecretForm::Text, reader)), PARAMETER),
        "secure_link" => (TokenFormat::SecureLink(secure_link(raw, reader)?), "md5"),
        "akamai" => (TokenFormat::Akamai(akamai(raw, reader)), "hdnts"),
        "cloudfront" => (TokenFormat::CloudFront(public_keys(raw, reader)), "Signature"),
        "jwt" => (TokenFormat::Jwt(jwt(raw, leeway, reader)?), PARAMETER),
        "cat" => (TokenFormat::Cat(claims(raw, leeway, reader)?), "CAT"),
        other => {
            let what = format!("format: `{}` is unknown", other.escape_debug());
            reader.fault(position(name), what, FORMATS);
            return None;
        }
    };
    let is_cat = matches!(format, TokenFormat::Cat(_));
    let mut rules = TokenRules {
        format,
        parameter: default.to_owned(),
        field: is_cat.then(|| "cta-common-access-token".to_owned()),
        leeway,
        ..TokenRules::signed_urls(Vec::new(), "", None)
    };
    places(raw, &mut rules, reader);
    rules.expired = expired(raw.expired.as_ref(), reader);
    rules.revoked = raw.revoked.as_ref().and_then(|text| {
        let path = reader.path(text);
        match RevokedTokens::read(&path) {
            Ok(list) => Some((path, list)),
            Err(why) => {
                let what = format!("revoked: {} {why}", path.display());
                reader.fault(position(text), what, "write a file with one id a line; it may be empty");
                None
            }
        }
    });
    Some(rules)
}

/// Keys that other formats have.
fn check_keys_of_format(raw: &raw::Tokens, format: &str, reader: &mut Reader<'_>) {
    let of_formats: [(&str, Option<&Text>, &[&str]); 8] = [
        ("expression", raw.expression.as_ref(), &["secure_link"]),
        ("expires", raw.expires.as_ref(), &["secure_link"]),
        ("salt", raw.salt.as_ref(), &["akamai"]),
        ("issuer", raw.issuer.as_ref(), &["jwt", "cat"]),
        ("audience", raw.audience.as_ref(), &["jwt", "cat"]),
        ("path_claim", raw.path_claim.as_ref(), &["jwt"]),
        ("client_claim", raw.client_claim.as_ref(), &["jwt"]),
        ("parameter", raw.parameter.as_ref().filter(|_| format == "cloudfront"), &[]),
    ];
    for (key, text, formats) in of_formats {
        if let Some(text) = text.filter(|_| !formats.contains(&format)) {
            let what = format!("{key}: tokens of the format {} have none", format.escape_debug());
            reader.fault(position(text), what, "remove it");
        }
    }
    let of_cloudfront = [("cookie", &raw.cookie), ("field", &raw.field)];
    for (key, text) in of_cloudfront.into_iter().filter(|_| format == "cloudfront") {
        if let Some(text) = text {
            let what = format!("{key}: CloudFront has names of its own, such as CloudFront-Signature");
            reader.fault(position(text), what, "remove it");
        }
    }
}

/// Where the token comes.
fn places(raw: &raw::Tokens, rules: &mut TokenRules, reader: &mut Reader<'_>) {
    if let Some(name) = raw.parameter.as_ref().and_then(|text| parameter("parameter", text, reader)) {
        name.clone_into(&mut rules.parameter);
    }
    rules.cookie = raw.cookie.as_ref().and_then(|text| cookie(text, reader)).map(str::to_owned);
    if let Some(text) = &raw.field {
        let name = text.value.to_ascii_lowercase();
        if !is_token(&name) || OTHER_FIELDS.contains(&name.as_str()) {
            let what = format!("field: `{}` cannot be a field with a token", text.value.escape_debug());
            reader.fault(position(text), what, "write a name such as X-Token");
        }
        rules.field = Some(name);
    }
    rules.sets_cookie = reader.flag("set_cookie", raw.set_cookie.as_ref(), false);
    let has_cookies = rules.cookie.is_some() || matches!(rules.format, TokenFormat::CloudFront(_));
    if let Some(text) = raw.set_cookie.as_ref().filter(|_| rules.sets_cookie && !has_cookies) {
        reader.fault(position(text), "set_cookie: there is no cookie", "add cookie: video_token");
    }
}

fn expired(text: Option<&Text>, reader: &mut Reader<'_>) -> ExpiredAnswer {
    match text.map(|text| (text, text.value.as_str())) {
        None | Some((_, "403")) => ExpiredAnswer::Forbidden,
        Some((_, "410")) => ExpiredAnswer::Gone,
        Some((text, other)) => {
            let what = format!("expired: `{}` is no status for it", other.escape_debug());
            reader.fault(position(text), what, "write 403 or 410");
            ExpiredAnswer::Forbidden
        }
    }
}

/// The secrets of `key` or `keys`.
fn secrets(raw: &raw::Tokens, form: SecretForm, reader: &mut Reader<'_>) -> Vec<Arc<SigningKey>> {
    match (&raw.key, &raw.keys) {
        (Some(text), _) => {
            let found = secret("key", text, form, reader).map(Arc::new);
            let file = reader.path(text);
            found.map(|secret| Arc::new(SigningKey { id: String::new(), file, secret })).into_iter().collect()
        }
        (None, Some(list)) => keys("tokens", list, form, reader),
        (None, None) => Vec::new(),
    }
}

/// Warns of secrets that a client could find out from one token.
fn warn_of_short(raw: &raw::Tokens, keys: &[Arc<SigningKey>], reader: &mut Reader<'_>) {
    let here = raw.key.as_ref().map(position).or_else(|| raw.keys.as_ref().map(position));
    let least = limits::SIGNING_KEY_BYTES_MIN;
    if let (Some(here), true) = (here, keys.iter().any(|key| key.secret.expose().len() < least)) {
        let what = format!("key: a secret of less than {least} bytes can be found by trying");
        reader.warning(here, what, "make a longer one, and change it in the backend too");
    }
}

fn secure_link(raw: &raw::Tokens, reader: &mut Reader<'_>) -> Option<SecureLink> {
    let keys = secrets(raw, SecretForm::Short, reader);
    warn_of_short(raw, &keys, reader);
    let expires = raw.expires.as_ref().and_then(|text| parameter("expires", text, reader));
    let written = raw.expression.as_ref().map_or(EXPRESSION, |text| &text.value);
    match LinkExpression::parse(written) {
        Ok(expression) => {
            Some(SecureLink { keys, expires: expires.unwrap_or("expires").to_owned(), expression })
        }
        Err(why) => {
            let here = raw.expression.as_ref().map_or_else(Default::default, position);
            reader.fault(here, format!("expression: it {why}"), format!("write such as \"{EXPRESSION}\""));
            None
        }
    }
}

fn akamai(raw: &raw::Tokens, reader: &mut Reader<'_>) -> AkamaiTokens {
    let keys = secrets(raw, SecretForm::Hexadecimal, reader);
    warn_of_short(raw, &keys, reader);
    let salt = raw.salt.as_ref().and_then(|text| {
        let secret = Arc::new(secret("salt", text, SecretForm::Short, reader)?);
        Some(Arc::new(SigningKey { id: String::new(), file: reader.path(text), secret }))
    });
    AkamaiTokens { keys, salt }
}

fn public_keys(raw: &raw::Tokens, reader: &mut Reader<'_>) -> Vec<PublicKey> {
    let mut files: Vec<(&str, &Text)> = raw.key.iter().map(|text| ("", text)).collect();
    if let Some(list) = &raw.keys {
        check_names("tokens", list, reader);
        files.extend(list.value.iter().filter_map(|entry| named(entry, reader)));
    }
    let mut keys = Vec::new();
    for (id, text) in files {
        let file = reader.path(text);
        match TokenKeys::read_rsa(&file) {
            Ok(found) => keys.push(PublicKey { id: id.to_owned(), file, keys: found }),
            Err(why) => {
                let what = format!("key: {} {why}", file.display());
                reader.fault(position(text), what, "write the public key of RSA in PEM that CloudFront has");
            }
        }
    }
    keys
}

fn jwt(raw: &raw::Tokens, leeway: Duration, reader: &mut Reader<'_>) -> Option<JwtTokens> {
    let claims = claims(raw, leeway, reader)?;
    let name = |text: &Text| text.value.clone();
    let path_claim = raw.path_claim.as_ref().map(name);
    Some(JwtTokens { claims, path_claim, client_claim: raw.client_claim.as_ref().map(name) })
}

fn claims(raw: &raw::Tokens, leeway: Duration, reader: &mut Reader<'_>) -> Option<ClaimRules> {
    let Some(text) = &raw.key else {
        let here = raw.keys.as_ref().map_or_else(Default::default, position);
        reader.fault(here, "keys: a JWKS (RFC 7517) has several keys itself", "write key: keys.json");
        return None;
    };
    claim_rules("key", text, (raw.issuer.as_ref(), raw.audience.as_ref()), leeway, reader)
}

/// The keys of a file, and what the claims of its tokens have to be.
pub(super) fn claim_rules(
    key: &str,
    text: &Text,
    (issuer, audience): (Option<&Text>, Option<&Text>),
    leeway: Duration,
    reader: &mut Reader<'_>,
) -> Option<ClaimRules> {
    let file = reader.path(text);
    let value = |text: &Text| text.value.clone();
    match TokenKeys::read(&file) {
        Ok(keys) => {
            if keys.has_secret() {
                warn_of_open_file(key, &file, text, reader);
            }
            let (issuer, audience) = (issuer.map(value), audience.map(value));
            Some(ClaimRules { file, keys, issuer, audience, leeway })
        }
        Err(why) => {
            let what = format!("{key}: {} {why}", file.display());
            reader.fault(position(text), what, "write a JWKS (RFC 7517), or a public key in PEM");
            None
        }
    }
}
