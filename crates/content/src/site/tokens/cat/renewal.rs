//! Renewal of a Common Access Token (`catr`): shortly before its end, a client gets a token with a later one.

use base64::Engine;
use ciborium::Value;
use penstock_config::{TokenKey, TokenKeyKind};

use super::super::asked::{Asked, Renewed};
use super::super::cat_labels as label;
use super::super::cbor::{encoded, of_label};
use super::super::cose::CoseMessage;
use super::super::text::BASE64URL;
use super::claims::ClaimSet;

/// How long before its end a token is renewed that does not say it, in seconds.
const DEADLINE: u64 = 60;

/// The token that a client gets for a good one; `None` if that says no such thing, goes on for longer, or is not signed with a secret.
/// Its id stays, so that a revocation holds for all that come of it.
pub(super) fn renewed(
    token: &CoseMessage,
    claims: &ClaimSet,
    key: &TokenKey,
    asked: &Asked<'_>,
) -> Option<Renewed> {
    let TokenKeyKind::Secret(secret) = &key.kind else { return None };
    let terms = claims.get(label::RENEWAL)?;
    let number = |name| of_label(terms, name)?.as_integer().and_then(|number| u64::try_from(number).ok());
    let (now, end) = (asked.seconds(), claims.end()?);
    if now >= end || now < end.saturating_sub(number(2).unwrap_or(DEADLINE)) {
        return None;
    }
    let later = now.checked_add(number(1)?)?;
    let payload = Value::Map(claims.with(&[(label::EXPIRES, later), (label::ISSUED, now)]));
    let token = BASE64URL.encode(token.with_payload(encoded(&payload), secret));
    let name = |name| of_label(terms, name).and_then(Value::as_text).map(str::to_owned);
    Some(match number(0)? {
        0 => Renewed::AsItCame(token),
        1 => Renewed::Cookie(name(3), token),
        2 => Renewed::Field(name(4), token),
        // By a redirect: the client asks again with its old token, which is good.
        _ => return None,
    })
}
