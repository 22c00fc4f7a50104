//! Patterns with wildcards: `*` for any characters, also none, and `?` for one.

use penstock_config::limits;

/// Whether a pattern matches all of a text. Takes time by the product of their lengths.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matches_before(pattern, text, None)
}

/// The same for a text with a mark, such as the `?` of a query, which no `*` matches but that at the end of the pattern.
pub(super) fn matches_before(pattern: &[u8], text: &[u8], mark: Option<u8>) -> bool {
    if pattern.len() > limits::TOKEN_PATTERN_BYTES {
        return false;
    }
    let (mut at, mut place) = (0, 0);
    // The last `*`, and what it stands for at least.
    let mut star = None;
    while place < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(one) if *one == b'?' || *one == text[place] => {
                at += 1;
                place += 1;
            }
            _ => {
                let Some((star_at, covered)) = star else { return false };
                if Some(text[covered]) == mark && star_at + 1 < pattern.len() {
                    return false;
                }
                star = Some((star_at, covered + 1));
                at = star_at + 1;
                place = covered + 1;
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// The directory, with a slash at its end, below which all paths of a pattern lie.
pub(super) fn directory_of(pattern: &str) -> Option<&str> {
    let plain = &pattern[..pattern.find(['*', '?'])?];
    Some(&plain[..=plain.rfind('/')?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text_and_a_question_mark_one_character() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("/vod/*", "/vod/", true),
            ("/vod/*", "/vod/1/a.ts", true),
            ("/vod/*", "/vod", false),
            ("/vod/*.ts", "/vod/a.ts/b.ts", true),
            ("/vod/*.ts", "/vod/a.ts?", false),
            ("/vod/?.ts", "/vod/1.ts", true),
            ("/vod/?.ts", "/vod/12.ts", false),
            ("*a*b", "aabab", true),
            ("*a*b", "aaba", false),
            ("**", "x", true),
            ("/a", "/a", true),
            ("/a", "/ab", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        assert!(!matches(&[b'*'; 2000], b"a"));
        for (pattern, text, expected) in [
            ("/*.ts", "/a.ts?x=.ts", false),
            ("/*.ts*", "/a.ts?x", true),
            ("/*.ts?v=?", "/b/a.ts?v=1", true),
            ("/*b=1", "/a?b=1", false),
            ("/*", "/a?b", true),
        ] {
            assert_eq!(
                matches_before(pattern.as_bytes(), text.as_bytes(), Some(b'?')),
                expected,
                "{pattern} {text}"
            );
        }
        for (pattern, expected) in
            [("/vod/1/*", Some("/vod/1/")), ("/vod/1*", Some("/vod/")), ("/*", Some("/")), ("/a", None)]
        {
            assert_eq!(directory_of(pattern), expected, "{pattern}");
        }
    }
}
