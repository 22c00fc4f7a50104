//! `server`: a site with its routes.

use crate::location::{LocationPlace, Paths, settings};
use crate::origin::Upstreams;
use crate::parse::Directive;
use crate::remarks::Remarks;
use crate::rules;
use crate::scope::Scope;
use crate::yaml::Node;

/// The hosts of a server; `*` for all if it is the default.
pub(crate) fn hosts(server: &Directive, is_default: bool, remarks: &mut Remarks) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    for directive in server.all("server_name") {
        for name in &directive.arguments {
            let lower = name.to_ascii_lowercase();
            match lower.as_str() {
                "" | "_" => {}
                expression if expression.starts_with('~') => {
                    remarks.add(directive, "hosts are names, or *.example.com for one label in front");
                }
                dotted if dotted.starts_with('.') => {
                    hosts.push(dotted[1..].to_owned());
                    hosts.push(format!("*{dotted}"));
                }
                name if name.contains('*') && !name.starts_with("*.") => {
                    remarks.add(directive, "hosts are names, or *.example.com for one label in front");
                }
                name => hosts.push(name.to_owned()),
            }
        }
    }
    if is_default || hosts.is_empty() {
        hosts.push("*".to_owned());
    }
    hosts.dedup();
    hosts
}

/// The site of a server.
pub(crate) fn site(
    server: &Directive,
    outer: &Scope<'_>,
    upstreams: &Upstreams<'_>,
    hosts: &[String],
    remarks: &mut Remarks,
) -> Node {
    let scope = outer.within(server);
    let mut locations = Vec::new();
    collect(server, &scope, &mut locations, remarks);
    locations.sort_by_key(|(paths, ..)| paths.rank());
    let all = locations.iter().position(|(paths, ..)| paths.are_all()).map(|place| locations.remove(place));
    let place = |scope: &Scope<'_>, paths: Option<&Paths>, own: &Directive, remarks: &mut Remarks| {
        settings(&LocationPlace { scope: scope.clone(), upstreams, hosts }, paths, own, remarks)
    };
    let own = match &all {
        // A `return` of the server comes before its locations.
        Some((paths, scope, location)) if server.child("return").is_none() => {
            place(scope, Some(paths), location, remarks)
        }
        _ => place(&scope, None, server, remarks),
    };
    let mut routes: Vec<(String, Node)> = rewrites(server, remarks);
    if let Some((_, _, location)) = &all {
        routes.extend(rewrites(location, remarks));
    }
    if server.child("return").is_none() {
        for (paths, scope, location) in &locations {
            routes.extend(rewrites(location, remarks));
            let settings = place(scope, Some(paths), location, remarks);
            routes.extend(paths.patterns().into_iter().map(|pattern| (pattern, settings.clone())));
        }
    }
    let mut site = Node::map([("hosts", Node::texts(hosts.iter().cloned()))]);
    for key in KEYS {
        if let Some(value) = own.get(key).filter(|value| !is_reset(value)) {
            site.set(key, value.clone());
        }
    }
    let routes: Vec<Node> = routes.into_iter().map(|(path, settings)| route(path, settings, &own)).collect();
    if !routes.is_empty() {
        site.set("routes", Node::List(routes));
    }
    site
}

/// The keys of a site in the order in which they are written.
const KEYS: [&str; 14] = [
    "origin",
    "redirect",
    "respond",
    "rewrite",
    "cache",
    "headers",
    "access",
    "limits",
    "pace",
    "methods",
    "compress",
    "index",
    "tokens",
    "request_id",
];

/// A route with what differs from its site.
fn route(path: String, settings: Node, site: &Node) -> Node {
    let mut route = Node::map([("path", Node::text(path))]);
    for key in KEYS {
        let Some(value) = settings.get(key).filter(|value| site.get(key) != Some(*value)) else { continue };
        if !is_reset(value) || site.get(key).is_some_and(|of_site| !is_reset(of_site)) {
            route.set(key, value.clone());
        }
    }
    route
}

/// Whether a value says that a route has nothing of what its site has.
fn is_reset(value: &Node) -> bool {
    *value == Node::text("off") || matches!(value, Node::Map(pairs) if pairs.is_empty())
}

type Located<'d> = (Paths, Scope<'d>, &'d Directive);

/// The locations of a block, with those within them.
fn collect<'d>(block: &'d Directive, scope: &Scope<'d>, found: &mut Vec<Located<'d>>, remarks: &mut Remarks) {
    for location in block.children().iter().filter(|child| child.name == "location") {
        let inner = scope.within(location);
        collect(location, &inner, found, remarks);
        if let Some(paths) = Paths::read(location, remarks) {
            found.push((paths, inner, location));
        }
    }
}

fn rewrites(block: &Directive, remarks: &mut Remarks) -> Vec<(String, Node)> {
    block.all("rewrite").filter_map(|directive| rules::rewrite(directive, remarks)).collect()
}
