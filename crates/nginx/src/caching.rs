//! `proxy_cache` and its kin: how long responses are kept, and for which requests.

use crate::parse::Directive;
use crate::remarks::Remarks;
use crate::scope::Scope;
use crate::units::{milliseconds, time};
use crate::yaml::Node;

/// The longest time for which Penstock sends a stale response, in milliseconds.
const STALE_MILLISECONDS_MAX: u64 = 30 * 86_400_000;

/// For how long nginx keeps what no request asks for, unless `inactive` says it.
const INACTIVE: &str = "10m";

/// Whether responses are kept.
pub(crate) fn is_cached(scope: &Scope<'_>) -> bool {
    scope.value("proxy_cache").is_some_and(|zone| zone != "off")
}

/// The `cache` section of a site whose responses are kept.
pub(crate) fn cache(scope: &Scope<'_>, remarks: &mut Remarks) -> Node {
    // Without proxy_cache_valid only what the origin gives a lifetime is kept.
    let mut cache = Node::map([("default_ttl", Node::text("0")), ("missing_ttl", Node::text("0"))]);
    lifetimes(scope, &mut cache, remarks);
    ignored(scope, &mut cache, remarks);
    stale(scope, &mut cache, remarks);
    bypass(scope, &mut cache, remarks);
    if let Some(key) = scope.find("proxy_cache_key") {
        let has_query = ["$request_uri", "$args", "$query_string", "$is_args", "$arg_"]
            .iter()
            .any(|variable| key.argument(0).contains(variable));
        if !has_query {
            cache.set("query", Node::text("ignore_all"));
        }
        if ["$cookie_", "$http_", "$arg_"].iter().any(|variable| key.argument(0).contains(variable)) {
            remarks.add(key, "objects are told apart by path, query (cache.query) and Vary (cache.vary)");
        }
    }
    // Said of a place, rather than the default of nginx.
    if scope.value("proxy_cache_lock").is_some_and(|lock| lock == "off") {
        cache.set("coalescing", Node::text("false"));
    }
    // Only what viewers ask for is fetched.
    cache.set("prefetch", Node::text("0"));
    cache
}

/// The first directive that has a status counts, and none behind `any`.
fn lifetimes(scope: &Scope<'_>, cache: &mut Node, remarks: &mut Remarks) {
    for directive in scope.all("proxy_cache_valid") {
        let Some((last, statuses)) = directive.arguments.split_last() else { continue };
        let Some(ttl) = time(last) else { continue };
        let mut statuses: Vec<&str> = statuses.iter().map(String::as_str).collect();
        if statuses.is_empty() {
            statuses = vec!["200", "301", "302"];
        }
        for status in statuses {
            let known: &[&str] = match (status, status.parse::<u16>()) {
                ("any", _) => &["2xx", "3xx", "4xx", "5xx"],
                // A part belongs to a 200.
                (_, Ok(206)) => &[],
                (_, Ok(304 | 425)) | (_, Err(_)) => {
                    remarks.add(directive, "a response with this status is not stored");
                    &[]
                }
                (_, Ok(200..=599)) => &[status],
                (_, Ok(_)) => &[],
            };
            for status in known {
                let key = format!("ttl.{status}");
                if cache.get(&key).is_none() {
                    cache.set(&key, Node::text(&*ttl));
                }
            }
            if status == "any" {
                return;
            }
        }
    }
}

fn ignored(scope: &Scope<'_>, cache: &mut Node, remarks: &mut Remarks) {
    let Some(directive) = scope.find("proxy_ignore_headers") else { return };
    let has = |name: &str| directive.arguments.iter().any(|field| field.eq_ignore_ascii_case(name));
    match (has("Cache-Control"), has("Expires")) {
        (true, expires) => {
            cache.set("ignore_origin", Node::text("true"));
            if !expires {
                remarks.add(directive, "Expires of the origin does not count either");
            }
        }
        (false, true) => remarks.add(directive, "Expires counts where there is no Cache-Control"),
        (false, false) => {}
    }
    if has("Set-Cookie") {
        remarks.add(directive, "a response with Set-Cookie is for one client, and is not stored");
    }
    if has("Vary") {
        remarks.add(directive, "Vary counts: cache.vary has the fields that go to the origin");
    }
}

fn stale(scope: &Scope<'_>, cache: &mut Node, remarks: &mut Remarks) {
    let Some(directive) = scope.find("proxy_cache_use_stale") else { return };
    let zone = scope.value("proxy_cache").unwrap_or_default();
    let option = |path: &Directive, name: &str| {
        path.arguments.iter().find_map(|option| Some(option.strip_prefix(name)?.to_owned()))
    };
    let is_it = |path: &&Directive| {
        option(path, "keys_zone=").is_some_and(|named| named.split(':').next() == Some(zone))
    };
    let path = scope.all("proxy_cache_path").into_iter().find(is_it);
    let inactive = path.and_then(|path| option(path, "inactive="));
    let kept = milliseconds(inactive.as_deref().unwrap_or(INACTIVE)).unwrap_or_default();
    let kept = time(&format!("{}ms", kept.min(STALE_MILLISECONDS_MAX))).unwrap_or_default();
    for condition in &directive.arguments {
        let key = match condition.as_str() {
            "updating" => "stale_while_revalidate",
            "http_500" => "stale_if_error",
            "error" | "timeout" | "invalid_header" | "http_502" | "http_503" | "http_504" => "grace",
            "off" => continue,
            _ => {
                let why = "a stale response stands in for an origin that fails: a 5xx or no response";
                remarks.add(directive, why);
                continue;
            }
        };
        cache.set(key, Node::text(&*kept));
    }
}

fn bypass(scope: &Scope<'_>, cache: &mut Node, remarks: &mut Remarks) {
    let (passing, unstored) = (scope.all("proxy_cache_bypass"), scope.all("proxy_no_cache"));
    let words = |directives: &[&Directive]| -> Vec<String> {
        directives.iter().flat_map(|directive| directive.arguments.iter().cloned()).collect()
    };
    let (conditions, kept_out) = (words(&passing), words(&unstored));
    let kinds = [("fields", "$http_"), ("cookies", "$cookie_"), ("query", "$arg_")];
    let plain = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let name_of = |word: &str, prefix: &str| {
        let name = word.strip_prefix(prefix).filter(|name| plain(name))?;
        Some(if prefix == "$http_" { name.replace('_', "-") } else { name.to_owned() })
    };
    for (key, prefix) in kinds {
        let names: Vec<String> = conditions.iter().filter_map(|word| name_of(word, prefix)).collect();
        if !names.is_empty() {
            cache.set(&format!("bypass.{key}"), Node::texts(names));
        }
    }
    let is_known = |word: &String| kinds.iter().any(|(_, prefix)| name_of(word, prefix).is_some());
    for directive in &passing {
        if !directive.arguments.iter().all(is_known) {
            remarks.add(directive, "a field, a cookie or a parameter passes the cache by (cache.bypass)");
        }
        if directive.arguments.iter().any(|word| is_known(word) && !kept_out.contains(word)) {
            remarks.add(directive, "responses that pass the cache by are not stored, and renew no object");
        }
    }
    for directive in &unstored {
        if !directive.arguments.iter().all(|word| is_known(word) && conditions.contains(word)) {
            remarks.add(directive, "the Cache-Control of the origin says what is stored");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::http::tests::{remarks, site};

    #[test]
    fn lifetimes_stale_responses_and_conditions_are_translated() {
        for (inside, expected) in [
            ("proxy_cache_valid 1m;", "ttl: {200: 1m, 301: 1m, 302: 1m}"),
            ("proxy_cache_valid 200 206 1h; proxy_cache_valid 404 5s;", "ttl: {200: 1h, 404: 5s}"),
            (
                "proxy_cache_valid 200 1h; proxy_cache_valid any 1s; proxy_cache_valid 404 5s;",
                "ttl: {200: 1h, 2xx: 1s, 3xx: 1s, 4xx: 1s, 5xx: 1s}",
            ),
            (
                "proxy_cache_use_stale error timeout http_503 updating;",
                "grace: 10m, stale_while_revalidate: 10m",
            ),
            ("proxy_cache_use_stale http_500;", "stale_if_error: 10m"),
            ("proxy_cache_use_stale off;", ""),
            ("proxy_cache_lock off;", "coalescing: false"),
            ("proxy_cache_lock on;", ""),
            ("proxy_ignore_headers Cache-Control Expires X-Accel-Expires;", "ignore_origin: true"),
            (
                "proxy_cache_bypass $http_x_debug $cookie_a $arg_b $cookie_c; proxy_no_cache $http_x_debug;",
                "bypass: {fields: [x-debug], cookies: [a, c], query: [b]}",
            ),
        ] {
            let found = site(&format!(
                "location / {{ proxy_pass http://a; proxy_cache z; proxy_cache_key $uri$args; {inside} }}"
            ));
            let (_, cache) = found.split_once("    cache:").unwrap();
            let words = |text: &str| text.replace(['{', '}', '[', ']', ',', ':', '"'], " ");
            let found: Vec<String> = words(cache).split_whitespace().map(str::to_owned).collect();
            let expected = words(&format!("default_ttl 0 missing_ttl 0 {expected} prefetch 0"));
            assert_eq!(found, expected.split_whitespace().collect::<Vec<_>>(), "{inside}");
        }
    }

    #[test]
    fn what_the_cache_does_otherwise_is_said() {
        for (inside, expected) in [
            ("proxy_cache_valid 304 1m;", "proxy_cache_valid 304 1m: a response with this status"),
            (
                "proxy_cache_use_stale error http_404;",
                "proxy_cache_use_stale error http_404: a stale response",
            ),
            (
                "proxy_ignore_headers Cache-Control;",
                "proxy_ignore_headers Cache-Control: Expires of the origin",
            ),
            ("proxy_ignore_headers Expires;", "proxy_ignore_headers Expires: Expires counts"),
            (
                "proxy_ignore_headers Set-Cookie;",
                "proxy_ignore_headers Set-Cookie: a response with Set-Cookie",
            ),
            ("proxy_ignore_headers Vary;", "proxy_ignore_headers Vary: Vary counts"),
            ("proxy_cache_bypass $upstream_x;", "proxy_cache_bypass $upstream_x: a field, a cookie"),
            ("proxy_cache_bypass $arg_a;", "proxy_cache_bypass $arg_a: responses that pass"),
            ("proxy_no_cache $arg_a;", "proxy_no_cache $arg_a: the Cache-Control"),
        ] {
            let found = remarks(&format!("location / {{ proxy_pass http://a; proxy_cache z; {inside} }}"));
            assert!(matches!(&found[..], [one] if one.starts_with(expected)), "{inside}: {found:?}");
        }
    }
}
