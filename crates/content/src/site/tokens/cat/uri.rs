//! The claims `catu` and `cath`: parts of a URL and fields, with what each has to match.

use aws_lc_rs::digest::{SHA256, SHA512_256, digest};
use ciborium::Value;
use penstock_config::limits;
use penstock_http::Request;
use penstock_http::query::decoded;
use penstock_sys::digest::is_same;

use super::super::asked::{Asked, Scope};
use super::super::cbor::of_label;
use super::super::text::of_hexadecimal;
use crate::site::token_refusal::TokenRefusal;

/// Labels of the parts of a URL.
const PATH: i128 = 3;

/// How a text is compared.
const EXACT: i128 = 0;
const PREFIX: i128 = 1;

/// Whether all parts of a URL match.
///
/// # Errors
/// [`TokenRefusal::Claim`]: a part or a way to match is not understood, such as a regular expression.
pub(super) fn matches(claim: &Value, asked: &Asked<'_>) -> Result<bool, TokenRefusal> {
    let parts = claim.as_map().ok_or(TokenRefusal::Claim)?;
    let mut all = true;
    for (label, wanted) in parts {
        let label = label.as_integer().map(i128::from).ok_or(TokenRefusal::Claim)?;
        for text in part(label, asked).ok_or(TokenRefusal::Claim)? {
            all &= text_matches(wanted, &text)?;
        }
    }
    Ok(all)
}

/// Whether all fields match that a claim names.
///
/// # Errors
/// See [`matches()`].
pub(super) fn fields_match(claim: &Value, request: &Request<'_>) -> Result<bool, TokenRefusal> {
    let mut all = true;
    for (name, wanted) in claim.as_map().ok_or(TokenRefusal::Claim)? {
        let name = name.as_text().ok_or(TokenRefusal::Claim)?;
        let values: Vec<&[u8]> = request.values(name).collect();
        let value = String::from_utf8(values.join(&b", "[..])).ok();
        all &= text_matches(wanted, value.as_deref().unwrap_or_default())? && !values.is_empty();
    }
    Ok(all)
}

/// What a part of the URL is. A name with several dots has two extensions, both of which have to match: it is not said which
/// is meant.
fn part(label: i128, asked: &Asked<'_>) -> Option<Vec<String>> {
    let path = asked.raw_path;
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    let dots = [name.find('.'), name.rfind('.')].map(|dot| dot.unwrap_or(name.len()));
    let (authority, host) = (asked.request.authority(), asked.request.host());
    let port = authority.strip_prefix(host).and_then(|rest| rest.strip_prefix(':'));
    let usual = if asked.visitor.is_secure { ("https", "443") } else { ("http", "80") };
    Some(match label {
        0 => vec![usual.0.to_owned()],
        1 => vec![host.to_ascii_lowercase()],
        2 => vec![port.unwrap_or(usual.1).to_owned()],
        PATH => vec![path.to_owned()],
        4 => vec![asked.query.unwrap_or_default().to_owned()],
        5 => vec![parent.to_owned()],
        6 => vec![name.to_owned()],
        7 => dots.map(|dot| name[..dot].to_owned()).into(),
        8 => dots.map(|dot| name[dot..].to_owned()).into(),
        _ => return None,
    })
}

/// Whether a text matches in every way that is named.
fn text_matches(wanted: &Value, text: &str) -> Result<bool, TokenRefusal> {
    let ways = wanted.as_map().filter(|ways| !ways.is_empty()).ok_or(TokenRefusal::Claim)?;
    let mut all = true;
    for (way, value) in ways {
        let way = way.as_integer().map(i128::from).ok_or(TokenRefusal::Claim)?;
        let plain = || value.as_text().filter(|text| text.len() <= limits::TOKEN_PATTERN_BYTES);
        let holds = match way {
            EXACT => plain().map(|wanted| text == wanted),
            PREFIX => plain().map(|wanted| text.starts_with(wanted)),
            2 => plain().map(|wanted| text.ends_with(wanted)),
            3 => plain().map(|wanted| text.contains(wanted)),
            -1 => bytes(value).map(|wanted| is_same(&wanted, digest(&SHA256, text.as_bytes()).as_ref())),
            -2 => bytes(value).map(|wanted| is_same(&wanted, digest(&SHA512_256, text.as_bytes()).as_ref())),
            // A regular expression, whose cost its author decides.
            _ => None,
        };
        all &= holds.ok_or(TokenRefusal::Claim)?;
    }
    Ok(all)
}

/// A digest, which some generators write in hexadecimal digits.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Bytes(bytes) => Some(bytes.clone()),
        Value::Text(digits) => of_hexadecimal(digits),
        _ => None,
    }
}

/// The directory of the paths that a claim opens.
pub(super) fn scope(claim: &Value) -> Scope {
    let Some(ways) = of_label(claim, PATH) else { return Scope::Below("/".to_owned()) };
    let prefix = of_label(ways, PREFIX).and_then(Value::as_text).and_then(decoded);
    let directory = prefix.as_ref().and_then(|prefix| Some(&prefix[..=prefix.rfind('/')?]));
    match (directory, of_label(ways, EXACT)) {
        (Some(directory), _) => Scope::Below(directory.to_owned()),
        (None, Some(_)) => Scope::One,
        (None, None) => Scope::Below("/".to_owned()),
    }
}
