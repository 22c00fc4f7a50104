//! The body of the fuzz target.

use crate::http::translate;
use crate::parse::parse;

/// The body of the fuzz target `nginx`: no text may panic, each fault and remark is one line about a line of the text, and a
/// key that Penstock does not have is not written.
///
/// # Panics
/// When it is not.
#[doc(hidden)]
pub fn fuzz_nginx(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let lines = text.split('\n').count();
    let directives =
        match parse(text, "fuzz.conf", &|_| Ok(vec![("inner.conf".to_owned(), "a b;".to_owned())])) {
            Ok(directives) => directives,
            Err(fault) => {
                assert!(fault.line <= lines, "{fault} lies behind the end");
                assert!(!fault.to_string().contains(char::is_control));
                return;
            }
        };
    let translation = translate(directives, &|key| key != "sites.routes");
    for remark in &translation.remarks {
        assert!(remark.line <= lines, "{remark} lies behind the end");
        assert!(!remark.to_string().contains(char::is_control));
    }
    assert!(!translation.yaml.contains("\n    routes:"));
    let is_text = |character: char| character == '\n' || !character.is_control();
    assert!(translation.yaml.chars().all(is_text), "{:?}", translation.yaml);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z ;{}\"'\\\\#$\n]{0,60}") {
            fuzz_nginx(text.as_bytes());
        }

        #[test]
        fn no_server_panics(inside in "(((listen|server_name|root|location|return|rewrite|proxy_pass|add_header|expires|slice|\
                                       proxy_cache|limit_req|proxy_cache_valid|proxy_cache_bypass|secure_link|secure_link_md5|auth_basic|valid_referers|if) ?[a-z0-9:/.$^~=*\\\\()_-]{0,12} ?[a-z0-9:/$.]{0,8}[;{}])\n?){0,12}") {
            fuzz_nginx(format!("server {{ {inside} }}").as_bytes());
            fuzz_nginx(format!("http {{ proxy_cache_path /a max_size=1g; server {{ {inside}").as_bytes());
        }
    }
}
