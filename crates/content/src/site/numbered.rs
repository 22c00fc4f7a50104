//! Targets whose file names are numbered: `seg-00012.m4s`.

use crate::site::cache_request::split_target;

/// The targets whose number is one less and one more; `None` if there is no number, or it is 0 or too long. The number
/// is the last one in the name of the file, in front of its extension. It keeps its length if it has leading zeros.
pub(crate) fn neighbours(target: &str) -> Option<[String; 2]> {
    let (path, query) = split_target(target);
    let name = path.rfind('/')? + 1;
    let end = path[name..].rfind('.').map_or(path.len(), |dot| name + dot);
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let end = name + path.as_bytes()[name..end].iter().rposition(is_digit)? + 1;
    let digits = path.as_bytes()[name..end].iter().rev().take_while(|byte| is_digit(byte)).count();
    let start = end - digits;
    let number: u64 = path[start..end].parse().ok()?;
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let width = if path[start..].starts_with('0') { digits } else { 0 };
    let with = |number: u64| format!("{}{number:0width$}{}{query}", &path[..start], &path[end..]);
    Some([with(number.checked_sub(1)?), with(number.checked_add(1)?)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_a_name_is_counted() {
        for (target, before, after) in [
            ("/v2/seg-00009.m4s", "/v2/seg-00008.m4s", "/v2/seg-00010.m4s"),
            ("/a/chunk-stream0-99.m4s?t=1", "/a/chunk-stream0-98.m4s?t=1", "/a/chunk-stream0-100.m4s?t=1"),
            ("/7", "/6", "/8"),
            ("/seg1_a.ts", "/seg0_a.ts", "/seg2_a.ts"),
            ("/v.1/10.mp4", "/v.1/9.mp4", "/v.1/11.mp4"),
        ] {
            assert_eq!(neighbours(target), Some([before.to_owned(), after.to_owned()]), "{target}");
        }
        for none in [
            "/",
            "/a.mp4",
            "/v1/index.m4s",
            "/a?b=1",
            "/0.ts",
            "/18446744073709551615.ts",
            "/99999999999999999999.ts",
            "",
            "*",
        ] {
            assert_eq!(neighbours(none), None, "{none}");
        }
    }
}
