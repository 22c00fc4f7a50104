//! The claims of a Common Access Token.

use std::net::IpAddr;

use ciborium::Value;
use penstock_http::HttpVersion;

use super::super::asked::{Asked, Grant, Scope};
use super::super::cat_labels as label;
use super::super::cbor::whole;
use super::super::client_network::ClientNetwork;
use super::super::text::hexadecimal;
use super::uri;
use crate::site::token_refusal::TokenRefusal;

/// What the claims of a token have to be.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) issuer: Option<String>,
    pub(super) audience: Option<String>,
}

/// Claims by label, none of which is there twice.
pub(super) struct ClaimSet(Vec<(i128, Value)>);

impl ClaimSet {
    /// Reads a payload. A claim whose name is text is none of the standard's.
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let mut claims: Vec<(i128, Value)> = Vec::new();
        for (key, value) in whole(payload)?.into_map().ok()? {
            let label = i128::from(key.as_integer()?);
            if claims.iter().any(|(known, _)| *known == label) {
                return None;
            }
            claims.push((label, value));
        }
        Some(Self(claims))
    }

    pub(super) fn get(&self, label: i128) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == label).map(|(_, value)| value)
    }

    /// When the token ends, in seconds since 1970.
    pub(super) fn end(&self) -> Option<u64> {
        seconds(self.get(label::EXPIRES)?)
    }

    /// All claims, with other times.
    pub(super) fn with(&self, times: &[(i128, u64)]) -> Vec<(Value, Value)> {
        let kept = self.0.iter().filter(|(label, _)| times.iter().all(|(other, _)| other != label)).cloned();
        let all = kept.chain(times.iter().map(|(label, time)| (*label, Value::from(*time))));
        all.filter_map(|(label, value)| Some((Value::from(i64::try_from(label).ok()?), value))).collect()
    }

    /// What the claims say for a request.
    pub(super) fn grant(&self, wanted: &Wanted, asked: &Asked<'_>) -> Result<Grant, TokenRefusal> {
        let time = |label| self.get(label).map(|value| seconds(value).ok_or(TokenRefusal::Claim)).transpose();
        // One without an end is refused, as a JSON Web Token is.
        let end = time(label::EXPIRES)?.ok_or(TokenRefusal::Claim)?;
        asked.is_within(time(label::BEGINS)?, end)?;
        if wanted.issuer.is_some() && self.get(label::ISSUER).is_none()
            || wanted.audience.is_some() && self.get(label::AUDIENCE).is_none()
        {
            return Err(TokenRefusal::Claim);
        }
        for (label, value) in &self.0 {
            judge(*label, value, wanted, asked)?;
        }
        let id = self.get(label::ID).and_then(Value::as_bytes).map(|id| hexadecimal(id)).unwrap_or_default();
        let scope = self.get(label::URI).map_or_else(|| Scope::Below("/".to_owned()), uri::scope);
        let subject = self.get(label::SUBJECT).and_then(Value::as_text).map(str::to_owned);
        Ok(Grant { subject, ..Grant::new(end, id, scope) })
    }
}

/// Whether a claim holds. Times have been looked at.
fn judge(label: i128, value: &Value, wanted: &Wanted, asked: &Asked<'_>) -> Result<(), TokenRefusal> {
    use TokenRefusal as R;
    let (holds, refusal) = match label {
        label::EXPIRES | label::BEGINS => (true, R::Claim),
        label::ISSUED => (seconds(value).is_some(), R::Claim),
        label::SUBJECT => (value.is_text(), R::Claim),
        label::ID => (value.is_bytes(), R::Claim),
        label::ISSUER => (is_text(value, wanted.issuer.as_deref()), R::Claim),
        label::AUDIENCE => (is_audience(value, wanted.audience.as_deref()), R::Claim),
        // Only tokens that may come again: what was seen before is not kept.
        label::REPLAY => (integer(value) == Some(0), R::Claim),
        label::VERSION => (integer(value) == Some(1), R::Claim),
        label::ADDRESSES => (any(value, |one| is_address(one, asked.address())), R::OtherClient),
        label::METHODS => {
            let method = asked.request.method().name();
            (any(value, |one| one.as_text() == Some(method)), R::OtherClient)
        }
        label::PROTOCOLS => (any(value, |one| is_protocol(one, asked)), R::OtherClient),
        label::COUNTRIES => {
            let country = (asked.visitor.country)();
            let is_country = |one: &Value| {
                one.as_text().zip(country.as_ref()).is_some_and(|(name, code)| name.as_bytes() == code)
            };
            (any(value, is_country), R::OtherClient)
        }
        label::FIELDS => (uri::fields_match(value, asked.request)?, R::OtherClient),
        label::URI => (uri::matches(value, asked)?, R::OtherPath),
        // An offer of another token, and no restriction.
        label::RENEWAL => (value.is_map(), R::Claim),
        _ => (false, R::Claim),
    };
    if holds { Ok(()) } else { Err(refusal) }
}

/// Whether a list has one of these.
fn any(list: &Value, is_one: impl Fn(&Value) -> bool) -> bool {
    list.as_array().is_some_and(|all| all.iter().any(is_one))
}

fn integer(value: &Value) -> Option<i128> {
    value.as_integer().map(i128::from)
}

/// A time in seconds since 1970, also as a floating-point number or behind the tag of a time (RFC 8392 §2).
fn seconds(value: &Value) -> Option<u64> {
    match value {
        Value::Tag(1, inner) => seconds(inner),
        Value::Integer(number) => u64::try_from(i128::from(*number)).ok(),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time beyond the range is its end"
        )]
        Value::Float(number) => number.is_finite().then_some(*number as u64),
        _ => None,
    }
}

fn is_text(value: &Value, wanted: Option<&str>) -> bool {
    value.as_text().is_some_and(|text| wanted.is_none_or(|wanted| wanted == text))
}

fn is_audience(value: &Value, wanted: Option<&str>) -> bool {
    is_text(value, wanted) || any(value, |one| is_text(one, wanted))
}

/// An address or a network (RFC 9164). Numbers of autonomous systems are not known here, and match no client.
fn is_address(value: &Value, client: IpAddr) -> bool {
    let Value::Tag(tag, inner) = value else { return false };
    let (bytes, bits) = match &**inner {
        Value::Bytes(bytes) => (bytes, None),
        Value::Array(parts) => match parts.as_slice() {
            [Value::Integer(bits), Value::Bytes(bytes)] => (bytes, Some(i128::from(*bits))),
            _ => return false,
        },
        _ => return false,
    };
    // Zeros at the end of a network may be left out.
    let address: Option<IpAddr> = match tag {
        52 => filled::<4>(bytes).map(IpAddr::from),
        54 => filled::<16>(bytes).map(IpAddr::from),
        _ => None,
    };
    let whole = if *tag == 52 { 32 } else { 128 };
    let bits = bits.map_or(Some(whole), |bits| u32::try_from(bits).ok());
    let network = address.zip(bits).and_then(|(address, bits)| ClientNetwork::new(address, bits));
    network.is_some_and(|network| network.has(client))
}

fn filled<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let mut all = [0; N];
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(all)
}

/// Whether a name of ALPN is that of the connection.
fn is_protocol(value: &Value, asked: &Asked<'_>) -> bool {
    let name: &[u8] = match asked.request.version() {
        HttpVersion::Http10 => b"http/1.0",
        HttpVersion::Http11 => b"http/1.1",
        HttpVersion::Http2 => b"h2",
        HttpVersion::Http3 => b"h3",
    };
    let bytes = value.as_bytes().map(Vec::as_slice).or_else(|| value.as_text().map(str::as_bytes));
    asked.visitor.is_secure && bytes == Some(name)
}
