//! Validators behind redirections. An entity tag belongs to the URL that gave it (RFC 9110 §8.8.3), so the tag of a response
//! behind a redirection gets a mark of its URL: it is another tag than the same text from another URL, and a condition with
//! it is sent to that URL only, also after a restart.

use penstock_sys::digest::sha256;

use super::redirect::Location;

/// What stands between a tag and the mark of its URL.
const SEPARATOR: &str = "-r";
/// Digits of a mark.
const DIGITS: usize = 16;

/// Names the URL of a response behind a redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UrlMark(String);

impl UrlMark {
    /// The mark of server and path. The query has no part in it: that of a signed URL is another one each time.
    pub(super) fn of(location: &Location) -> Self {
        let path = location.target.split('?').next().unwrap_or_default();
        let digest = sha256(&[location.server.to_string().as_bytes(), path.as_bytes()]);
        Self(digest.iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect())
    }

    /// The tag with this mark; `None` if it is no entity tag.
    pub(super) fn mark(&self, tag: &str) -> Option<String> {
        let quoted = tag.strip_prefix("W/").unwrap_or(tag);
        let is_tag = quoted.len() >= 2 && quoted.starts_with('"') && quoted.ends_with('"');
        is_tag.then(|| format!("{}{SEPARATOR}{}\"", &tag[..tag.len() - 1], self.0))
    }
}

/// The condition `known` as it is sent to a URL; `None` if its validator belongs to another one. `mark` is that of a URL
/// behind a redirection. Dates have no mark: they are sent to the first URL only.
pub(super) fn condition_at(
    mark: Option<&UrlMark>,
    known: Option<&(&'static str, String)>,
) -> Option<(&'static str, String)> {
    let (name, value) = known?;
    match (mark, split(value)) {
        (None, None) => Some((*name, value.clone())),
        (Some(here), Some((tag, mark))) if here.0 == mark => Some((*name, format!("{tag}\""))),
        _ => None,
    }
}

/// Takes a marked tag apart: all before the mark, and the mark.
fn split(tag: &str) -> Option<(&str, &str)> {
    let (tag, mark) = tag.strip_suffix('"')?.rsplit_once(SEPARATOR)?;
    let is_mark = mark.len() == DIGITS && mark.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_mark.then_some((tag, mark))
}

#[cfg(test)]
mod tests {
    use penstock_http::OriginUrl;

    use super::*;

    fn mark(server: &str, target: &str) -> UrlMark {
        UrlMark::of(&Location { server: OriginUrl::parse(server).unwrap(), target: target.to_owned() })
    }

    #[test]
    fn a_condition_is_sent_to_the_url_that_gave_its_tag_and_to_no_other() {
        let here = mark("https://a", "/x?sig=1");
        for tag in ["\"1\"", "W/\"1\"", "\"\"", "\"a-r\""] {
            let known = ("if-none-match", here.mark(tag).unwrap());
            assert_ne!(known.1, tag);
            let sent = Some(("if-none-match", tag.to_owned()));
            assert_eq!(condition_at(Some(&here), Some(&known)), sent, "{tag}");
            assert_eq!(condition_at(Some(&mark("https://a", "/x?sig=2")), Some(&known)), sent, "{tag}");
            for other in [mark("https://a", "/y"), mark("http://a", "/x"), mark("https://b", "/x")] {
                assert_eq!(condition_at(Some(&other), Some(&known)), None, "{tag}");
            }
            assert_eq!(condition_at(None, Some(&known)), None, "{tag}");
        }
        for value in ["\"1\"", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            let known = ("if-range", value.to_owned());
            assert_eq!(condition_at(None, Some(&known)), Some(known.clone()), "{value}");
            assert_eq!(condition_at(Some(&here), Some(&known)), None, "{value}");
        }
    }

    #[test]
    fn text_that_is_no_tag_gets_no_mark() {
        for text in ["", "1", "\"", "W/", "W/1", "\"1"] {
            assert_eq!(mark("http://a", "/").mark(text), None, "{text}");
        }
    }
}
