//! Which fields a message may have (RFC 9113 §8.2).

/// Checks a field that is no pseudo-header field. The error is a label: the message is malformed.
///
/// Stricter than RFC 9113 §8.2.1 in two points, as RFC 9110 §5.5 is: a name is a token, and a value has no control
/// characters but the tabulator.
pub(crate) fn check_field(name: &[u8], value: &[u8]) -> Result<(), &'static str> {
    if name.is_empty() || !name.iter().all(|&byte| is_token(byte) && !byte.is_ascii_uppercase()) {
        return Err("field_name");
    }
    if !is_value(value) {
        return Err("field_value");
    }
    if is_connection_specific(name) || name == b"te" && !value.eq_ignore_ascii_case(b"trailers") {
        return Err("connection_specific_field");
    }
    Ok(())
}

/// Fields that HTTP/2 does not have (RFC 9113 §8.2.2). `name` is in lowercase letters.
pub(crate) fn is_connection_specific(name: &[u8]) -> bool {
    matches!(name, b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade")
}

fn is_value(value: &[u8]) -> bool {
    let is_text = |&byte: &u8| byte == b'\t' || byte >= b' ' && byte != 0x7f;
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    value.iter().all(is_text) && !is_space(value.first()) && !is_space(value.last())
}

/// The characters of a token (RFC 9110 §5.6.2).
pub(crate) const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// Whether `text` has neither white space nor control characters, and is UTF-8.
pub(crate) fn is_visible(text: &[u8]) -> bool {
    let is_visible = text.iter().all(|&byte| byte > b' ' && byte != 0x7f);
    is_visible && (text.is_ascii() || str::from_utf8(text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_accepted_or_refused_by_their_reason() {
        let ok = Ok(());
        for (name, value, expected) in [
            ("accept", "*/*", ok),
            ("x_y", "", ok),
            ("x", "a\tb c", ok),
            ("x", "caf\u{e9}", ok),
            ("te", "trailers", ok),
            ("te", "Trailers", ok),
            ("", "a", Err("field_name")),
            ("Accept", "a", Err("field_name")),
            ("a b", "a", Err("field_name")),
            ("a:", "a", Err("field_name")),
            (":path", "a", Err("field_name")),
            ("\u{e9}", "a", Err("field_name")),
            ("x", " a", Err("field_value")),
            ("x", "a\t", Err("field_value")),
            ("x", "a\r\nb", Err("field_value")),
            ("x", "a\0b", Err("field_value")),
            ("x", "\u{7f}", Err("field_value")),
            ("connection", "close", Err("connection_specific_field")),
            ("keep-alive", "1", Err("connection_specific_field")),
            ("proxy-connection", "close", Err("connection_specific_field")),
            ("transfer-encoding", "chunked", Err("connection_specific_field")),
            ("upgrade", "h2c", Err("connection_specific_field")),
            ("te", "gzip", Err("connection_specific_field")),
            ("te", "trailers, gzip", Err("connection_specific_field")),
        ] {
            assert_eq!(check_field(name.as_bytes(), value.as_bytes()), expected, "{name}: {value}");
        }
    }
}
