//! The body of a fuzz target: routes and the path of a request.

use penstock_config::RouteMatcher;
use penstock_config::pattern::PathPattern;
use penstock_http::uri::normalise_path;

use super::RouteMatchers;

/// Bytes of an input: the plain comparison calls itself for each character.
const INPUT_BYTES_MAX: usize = 1024;

/// The body of the fuzz target `routes`: the paths of routes, one in each line, and in the last line the path of a request. The
/// compiled table finds the route that a plain comparison of each finds, what was captured fills the pattern again, and a
/// pattern that covers another matches what that matches.
///
/// # Panics
/// When it does not.
pub fn fuzz_routes(input: &[u8]) {
    let Ok(text) = str::from_utf8(&input[..input.len().min(INPUT_BYTES_MAX)]) else { return };
    let Some((routes, path)) = text.rsplit_once('\n') else { return };
    let path = normalise_path(path);
    let patterns: Vec<_> = routes.lines().filter_map(|line| PathPattern::parse(line).ok()).collect();
    let matcher = |path: &PathPattern| RouteMatcher {
        path: path.clone(),
        methods: Vec::new(),
        query: Vec::new(),
        headers: Vec::new(),
    };
    let found = RouteMatchers::new(patterns.iter().map(matcher).collect()).first(&path, |_| true);
    let expected = patterns.iter().position(|pattern| is_like(&pattern.to_string(), &path));
    assert_eq!(found, expected, "{path:?} and {patterns:?}");
    for pattern in patterns.iter().filter(|pattern| pattern.matches(&path)) {
        let filled = filled(pattern, &path);
        // `rest` of `*.mp4` is without the slash in front.
        assert!(filled == path || format!("/{filled}") == path, "{pattern} makes {filled:?} of {path:?}");
        for other in patterns.iter().filter(|other| other.covers(pattern)) {
            assert!(other.matches(&path), "{other} covers {pattern} and does not match {path:?}");
        }
    }
}

/// Whether a path is like the text of a pattern, found character by character.
fn is_like(pattern: &str, path: &str) -> bool {
    match pattern.chars().next() {
        None => path.is_empty(),
        Some('*') => path
            .char_indices()
            .map(|(at, _)| at)
            .chain([path.len()])
            .any(|at| is_like(&pattern[1..], &path[at..])),
        Some('{') => {
            let behind = pattern.split_once('}').map_or("", |(_, behind)| behind);
            let end = path.find('/').unwrap_or(path.len());
            end > 0 && is_like(behind, &path[end..])
        }
        Some(literal) => {
            path.strip_prefix(literal).is_some_and(|path| is_like(&pattern[literal.len_utf8()..], path))
        }
    }
}

/// The text of a pattern with what its names stand for.
fn filled(pattern: &PathPattern, path: &str) -> String {
    let text = pattern.to_string();
    let (mut filled, mut left) = (String::new(), text.as_str());
    while let Some(at) = left.find(['{', '*']) {
        filled.push_str(&left[..at]);
        let (name, behind) = match left[at..].strip_prefix('*') {
            Some(behind) => ("rest", behind),
            None => left[at + 1..].split_once('}').expect("a pattern that was read"),
        };
        filled.push_str(pattern.captured(path, name).expect("each name of a pattern that matches"));
        left = behind;
    }
    filled + left
}
