//! What a server or location says of responses and of clients: fields, redirects, limits, access.

use crate::caching::is_cached;
use crate::parse::Directive;
use crate::remarks::Remarks;
use crate::scope::Scope;
use crate::units::{milliseconds, size, time};
use crate::yaml::Node;

/// Variables of nginx with one of Penstock.
const VARIABLES: [(&str, &str); 7] = [
    ("remote_addr", "{client}"),
    ("host", "{host}"),
    ("http_host", "{host}"),
    ("uri", "{path}"),
    ("document_uri", "{path}"),
    ("upstream_cache_status", "{cache_status}"),
    ("request_id", "{request_id}"),
];

/// A text with its variables translated; `None` if one has no counterpart. A dollar without a name has none either.
pub(crate) fn variables(text: &str) -> Option<String> {
    let mut pieces = text.split('$');
    let mut translated = pieces.next()?.to_owned();
    for piece in pieces {
        let name_end = |text: &str| {
            text.find(|next: char| !next.is_ascii_alphanumeric() && next != '_').unwrap_or(text.len())
        };
        let (name, rest) = match piece.strip_prefix('{') {
            Some(inside) => inside.split_once('}')?,
            None => piece.split_at(name_end(piece)),
        };
        let (_, ours) = VARIABLES.iter().find(|(known, _)| *known == name)?;
        translated.push_str(ours);
        translated.push_str(rest);
    }
    Some(translated)
}

/// The response fields of a scope.
pub(crate) fn fields(scope: &Scope<'_>, settings: &mut Node, remarks: &mut Remarks) {
    for directive in scope.all("add_header") {
        let (name, value) = (directive.argument(0), directive.argument(1));
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "access-control-allow-origin" if !value.contains('$') => {
                settings.set("headers.cors", Node::text(value));
            }
            "strict-transport-security" => hsts(value, settings),
            other if other.starts_with("access-control-") => {
                remarks.add(
                    directive,
                    "with headers.cors, methods and fields of players are allowed; sites.cors has more",
                );
            }
            _ => match variables(value) {
                Some(value) => settings.set(&format!("headers.response.set.{name}"), Node::text(value)),
                None => remarks.add(directive, "its variable has no counterpart"),
            },
        }
    }
    let Some(expires) = scope.find("expires") else { return };
    let control = match expires.argument(0) {
        "off" => return,
        "epoch" | "-1" => Some("no-cache".to_owned()),
        "max" => Some("max-age=315360000".to_owned()),
        other => milliseconds(other).map(|total| format!("max-age={}", total / 1000)),
    };
    match control {
        Some(control) => settings.set("headers.response.set.Cache-Control", Node::text(control)),
        None => remarks.add(expires, "write the Cache-Control that clients should get"),
    }
}

fn hsts(value: &str, settings: &mut Node) {
    let directives: Vec<String> = value.split(';').map(|one| one.trim().to_ascii_lowercase()).collect();
    let age = directives.iter().find_map(|one| one.strip_prefix("max-age=")).unwrap_or("0");
    let age = time(age.trim_matches('"')).unwrap_or_else(|| "0".to_owned());
    settings.set("headers.hsts.max_age", Node::text(age));
    for (directive, key) in [("includesubdomains", "include_subdomains"), ("preload", "preload")] {
        if directives.iter().any(|one| one == directive) {
            settings.set(&format!("headers.hsts.{key}"), Node::text("true"));
        }
    }
}

/// Fields that a location adds to requests for its origin.
pub(crate) fn request_fields(scope: &Scope<'_>, settings: &mut Node, remarks: &mut Remarks) {
    settings.set("request_id", Node::text("off"));
    for directive in scope.all("proxy_set_header") {
        let (name, value) = (directive.argument(0), directive.argument(1));
        let lower = name.to_ascii_lowercase();
        let is_ours = matches!(
            lower.as_str(),
            "host"
                | "range"
                | "connection"
                | "x-forwarded-for"
                | "x-forwarded-proto"
                | "x-forwarded-host"
                | "accept-encoding"
        );
        match () {
            () if lower == "upgrade" && value.eq_ignore_ascii_case("h2c") => {
                remarks.add(directive, "connections do not switch to HTTP/2");
            }
            // nginx passes on what the client asks for. All that is known to be asked for is WebSocket.
            () if lower == "upgrade"
                && (value == "$http_upgrade" || value.eq_ignore_ascii_case("websocket")) =>
            {
                settings.set("origin.upgrades", Node::texts(["websocket"]));
                let timeout = scope.find("proxy_read_timeout");
                let idle = timeout.and_then(|timeout| milliseconds(timeout.argument(0))).unwrap_or(60_000);
                let idle = time(&format!("{}s", idle.div_ceil(1000).clamp(1, 86_400)));
                settings.set("origin.upgrade_idle", Node::text(idle.unwrap_or_default()));
            }
            () if lower == "upgrade" && value.is_empty() => {}
            () if lower == "upgrade" => {
                remarks.add(directive, "write the protocols that clients may switch to as origin.upgrades");
            }
            () if is_ours => {}
            () if lower == "x-request-id" && matches!(value, "$request_id" | "${request_id}") => {
                settings.set("request_id", Node::text("generate"));
            }
            () => match variables(value) {
                Some(value) if value.contains('{') && is_cached(scope) => {
                    remarks.add(
                        directive,
                        "its value differs between requests, and the responses are cached for all",
                    );
                }
                Some(value) => settings.set(&format!("headers.request.set.{name}"), Node::text(value)),
                None => remarks.add(directive, "its variable has no counterpart"),
            },
        }
    }
}

/// Who may ask, and how much.
pub(crate) fn limits(scope: &Scope<'_>, settings: &mut Node, remarks: &mut Remarks) {
    access(scope, settings, remarks);
    for directive in scope.all("limit_conn") {
        settings.set("limits.connections", Node::text(directive.argument(1)));
    }
    for directive in scope.all("limit_req") {
        let zone = directive.arguments.iter().find_map(|option| option.strip_prefix("zone="));
        let rate = scope.all("limit_req_zone").into_iter().find_map(|defined| {
            let named = defined.arguments.iter().find_map(|option| option.strip_prefix("zone="))?;
            let is_it = zone == named.split(':').next();
            defined.arguments.iter().find_map(|option| option.strip_prefix("rate=")).filter(|_| is_it)
        });
        match rate.and_then(per_second) {
            Some(rate) => {
                settings.set("limits.requests.rate", Node::text(rate));
                let burst = directive.arguments.iter().find_map(|option| option.strip_prefix("burst="));
                settings.set("limits.requests.burst", Node::text(burst.unwrap_or("1")));
            }
            None => remarks.add(directive, "a rate is a number of requests per second"),
        }
    }
    if let Some(rate) = scope.value("limit_rate").and_then(size).filter(|rate| rate != "0") {
        let after = scope.value("limit_rate_after").and_then(size).unwrap_or_else(|| "0".to_owned());
        settings.set("pace", Node::map([("after", Node::text(after)), ("rate", Node::text(rate))]));
    }
    if let Some(factor) = scope.value("mp4_limit_rate").filter(|factor| *factor != "off") {
        // nginx: `on` is 1.1 times the bitrate.
        let factor = if factor == "on" { 1.1 } else { factor.parse::<f64>().unwrap_or(1.1) };
        settings.set("pace.rate", Node::text(format!("{:.1}x", factor.clamp(1.0, 100.0))));
    }
    if scope.value("gzip") == Some("off") {
        settings.set("compress", Node::text("false"));
    }
}

fn per_second(rate: &str) -> Option<String> {
    rate.strip_suffix("r/s")
        .filter(|number| number.parse::<u32>().is_ok())
        .map(|number| format!("{number}/s"))
}

fn access(scope: &Scope<'_>, settings: &mut Node, remarks: &mut Remarks) {
    let rules = scope.all_of(&["allow", "deny"]);
    let lists = ["allow", "deny"]
        .map(|name| rules.iter().copied().filter(|rule| rule.name == name).collect::<Vec<_>>());
    let names_all = |list: &[&Directive]| list.iter().any(|one| one.argument(0) == "all");
    if lists[0].is_empty() && names_all(&lists[1]) {
        *settings = Node::map([("respond", Node::map([("status", Node::text("403"))]))]);
        return;
    }
    if let [[first, ..], [_, ..]] = [&lists[0][..], &lists[1][..]]
        && !names_all(&lists[0])
        && !names_all(&lists[1])
    {
        remarks.caution(first, "clients that neither list names are let in only if there is no allow");
    }
    for (name, list) in ["allow", "deny"].iter().zip(&lists) {
        let networks: Vec<&str> =
            list.iter().map(|one| one.argument(0)).filter(|network| *network != "all").collect();
        if !networks.is_empty() {
            settings.set(&format!("access.{name}"), Node::texts(networks));
        }
    }
}

/// What a `return` does: a redirect or a response of its own.
pub(crate) fn returned(directive: &Directive, settings: &mut Node, remarks: &mut Remarks) {
    let (first, second) = (directive.argument(0), directive.argument(1));
    let (status, rest) = match first.parse::<u16>() {
        Ok(status) => (status, second),
        Err(_) => (302, first),
    };
    match status {
        301 | 302 | 303 | 307 | 308 => match redirect_target(rest) {
            Some(to) => {
                settings.set("redirect.to", Node::text(to));
                settings.set("redirect.status", Node::text(status.to_string()));
            }
            None => remarks.add(directive, "its variables have no counterpart in a redirect"),
        },
        444 => remarks.caution(directive, "connections are not closed without a response"),
        200..=599 => {
            settings.set("respond.status", Node::text(status.to_string()));
            if !rest.is_empty() {
                match variables(rest) {
                    Some(body) if !body.contains('{') => settings.set("respond.body", Node::text(body)),
                    _ => remarks.add(directive, "variables in a body have no counterpart"),
                }
            }
        }
        _ => remarks.add(directive, "this status cannot be returned"),
    }
}

/// The place of a redirect. Penstock keeps the query by itself.
fn redirect_target(text: &str) -> Option<String> {
    let text =
        text.replace("$request_uri", "{path}").replace("$is_args$args", "").replace("$scheme", "https");
    variables(&text)
}

/// Whether a server does nothing but redirect to HTTPS.
pub(crate) fn redirects_to_https(server: &Directive) -> bool {
    let to_https = |directive: &Directive| {
        let target = directive.argument(1);
        matches!(directive.argument(0), "301" | "302" | "307" | "308")
            && target.starts_with("https://")
            && target.ends_with("$request_uri")
            && ["$host", "$server_name", "$http_host"]
                .contains(&target.trim_start_matches("https://").trim_end_matches("$request_uri"))
    };
    let own = server.child("return").is_some_and(to_https);
    let has_other = server.all("location").any(|location| !location.child("return").is_some_and(to_https));
    own || server.all("location").next().is_some() && !has_other
}

/// A route that stands for a `rewrite`: its path and its settings.
pub(crate) fn rewrite(directive: &Directive, remarks: &mut Remarks) -> Option<(String, Node)> {
    let (pattern, to, flag) = (directive.argument(0), directive.argument(1), directive.argument(2));
    let body = pattern.strip_prefix('^').unwrap_or(pattern);
    let literal = |text: &str| !text.contains(['(', ')', '[', ']', '*', '+', '?', '|', '^', '$', '\\', '{']);
    let unescaped = body.replace("\\.", ".").replace("\\-", "-");
    let captured = ["(.*)$", "(.+)$", "(.*)", "(.+)"].iter().find_map(|end| unescaped.strip_suffix(end));
    let exact = unescaped.strip_suffix('$');
    let (path, rest) = match (captured, exact) {
        (Some(before), _) if literal(before) => (format!("{before}*"), true),
        (None, Some(whole)) if literal(whole) => (whole.to_owned(), false),
        _ => {
            remarks
                .add(directive, "routes have patterns with `*` and `{name}` instead of regular expressions");
            return None;
        }
    };
    if !pattern.starts_with('^') {
        remarks.add(directive, "an expression that matches within a path has no counterpart");
        return None;
    }
    let to = if rest { to.replace("$1", "{rest}") } else { to.to_owned() };
    let Some(to) = variables(&to) else {
        remarks.add(directive, "its variables have no counterpart");
        return None;
    };
    let to = to.trim_end_matches('?').to_owned();
    let mut settings = Node::Map(Vec::new());
    let status = match flag {
        "permanent" => Some("301"),
        "redirect" => Some("302"),
        _ if to.contains("://") => Some("302"),
        _ => None,
    };
    match status {
        Some(status) => {
            settings.set("redirect.to", Node::text(to));
            settings.set("redirect.status", Node::text(status));
        }
        None => settings.set("rewrite", Node::text(to)),
    }
    Some((path, settings))
}

#[cfg(test)]
mod tests {
    use super::variables;

    #[test]
    fn variables_have_the_names_of_penstock() {
        for (text, expected) in [
            ("$upstream_cache_status", Some("{cache_status}")),
            ("https://${host}$uri", Some("https://{host}{path}")),
            ("$hostname", None),
            ("${host", None),
            ("a $ b", None),
            ("/new/{rest}", Some("/new/{rest}")),
            ("plain", Some("plain")),
            ("$host:$host", Some("{host}:{host}")),
            ("$request_id", Some("{request_id}")),
        ] {
            assert_eq!(variables(text).as_deref(), expected, "{text}");
        }
    }
}
