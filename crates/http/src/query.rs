//! Query strings: the part of them that belongs to a key, and taking one parameter out.
//!
//! A parameter stands between two `&`; its name ends at the first `=`. Names are compared as they are written:
//! `%61=1` is not `a=1`, which at worst makes two objects of one.

use std::borrow::Cow;

use crate::digits::hex_value;
use crate::manifest::Delivery;

/// Which parameters of a query belong to the key of an object. Those that do not are not asked of the origin either,
/// or its answer could depend on something that the key does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryRules {
    /// Which parameters count.
    pub counting: Counting,
    /// Whether their order does not: they are sorted by name.
    pub sorted: bool,
}

/// Which parameters count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// All, as they were sent.
    #[default]
    All,
    /// None.
    Nothing,
    /// All but these.
    Except(Vec<Name>),
    /// These and no others.
    Only(Vec<Name>),
}

/// The name of a parameter, or the start of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// Exactly this one.
    Exact(String),
    /// All that begin so: `utm_*`.
    Beginning(String),
}

impl Name {
    /// Reads a name; a `*` at its end stands for any further letters. `None` if it is empty or has bytes that no
    /// name can have.
    pub fn parse(written: &str) -> Option<Self> {
        let bare = written.strip_suffix('*');
        let name = bare.unwrap_or(written);
        let name_byte = |byte: u8| byte.is_ascii_graphic() && !b"&=#*".contains(&byte);
        if written.is_empty() || !name.bytes().all(name_byte) {
            return None;
        }
        Some(match bare {
            Some(start) => Self::Beginning(start.to_owned()),
            None => Self::Exact(name.to_owned()),
        })
    }

    fn is(&self, name: &str) -> bool {
        match self {
            Self::Exact(exact) => exact == name,
            Self::Beginning(start) => name.starts_with(start.as_str()),
        }
    }
}

impl QueryRules {
    /// The part of the query of a target that counts, in the order that counts; `None` if that is nothing. Delivery
    /// directives of HLS count where a playlist can be: with them it is another one than without (RFC 8216bis §6.2.5).
    pub fn apply<'q>(&self, path: &str, query: Option<&'q str>) -> Option<Cow<'q, str>> {
        let query = query?;
        if self.counting == Counting::All && !self.sorted {
            return Some(Cow::Borrowed(query));
        }
        let has_directives = Delivery::may_apply_to(path);
        let counts = |parameter: &&str| {
            let name = name(parameter);
            let one_of = |names: &[Name]| names.iter().any(|one| one.is(name));
            (has_directives && Delivery::is_directive(name))
                || match &self.counting {
                    Counting::All => true,
                    Counting::Nothing => false,
                    Counting::Except(names) => !one_of(names),
                    Counting::Only(names) => one_of(names),
                }
        };
        let mut left: Vec<&str> =
            query.split('&').filter(|parameter| !parameter.is_empty()).filter(counts).collect();
        if self.sorted {
            // Stable: parameters of one name keep their order, which may have a meaning.
            left.sort_by_key(|parameter| name(parameter));
        }
        (!left.is_empty()).then(|| Cow::Owned(left.join("&")))
    }
}

/// A query without one parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken<'q> {
    /// The parameter's value, still percent-encoded: its first, if there are several.
    pub value: &'q str,
    /// The others; `None` if there are none.
    pub rest: Option<String>,
}

/// Takes every parameter of this name out of a query; `None` if there is none.
pub fn take<'q>(query: &'q str, wanted: &str) -> Option<Taken<'q>> {
    let is_wanted = |parameter: &&str| name(parameter) == wanted;
    let found = query.split('&').find(is_wanted)?;
    let value = found.split_once('=').map_or("", |(_, value)| value);
    let rest: Vec<&str> = query.split('&').filter(|parameter| !is_wanted(parameter)).collect();
    Some(Taken { value, rest: (!rest.is_empty()).then(|| rest.join("&")) })
}

/// Decodes percent-encoding once; `None` if it is broken or the result is no text. A `+` stays one.
pub fn decoded(value: &str) -> Option<Cow<'_, str>> {
    if !value.contains('%') {
        return Some(Cow::Borrowed(value));
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(hex_value);
        bytes.push(digit()? << 4 | digit()?);
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn name(parameter: &str) -> &str {
    parameter.split_once('=').map_or(parameter, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(written: &[&str]) -> Vec<Name> {
        written.iter().map(|name| Name::parse(name).unwrap()).collect()
    }

    fn left(counting: Counting, sorted: bool, query: &str) -> Option<String> {
        QueryRules { counting, sorted }.apply("/a.m3u8", Some(query)).map(Cow::into_owned)
    }

    #[test]
    fn without_rules_a_query_stays_as_it_was_sent() {
        assert_eq!(left(Counting::All, false, "b=1&&a").as_deref(), Some("b=1&&a"));
        assert_eq!(left(Counting::All, false, "").as_deref(), Some(""));
        assert_eq!(QueryRules::default().apply("/a", None), None);
    }

    #[test]
    fn ignored_parameters_and_empty_queries_are_removed() {
        let query = "v=2&utm_source=x&session=9&v=3&utm=1&flag";
        let ignored = Counting::Except(names(&["utm_*", "session"]));
        assert_eq!(left(ignored.clone(), false, query).as_deref(), Some("v=2&v=3&utm=1&flag"));
        assert_eq!(left(ignored, false, "session=1"), None);
        let kept = Counting::Only(names(&["v", "flag"]));
        assert_eq!(left(kept, false, query).as_deref(), Some("v=2&v=3&flag"));
        assert_eq!(left(Counting::Nothing, false, query), None);
    }

    #[test]
    fn sorting_is_by_name_and_keeps_the_order_of_equal_ones() {
        assert_eq!(left(Counting::All, true, "b=2&a=2&b=1&a=1").as_deref(), Some("a=2&a=1&b=2&b=1"));
    }

    #[test]
    fn the_delivery_directives_of_hls_count_where_a_playlist_can_be() {
        let query = "_HLS_msn=3&x=1&_HLS_part=0&_HLS_other=1&_HLS_skip=YES&_HLS_msn2=1";
        let rules = QueryRules { counting: Counting::Nothing, sorted: false };
        let three = Some("_HLS_msn=3&_HLS_part=0&_HLS_skip=YES");
        for (path, expected) in [
            ("/live/a.m3u8", three),
            ("/live/a.M3U8", three),
            ("/live.mp4/playlist", three),
            ("/", three),
            ("/film.mp4", None),
            ("/live/a.m3u8.ts", None),
            ("/live/a.mpd", None),
        ] {
            assert_eq!(rules.apply(path, Some(query)).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn names_that_no_parameter_can_have_are_none() {
        for wrong in ["", "a b", "a=1", "a&b", "a*b", "#", "é"] {
            assert_eq!(Name::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Name::parse("utm_*"), Some(Name::Beginning("utm_".into())));
    }

    #[test]
    fn a_parameter_is_taken_out_wherever_it_stands() {
        for (query, value, rest) in [
            ("token=1", "1", None),
            ("a=1&token=2&b=3", "2", Some("a=1&b=3")),
            ("token=1&x&token=2", "1", Some("x")),
            ("token", "", None),
            ("token=a=b", "a=b", None),
        ] {
            let taken = take(query, "token").unwrap();
            assert_eq!((taken.value, taken.rest.as_deref()), (value, rest), "{query}");
        }
        assert_eq!(take("tokens=1&Token=2", "token"), None);
    }

    #[test]
    fn percent_encoding_is_decoded_once() {
        assert_eq!(decoded("a%2Fb%257e+").as_deref(), Some("a/b%7e+"));
        for broken in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decoded(broken), None, "{broken}");
        }
    }
}
