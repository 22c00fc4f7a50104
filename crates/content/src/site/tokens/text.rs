//! How tokens are written: percent-encoding, numbers, digits, base64.

use std::borrow::Cow;

use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use penstock_config::limits;
use penstock_http::query::decoded;

use crate::site::token_refusal::TokenRefusal;

/// What stands before the signature.
pub(super) const SIGNATURE: &str = "~hmac=";

/// With padding or without, as nginx takes it.
pub(super) const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The text of a token as it was written in a target or a cookie: percent-decoded once.
pub(super) fn written(part: Option<&str>) -> Result<Cow<'_, str>, TokenRefusal> {
    let part = part.ok_or(TokenRefusal::Malformed)?;
    if part.len() > limits::TOKEN_BYTES {
        return Err(TokenRefusal::Malformed);
    }
    decoded(part).ok_or(TokenRefusal::Malformed)
}

/// A time in seconds since 1970: digits alone.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// The bytes that pairs of hexadecimal digits stand for.
pub(super) fn of_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

/// The hexadecimal digits of bytes.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Percent-encodes a token so that it can stand in a query, in a segment of a path and in a cookie.
pub fn encode(token: &str) -> String {
    let mut encoded = String::with_capacity(token.len() + 16);
    for byte in token.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~=".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
