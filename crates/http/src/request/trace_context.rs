//! The `traceparent` field (W3C Trace Context §3.2).

/// The length of version 00.
const VERSION_00_BYTES: usize = 55;

/// The trace id of a field value; `None` if the value is not valid. Versions above 00 may have more behind the flags.
pub(super) fn trace_id(value: &str) -> Option<&str> {
    let mut parts = value.splitn(4, '-');
    let (version, trace, parent) = (parts.next()?, parts.next()?, parts.next()?);
    let (flags, more) = parts.next()?.split_at_checked(2)?;
    let is_valid = is_hex(version, 2)
        && version != "ff"
        && is_id(trace, 32)
        && is_id(parent, 16)
        && is_hex(flags, 2)
        && (more.is_empty() || more.starts_with('-'))
        && (version != "00" || value.len() == VERSION_00_BYTES);
    is_valid.then_some(trace)
}

/// Whether a text is an id of this length: one of zeros only is none.
fn is_id(text: &str, length: usize) -> bool {
    is_hex(text, length) && text.bytes().any(|digit| digit != b'0')
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_trace_id_is_taken_from_valid_values_alone() {
        let parent = "00f067aa0ba902b7";
        for valid in [
            format!("00-{TRACE}-{parent}-01"),
            format!("00-{TRACE}-{parent}-ff"),
            format!("01-{TRACE}-{parent}-00"),
            format!("cc-{TRACE}-{parent}-01-what-comes-later"),
        ] {
            assert_eq!(trace_id(&valid), Some(TRACE), "{valid}");
        }
        let (zeros, upper) = ("0".repeat(32), TRACE.to_uppercase());
        for invalid in [
            String::new(),
            TRACE.to_owned(),
            format!("00-{TRACE}-{parent}"),
            format!("00-{TRACE}-{parent}-"),
            format!("00-{TRACE}-{parent}-1"),
            format!("00-{TRACE}-{parent}-0g"),
            format!("00-{TRACE}-{parent}-01-more"),
            format!("01-{TRACE}-{parent}-01more"),
            format!("ff-{TRACE}-{parent}-01"),
            format!("0-{TRACE}-{parent}-01"),
            format!("00-{upper}-{parent}-01"),
            format!("00-{zeros}-{parent}-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{TRACE}é-{parent}-01"),
            format!("00-{TRACE}-{parent}-é"),
            format!("00-{TRACE}\"-{parent}-01"),
        ] {
            assert_eq!(trace_id(&invalid), None, "{invalid}");
        }
    }
}
