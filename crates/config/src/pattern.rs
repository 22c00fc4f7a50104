//! Paths of routes: `/live/*`, `*.mp4`, `/{channel}/index.m3u8`.

use std::fmt;

use penstock_http::uri::normalise_path;

/// The paths that a route is for. Compared with the normal form of a path, in which an origin is asked for it.
///
/// `*` stands for any characters, slashes included, and occurs once at most; `{name}` in front of it stands for one whole
/// segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
    /// In front of `*`, or the whole.
    head: Vec<Piece>,
    /// Behind `*`; `None` without one.
    tail: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    /// One segment, with the name that it is captured by.
    Segment(String),
}

/// The variable for what `*` stands for.
pub const REST: &str = "rest";

impl PathPattern {
    /// All paths.
    pub fn all() -> Self {
        Self { text: "/*".to_owned(), head: vec![Piece::Literal("/".to_owned())], tail: Some(String::new()) }
    }

    /// Reads a pattern.
    ///
    /// # Errors
    /// The fault and its remedy.
    pub fn parse(text: &str) -> Result<Self, (String, String)> {
        let fault = |what: &str, instead: &str| {
            Err((format!("`{}` {what}", text.escape_debug()), instead.to_owned()))
        };
        let (head, tail) = match text.split_once('*') {
            Some((head, tail)) => (head, Some(tail)),
            None => (text, None),
        };
        if tail.is_some_and(|tail| tail.contains('*')) {
            return fault(
                "has more than one `*`",
                "write one `*`, which stands for slashes too, or {name} for a segment",
            );
        }
        let begins_well = head.starts_with('/') || head.is_empty() && tail.is_some();
        if !begins_well {
            return fault("does not begin with a slash", "write a path such as /live/* or *.mp4");
        }
        let mut pieces: Vec<Piece> = Vec::new();
        let mut left = head;
        while let Some((before, behind)) = left.split_once('{') {
            let Some((name, behind)) = behind.split_once('}') else {
                return fault("has a `{` without a `}`", "write {name} for a segment");
            };
            let is_segment =
                before.ends_with('/') && (behind.is_empty() && tail.is_none() || behind.starts_with('/'));
            if !is_segment {
                return fault(
                    "has a {name} that is no whole segment",
                    "write it between two slashes, such as /{channel}/*",
                );
            }
            if !is_name(name)
                || pieces.iter().any(|piece| matches!(piece, Piece::Segment(known) if known == name))
            {
                return fault(
                    "has a {name} that is no name of its own",
                    "write different names of lowercase letters and _",
                );
            }
            pieces.extend([Piece::Literal(before.to_owned()), Piece::Segment(name.to_owned())]);
            left = behind;
        }
        pieces.extend((!left.is_empty()).then(|| Piece::Literal(left.to_owned())));
        let literals = || {
            pieces.iter().filter_map(|piece| if let Piece::Literal(text) = piece { Some(text) } else { None })
        };
        let is_normal = |text: &str| normalise_path(text) == text && !text.contains(['?', '#']);
        if let Some(written) = literals().map(String::as_str).chain(tail).find(|text| !is_normal(text)) {
            let instead = match normalise_path(written) {
                normal if normal != written => {
                    format!("write `{normal}`, the normal form in which paths are compared")
                }
                _ => "write a path: conditions on the query belong to `when`".to_owned(),
            };
            return Err((format!("`{}` is not a path in its normal form", written.escape_debug()), instead));
        }
        Ok(Self { text: text.to_owned(), head: pieces, tail: tail.map(str::to_owned) })
    }

    /// The text with which every path begins that matches.
    pub fn prefix(&self) -> &str {
        match self.head.first() {
            Some(Piece::Literal(text)) => text,
            Some(Piece::Segment(_)) | None => "",
        }
    }

    /// The text with which every path ends that matches.
    pub fn suffix(&self) -> &str {
        match (&self.tail, self.head.last()) {
            (Some(tail), _) => tail,
            (None, Some(Piece::Literal(text))) => text,
            (None, Some(Piece::Segment(_)) | None) => "",
        }
    }

    /// Whether this name can be captured: that of a segment, or `rest` with a `*`.
    pub fn captures(&self, name: &str) -> bool {
        let is_segment = |piece: &Piece| matches!(piece, Piece::Segment(known) if known == name);
        name == REST && self.tail.is_some() || self.head.iter().any(is_segment)
    }

    /// Whether a path matches.
    pub fn matches(&self, path: &str) -> bool {
        self.walk(path, |_, _| {})
    }

    /// What a name stands for in a path that matches; `rest` without the slash in front that `*.mp4` takes in.
    pub fn captured<'p>(&self, path: &'p str, name: &str) -> Option<&'p str> {
        let mut found = None;
        let matches = self.walk(path, |known, text| {
            if known == name {
                found = Some(text);
            }
        });
        let text = found.filter(|_| matches)?;
        Some(if name == REST && self.head.is_empty() { text.strip_prefix('/').unwrap_or(text) } else { text })
    }

    /// Calls `capture` for each capture in order; false if the path does not match.
    fn walk<'p>(&self, path: &'p str, mut capture: impl FnMut(&str, &'p str)) -> bool {
        let mut left = path;
        for piece in &self.head {
            match piece {
                Piece::Literal(text) => match left.strip_prefix(text.as_str()) {
                    Some(rest) => left = rest,
                    None => return false,
                },
                Piece::Segment(name) => {
                    let (segment, rest) = left.split_at(left.find('/').unwrap_or(left.len()));
                    if segment.is_empty() {
                        return false;
                    }
                    capture(name, segment);
                    left = rest;
                }
            }
        }
        match &self.tail {
            None => left.is_empty(),
            Some(tail) => match left.strip_suffix(tail.as_str()) {
                Some(rest) => {
                    capture(REST, rest);
                    true
                }
                None => false,
            },
        }
    }

    /// Whether every path that `other` matches is matched by this one too. False if that is not certain.
    pub fn covers(&self, other: &Self) -> bool {
        if let ([Piece::Literal(path)], None) = (&*other.head, &other.tail) {
            return self.matches(path);
        }
        let has_segments = self.head.iter().any(|piece| matches!(piece, Piece::Segment(_)));
        match &self.tail {
            Some(tail) if !has_segments && other.prefix().starts_with(self.prefix()) => {
                // What `other` ends with has to begin behind what this one begins with.
                let is_apart = other.tail.is_some() || other.head.len() > 1;
                tail.is_empty() || is_apart && other.suffix().ends_with(tail.as_str())
            }
            _ => self.shape() == other.shape(),
        }
    }

    /// The pattern without the names of its segments.
    fn shape(&self) -> (Vec<Option<&str>>, Option<&str>) {
        let pieces = self.head.iter().map(|piece| match piece {
            Piece::Literal(text) => Some(text.as_str()),
            Piece::Segment(_) => None,
        });
        (pieces.collect(), self.tail.as_deref())
    }
}

/// As the configuration writes it.
impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether this can be the name of a segment. `rest`, `path` and the others have a meaning of their own.
fn is_name(name: &str) -> bool {
    const TAKEN: [&str; 7] = [REST, "path", "query", "host", "client", "cache_status", "request_id"];
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        && !TAKEN.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> PathPattern {
        PathPattern::parse(text).unwrap_or_else(|(what, _)| panic!("{what}"))
    }

    #[test]
    fn patterns_match_whole_paths_and_capture() {
        for (text, path, name, captured) in [
            ("/a", "/a", "rest", None),
            ("/live/*", "/live/a/b", "rest", Some("a/b")),
            ("/live/*", "/live/", "rest", Some("")),
            ("/live*", "/live-2/x", "rest", Some("-2/x")),
            ("*.mp4", "/vod/a.mp4", "rest", Some("vod/a")),
            ("/vod/*.mp4", "/vod/x/a.mp4", "rest", Some("x/a")),
            ("/{channel}/index.m3u8", "/one/index.m3u8", "channel", Some("one")),
            ("/{channel}/{quality}/*", "/one/hd/1.m4s", "quality", Some("hd")),
            ("/{channel}/{quality}/*", "/one/hd/1.m4s", "rest", Some("1.m4s")),
            ("/x/{name}", "/x/y", "name", Some("y")),
        ] {
            assert!(pattern(text).matches(path), "{text} {path}");
            assert_eq!(pattern(text).captured(path, name), captured, "{text} {path}");
        }
        for (text, path) in [
            ("/a", "/a/"),
            ("/a", "/A"),
            ("/live/*", "/live"),
            ("*.mp4", "/a.mp4/"),
            ("/vod/*.mp4", "/vod/.mp"),
            ("/vod*od/x", "/vod/x"),
            ("/{channel}/index.m3u8", "//index.m3u8"),
            ("/{channel}/index.m3u8", "/a/b/index.m3u8"),
            ("/x/{name}", "/x/y/z"),
        ] {
            assert!(!pattern(text).matches(path), "{text} {path}");
        }
    }

    #[test]
    fn wrong_patterns_are_told_how_to_be_written() {
        for (text, instead) in [
            ("live/*", "write a path such as /live/* or *.mp4"),
            ("", "write a path such as /live/* or *.mp4"),
            ("/a/*/b/*", "write one `*`, which stands for slashes too, or {name} for a segment"),
            ("/a{b}/*", "write it between two slashes, such as /{channel}/*"),
            ("/{b}*", "write it between two slashes, such as /{channel}/*"),
            ("/{b", "write {name} for a segment"),
            ("/{b}/{b}/", "write different names of lowercase letters and _"),
            ("/{rest}/", "write different names of lowercase letters and _"),
            ("/%61/*", "write `/a/`, the normal form in which paths are compared"),
            ("/a/../b", "write `/b`, the normal form in which paths are compared"),
            ("/a b", "write `/a%20b`, the normal form in which paths are compared"),
            ("/a?b", "write a path: conditions on the query belong to `when`"),
        ] {
            assert_eq!(
                PathPattern::parse(text).map_err(|(_, instead)| instead),
                Err(instead.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn a_pattern_covers_those_whose_paths_it_matches() {
        for (wide, narrow, covers) in [
            ("/*", "*.mp4", false),
            ("/*", "/a", true),
            ("/*", "/{x}/a", true),
            ("/live/*", "/live/a/*", true),
            ("/live/*", "/live/{x}/y", true),
            ("/live/*", "/liv*", false),
            ("*.mp4", "/a/*.mp4", true),
            ("*.mp4", "/a.mp4", true),
            ("/a*a", "/a", false),
            ("*.mp4", "/a/*", false),
            ("/{x}/*", "/{y}/*", true),
            ("/{x}/*", "/a/*", false),
            ("/a", "/a", true),
            ("/a", "/{x}", false),
        ] {
            assert_eq!(pattern(wide).covers(&pattern(narrow)), covers, "{wide} {narrow}");
        }
    }
}
