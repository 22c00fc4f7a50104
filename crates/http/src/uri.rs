//! The normal form of a request target (RFC 3986 §6.2.2), in which equivalent targets are equal.

use std::borrow::Cow;

use crate::digits::hex_value;

/// Brings a path, a query, or both into their normal form:
/// - a percent-encoded unreserved character is decoded (`%66ilm.mp4` is `film.mp4`);
/// - other percent-encodings get upper-case digits;
/// - characters that may not stand in a target (`<`, `>`, `"`, backslash, `^`, backtick, braces, `|`, anything beyond
///   ASCII) are percent-encoded, and so is a `%` without two digits behind it.
///
/// The result is at most three times as long. Dot segments stay: see [`normalise_path`]. Reserved characters stay as they were sent, since `%2F` and `/` differ in meaning. Allocates only for a change.
pub fn normalise(target: &str) -> Cow<'_, str> {
    let Some(start) = target.bytes().position(|byte| byte == b'%' || !is_target_byte(byte)) else {
        return Cow::Borrowed(target);
    };
    let bytes = target.as_bytes();
    let mut normal = String::with_capacity(target.len() + 16);
    normal.push_str(&target[..start]);
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match encoded(bytes, at).filter(|_| byte == b'%') {
            Some(meant) => {
                push(&mut normal, meant, is_unreserved(meant));
                at += 2;
            }
            None => push(&mut normal, byte, byte != b'%' && is_target_byte(byte)),
        }
    }
    if normal == target { Cow::Borrowed(target) } else { Cow::Owned(normal) }
}

/// As [`normalise`], for a path that begins with a slash, whose dot segments are removed too (RFC 3986 §6.2.2.3). Two slashes
/// and `%2F` stay as they are: they name other resources.
pub fn normalise_path(path: &str) -> Cow<'_, str> {
    let normal = normalise(path);
    let has_dots = normal.as_bytes().windows(2).any(|pair| pair == b"/.");
    if has_dots { Cow::Owned(without_dots(&normal)) } else { normal }
}

/// As [`normalise_path`], for a path with a query, whose dots mean nothing.
pub fn normalise_target(target: &str) -> Cow<'_, str> {
    match target.split_once('?') {
        Some((path, query)) => Cow::Owned(format!("{}?{}", normalise_path(path), normalise(query))),
        None => normalise_path(target),
    }
}

/// Removes the dot segments of a path that begins with a slash (RFC 3986 §5.2.4).
pub fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut last_is_dots = false;
    for segment in path.split('/').skip(1) {
        last_is_dots = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    let mut out = String::with_capacity(path.len());
    for segment in kept {
        out.push('/');
        out.push_str(segment);
    }
    if last_is_dots || out.is_empty() {
        out.push('/');
    }
    out
}

/// Percent-decodes once. `None` if a `%` has no two hexadecimal digits behind it.
pub fn percent_decoded(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(start) = memchr::memchr(b'%', text) else { return Some(Cow::Borrowed(text)) };
    let (mut decoded, mut at) = (text[..start].to_vec(), start);
    while let Some(&byte) = text.get(at) {
        at += 1;
        decoded.push(if byte == b'%' { encoded(text, at)? } else { byte });
        at += if byte == b'%' { 2 } else { 0 };
    }
    Some(Cow::Owned(decoded))
}

/// The byte whose two hexadecimal digits stand at `at`.
fn encoded(bytes: &[u8], at: usize) -> Option<u8> {
    let high = hex_value(*bytes.get(at)?)?;
    let low = hex_value(*bytes.get(at + 1)?)?;
    Some(high << 4 | low)
}

fn push(out: &mut String, byte: u8, plain: bool) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if plain {
        out.push(char::from(byte));
    } else {
        out.push('%');
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 0xf)]));
    }
}

/// RFC 3986 §2.3.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Whether a byte may stand in a path or query (RFC 3986 §3.3, §3.4). Brackets are reserved for hosts, but common in
/// queries, and every HTTP implementation takes them.
pub(crate) const fn is_target_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>' | b'"' | b'\\' | b'^' | b'`' | b'{' | b'}' | b'|')
}

#[cfg(test)]
mod tests {
    use super::{Cow, is_target_byte, normalise, normalise_path, normalise_target, percent_decoded};
    use proptest::prelude::*;

    #[test]
    fn equivalent_targets_have_one_normal_form() {
        for (sent, normal) in [
            ("/%66ilm.mp4", "/film.mp4"),
            ("/film%2Emp4", "/film.mp4"),
            ("/%7euser/%5Fx%2dy", "/~user/_x-y"),
            ("/a%2fb%3a", "/a%2Fb%3A"),
            ("/a b".trim_end_matches(" b"), "/a"),
            ("/a%20b?c=%c3%a9", "/a%20b?c=%C3%A9"),
            ("/\u{444}.mp4", "/%D1%84.mp4"),
            ("/a<b>\"c\"", "/a%3Cb%3E%22c%22"),
            ("/a\\b^c`d{e}f|g", "/a%5Cb%5Ec%60d%7Be%7Df%7Cg"),
            ("/a%7Cb", "/a%7Cb"),
            ("/a?b=[1]&%61=1", "/a?b=[1]&a=1"),
            ("/100%", "/100%25"),
            ("/%%36%31", "/%2561"),
            ("/%zz%4", "/%25zz%254"),
            ("/%2e%2e/x", "/../x"),
            ("/*", "/*"),
        ] {
            assert_eq!(normalise(sent), normal, "{sent}");
        }
    }

    #[test]
    fn a_target_in_its_normal_form_is_not_copied() {
        for target in ["/live/seg-1.m4s?a=1&b=%20", "/", "", "/a%2Fb"] {
            assert!(matches!(normalise(target), Cow::Borrowed(_)), "{target}");
        }
    }

    #[test]
    fn dot_segments_are_removed_and_empty_segments_stay() {
        for (sent, normal) in [
            ("/./a", "/a"),
            ("/a/../b", "/b"),
            ("/%2e%2E/b/%2e", "/b/"),
            ("/a/..", "/"),
            ("/a//b", "/a//b"),
            ("//a", "//a"),
            ("/a//../b", "/a/b"),
            ("/..//b", "//b"),
            ("/a%2Fb", "/a%2Fb"),
            ("/a%2f..%2fb", "/a%2F..%2Fb"),
            ("/..a/.b/c.", "/..a/.b/c."),
            ("/a\t", "/a%09"),
        ] {
            assert_eq!(normalise_path(sent), normal, "{sent}");
            assert_eq!(normalise_target(&format!("{sent}?/../%66")), format!("{normal}?/../f"), "{sent}");
        }
        assert!(matches!(normalise_path("/live/a.m4s"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_text_is_decoded_once() {
        for (text, decoded) in [
            ("a", Some("a")),
            ("%61%2f%2F", Some("a//")),
            ("%2561", Some("%61")),
            ("%", None),
            ("a%4", None),
            ("%zz", None),
        ] {
            assert_eq!(percent_decoded(text.as_bytes()).as_deref(), decoded.map(str::as_bytes), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_normal_form_of_a_path_is_stable_and_has_no_dot_segments(path in "(/(\\.|%2[eEfF]|a|%41){0,3}){1,6}") {
            let once = normalise_path(&path).into_owned();
            prop_assert_eq!(normalise_path(&once), once.as_str());
            prop_assert!(once.starts_with('/') && once.split('/').all(|one| one != "." && one != ".."), "{}", once);
        }

        #[test]
        fn the_normal_form_is_stable_sendable_and_bounded(target in "[ -~é%]{0,40}") {
            let once = normalise(&target).into_owned();
            prop_assert_eq!(normalise(&once), once.as_str());
            prop_assert!(once.bytes().all(is_target_byte), "{}", once);
            prop_assert!(once.len() <= 3 * target.len());
        }
    }
}
