//! Numbers as they stand in a message.

/// The value of a hexadecimal digit.
pub(crate) const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// 1*DIGIT that fits into 64 bits; no sign, no white space, no list.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    let value = saturating_decimal(digits)?;
    // Only a number that did not fit comes out as the largest, but for the largest itself.
    (value != u64::MAX).then_some(value)
}

/// 1*DIGIT of any size; a number beyond 64 bits saturates.
pub(crate) fn saturating_decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(value.saturating_mul(10).saturating_add(digit))
    })
}

/// Appends a number in decimal, without allocating for it.
pub(crate) fn push_decimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// How many digits a number has in decimal.
pub(crate) fn decimal_length(number: u64) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or(0)) + 1
}

#[cfg(test)]
mod tests {
    use super::{decimal, decimal_length, push_decimal, saturating_decimal};

    #[test]
    fn numbers_come_back_as_they_were_written() {
        for number in [0, 1, 9, 10, 99, 100, 12_345, u64::MAX - 1, u64::MAX] {
            let mut out = b"x".to_vec();
            push_decimal(&mut out, number);
            assert_eq!(out[1..], *number.to_string().as_bytes());
            assert_eq!(decimal_length(number), out.len() as u64 - 1);
            assert_eq!(saturating_decimal(&out[1..]), Some(number));
        }
    }

    #[test]
    fn only_digits_are_a_number() {
        assert_eq!(decimal(b"007"), Some(7));
        assert_eq!(decimal(b"18446744073709551614"), Some(u64::MAX - 1));
        for text in ["", "+1", "-1", " 1", "1 ", "0x1", "1,1", "1.0", "18446744073709551616", "1_0"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text}");
        }
        assert_eq!(saturating_decimal(b"99999999999999999999999"), Some(u64::MAX));
        assert_eq!(saturating_decimal(b"9999999999999999999999x"), None);
    }
}
