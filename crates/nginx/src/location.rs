//! `location`: the paths of a route, and what answers there.

use crate::caching::{cache, is_cached};
use crate::guards::guards;
use crate::origin::{self, ProxyPass, Upstreams};
use crate::parse::Directive;
use crate::remarks::Remarks;
use crate::rules;
use crate::scope::Scope;
use crate::yaml::Node;

/// The paths of a location, in the order in which nginx prefers the kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Paths {
    Exact(String),
    /// A prefix with `^~`.
    Firm(String),
    /// Ends of paths: `.mp4`.
    Ends(Vec<String>),
    Prefix(String),
}

impl Paths {
    /// Reads the arguments of a `location`; `None` with a remark if they have no counterpart.
    pub(crate) fn read(location: &Directive, remarks: &mut Remarks) -> Option<Self> {
        let (modifier, path) = match location.arguments.as_slice() {
            [path] => ("", path.as_str()),
            [modifier, path] => (modifier.as_str(), path.as_str()),
            _ => return None,
        };
        match modifier {
            "=" => Some(Self::Exact(path.to_owned())),
            "^~" => Some(Self::Firm(path.to_owned())),
            "~" | "~*" => {
                let found = ends(path).map(Self::Ends).or_else(|| prefix(path).map(Self::Prefix));
                if found.is_none() {
                    let why = "routes have patterns such as /live/* and *.mp4 instead of regular expressions";
                    remarks.add(location, why);
                }
                found
            }
            _ if path.starts_with('@') => {
                remarks.add(location, "a response of the origin leads to no other location");
                None
            }
            _ => Some(Self::Prefix(path.to_owned())),
        }
    }

    /// The order in which routes are tried, where the first that matches counts: as nginx prefers locations.
    pub(crate) fn rank(&self) -> (u8, usize) {
        match self {
            Self::Exact(_) => (0, 0),
            Self::Firm(path) => (1, usize::MAX - path.len()),
            Self::Ends(_) => (2, 0),
            Self::Prefix(path) => (3, usize::MAX - path.len()),
        }
    }

    /// Whether every path is one of them.
    pub(crate) fn are_all(&self) -> bool {
        matches!(self, Self::Firm(path) | Self::Prefix(path) if path == "/")
    }

    /// The patterns of routes.
    pub(crate) fn patterns(&self) -> Vec<String> {
        match self {
            Self::Exact(path) => vec![path.clone()],
            Self::Firm(path) | Self::Prefix(path) => vec![format!("{path}*")],
            Self::Ends(ends) => ends.iter().map(|end| format!("*{end}")).collect(),
        }
    }

    fn prefix(&self) -> Option<&str> {
        match self {
            Self::Firm(path) | Self::Prefix(path) => Some(path),
            Self::Exact(_) | Self::Ends(_) => None,
        }
    }
}

/// The ends that an expression such as `\.(mp4|m4s)$` stands for.
fn ends(expression: &str) -> Option<Vec<String>> {
    let body = expression.strip_suffix('$')?;
    let body = body
        .strip_prefix(".*")
        .or_else(|| body.strip_prefix("^.*"))
        .or_else(|| body.strip_prefix(".+"))
        .unwrap_or(body);
    let body = body.strip_prefix("\\.")?;
    let group =
        body.strip_prefix("(?:").or_else(|| body.strip_prefix('(')).and_then(|rest| rest.strip_suffix(')'));
    let words: Vec<&str> = group.unwrap_or(body).split('|').collect();
    let plain = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    words.iter().all(plain).then(|| words.into_iter().map(|word| format!(".{word}")).collect())
}

/// The prefix that an expression such as `^/live/` stands for.
fn prefix(expression: &str) -> Option<String> {
    let body = expression.strip_prefix('^')?;
    let body = body
        .strip_suffix(".*")
        .or_else(|| body.strip_suffix(".*$"))
        .or_else(|| body.strip_suffix("(.*)$"))
        .unwrap_or(body);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-".contains(&byte);
    (body.starts_with('/') && body.bytes().all(plain)).then(|| body.to_owned())
}

/// What a server or one of its locations is translated with.
pub(crate) struct LocationPlace<'p, 'd> {
    pub(crate) scope: Scope<'d>,
    pub(crate) upstreams: &'p Upstreams<'d>,
    /// The hosts of the site.
    pub(crate) hosts: &'p [String],
}

/// The settings of a site or a route.
pub(crate) fn settings(
    place: &LocationPlace<'_, '_>,
    paths: Option<&Paths>,
    own: &Directive,
    remarks: &mut Remarks,
) -> Node {
    let scope = &place.scope;
    let mut settings = Node::Map(Vec::new());
    if let Some(directive) = own.child("return") {
        rules::returned(directive, &mut settings, remarks);
    }
    let answers = settings.get("redirect").is_some() || settings.get("respond").is_some();
    if !answers {
        source(place, paths, own, &mut settings, remarks);
    }
    rules::fields(scope, &mut settings, remarks);
    guards(scope, place.hosts, own, &mut settings, remarks);
    rules::limits(scope, &mut settings, remarks);
    if let Some(index) =
        scope.value("index").filter(|name| *name != "index.html" && !name.contains(['/', '$']))
    {
        settings.set("index", Node::text(index));
    }
    if let Some(limit) = own.child("limit_except") {
        settings.set("methods", Node::List(Vec::new()));
        if limit.child("allow").is_some() {
            remarks.add(limit, "methods are refused to all clients (methods: [])");
        }
    }
    if let Some(directive) =
        own.child("try_files").filter(|one| one.arguments.last().is_none_or(|last| last != "=404"))
    {
        remarks.add(directive, "a file that is missing is answered with 404");
    }
    if let Some(directive) = scope.find("error_page") {
        remarks.add(directive, "errors have short pages of their own");
    }
    settings
}

/// `root`, `alias` or `proxy_pass`.
fn source(
    place: &LocationPlace<'_, '_>,
    paths: Option<&Paths>,
    own: &Directive,
    settings: &mut Node,
    remarks: &mut Remarks,
) {
    let scope = &place.scope;
    let prefix = paths.and_then(Paths::prefix).unwrap_or("/");
    if let Some(directive) = own.child("proxy_pass") {
        let Some(pass) = ProxyPass::read(directive, remarks) else { return };
        let base = match &pass.path {
            Some(path) if path != prefix => path.trim_end_matches('/').to_owned(),
            _ => String::new(),
        };
        if pass.path.as_ref().is_some_and(|path| path != prefix) && prefix != "/" {
            settings.set("rewrite", Node::text("/{rest}"));
        }
        let origin = origin::origin(&pass, &base, scope, place.upstreams, place.hosts, remarks);
        settings.set("origin", origin);
        rules::request_fields(scope, settings, remarks);
        if is_cached(scope) {
            settings.set("cache", cache(scope, remarks));
        }
    } else if let Some(alias) = own.child("alias").filter(|alias| !alias.argument(0).contains('$')) {
        settings.set("origin.directory", Node::text(directory(alias.argument(0))));
        if prefix != "/" {
            settings.set("rewrite", Node::text("/{rest}"));
        }
    } else if let Some(root) = scope.find("root") {
        if root.argument(0).contains('$') {
            remarks.add(root, "a directory with variables: write a site for each");
            return;
        }
        settings.set("origin.directory", Node::text(directory(root.argument(0))));
    }
}

fn directory(path: &str) -> &str {
    if path.len() > 1 { path.trim_end_matches('/') } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_for_ends_and_prefixes_are_patterns() {
        for (expression, expected) in [
            ("\\.mp4$", Some(vec![".mp4"])),
            ("\\.(mp4|m4s)$", Some(vec![".mp4", ".m4s"])),
            (".*\\.(?:ts|aac)$", Some(vec![".ts", ".aac"])),
            ("\\.mp4", None),
            ("/[0-9]+\\.ts$", None),
            ("\\.m3u8?$", None),
        ] {
            assert_eq!(
                ends(expression).as_deref(),
                expected.map(|ends| ends.into_iter().map(str::to_owned).collect::<Vec<_>>()).as_deref(),
                "{expression}"
            );
        }
        assert_eq!(prefix("^/live/").as_deref(), Some("/live/"));
        assert_eq!(prefix("^/live/(.*)$").as_deref(), Some("/live/"));
        assert_eq!(prefix("^/live/[0-9]"), None);
        assert_eq!(prefix("/live/"), None);
    }
}
