//! The whole file: listeners, TLS, sites, cache, limits, log.

use std::collections::BTreeSet;

use crate::listen::Listen;
use crate::names::why_not;
use crate::origin::Upstreams;
use crate::parse::Directive;
use crate::remarks::{Remark, Remarks};
use crate::rules::redirects_to_https;
use crate::scope::Scope;
use crate::server::{hosts, site};
use crate::units::{size, time};
use crate::yaml::Node;

/// A configuration of Penstock, and what it lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The configuration, without remarks.
    pub yaml: String,
    /// What was not translated, in the order of the files.
    pub remarks: Vec<Remark>,
}

/// Translates a configuration. `knows` tells whether Penstock has a key, by its path (`sites.origin.http`): others are left
/// out, with a remark.
#[must_use]
pub fn translate(directives: Vec<Directive>, knows: &dyn Fn(&str) -> bool) -> Translation {
    let main = Directive {
        name: "main".to_owned(),
        arguments: Vec::new(),
        file: directives.first().map_or_else(String::new, |first| first.file.clone()),
        line: 1,
        block: Some(directives),
    };
    let mut remarks = Remarks::default();
    unknown(&main, &mut remarks);
    let outer = Scope::of(&main);
    // A file of `conf.d` has no `http` of its own.
    let (http, scope) = match main.child("http") {
        Some(http) => (http, outer.within(http)),
        None => (&main, outer),
    };
    let mut root = Node::Map(Vec::new());
    process(&main, &scope, &mut root);
    let servers: Vec<&Directive> = http.all("server").collect();
    listeners(&servers, &mut root, &mut remarks);
    tls(&servers, &scope, &mut root, &mut remarks);
    sites(http, &servers, &scope, knows, &mut root, &mut remarks);
    cache(&servers, &scope, &mut root, &mut remarks);
    limits(&scope, &mut root);
    if let Some(log) = scope.find("access_log").filter(|log| log.argument(0) != "off") {
        let path = log.argument(0);
        if path.starts_with('/') {
            root.set("log.access", Node::text(path));
            remarks.add(log, "the access log has one JSON object for each response");
        }
    }
    for path in root.prune(knows) {
        let opens = path.ends_with(".access")
            || path.ends_with(".tokens")
            || path == "sites.routes" && keeps_clients_out(&main);
        let why =
            "this version of Penstock does not have this key: what belongs there is left out".to_owned();
        remarks.all.push(Remark { file: main.file.clone(), line: 1, what: path, why, opens });
    }
    remarks.all.sort_by(|one, other| (&one.file, one.line).cmp(&(&other.file, other.line)));
    Translation { yaml: root.document(), remarks: remarks.all }
}

/// Remarks on directives without a counterpart.
fn unknown(block: &Directive, remarks: &mut Remarks) {
    for directive in block.children() {
        if let Some((why, opens)) = why_not(&directive.name) {
            if opens {
                remarks.caution(directive, why);
            } else {
                remarks.add(directive, why);
            }
        } else if !matches!(directive.name.as_str(), "types" | "upstream") {
            unknown(directive, remarks);
        }
    }
}

/// Whether a location has answers of its own for clients that should not get its content.
fn keeps_clients_out(block: &Directive) -> bool {
    let guards = ["allow", "deny", "return"];
    let has_guard =
        |block: &Directive| block.children().iter().any(|child| guards.contains(&child.name.as_str()));
    let is_one = |child: &Directive| child.name == "location" && has_guard(child);
    block.children().iter().any(|child| is_one(child) || keeps_clients_out(child))
}

fn process(main: &Directive, scope: &Scope<'_>, root: &mut Node) {
    if let Some(workers) = main.child("worker_processes") {
        root.set("workers", Node::text(workers.argument(0)));
    }
    if let Some(user) = main.child("user") {
        root.set("user", Node::text(user.argument(0)));
    }
    let events = main.child("events").and_then(|events| events.child("worker_connections"));
    let workers = scope.value("worker_processes").and_then(|workers| workers.parse::<u64>().ok());
    if let (Some(each), Some(workers)) =
        (events.and_then(|each| each.argument(0).parse::<u64>().ok()), workers)
    {
        root.set("limits.connections", Node::text(each.saturating_mul(workers).to_string()));
    }
}

/// Where the servers listen; without a `listen` on port 80.
fn read_listens(server: &Directive, remarks: &mut Remarks) -> Vec<Listen> {
    let mut found: Vec<Listen> =
        server.all("listen").filter_map(|directive| Listen::read(directive, remarks)).collect();
    if server.child("listen").is_none() {
        let address = "0.0.0.0:80".to_owned();
        found.push(Listen {
            address,
            tls: false,
            proxy_protocol: false,
            is_default: false,
            options: Vec::new(),
        });
    }
    if server.child("ssl").is_some_and(|ssl| ssl.argument(0) == "on") {
        found.iter_mut().for_each(|listen| listen.tls = true);
    }
    found
}

fn listeners(servers: &[&Directive], root: &mut Node, remarks: &mut Remarks) {
    let mut known: Vec<(Listen, bool)> = Vec::new();
    for server in servers {
        let redirects = redirects_to_https(server);
        for listen in read_listens(server, remarks) {
            match known.iter_mut().find(|(one, _)| one.address == listen.address) {
                Some((one, all_redirect)) => {
                    one.tls |= listen.tls;
                    one.proxy_protocol |= listen.proxy_protocol;
                    one.options.extend(listen.options);
                    *all_redirect &= redirects;
                }
                None => known.push((listen, redirects)),
            }
        }
    }
    let nodes = known.into_iter().map(|(listen, all_redirect)| {
        let mut node = Node::map([("address", Node::text(listen.address))]);
        if listen.tls {
            node.set("tls", Node::text("true"));
        } else if all_redirect {
            node.set("redirect", Node::text("https"));
        }
        if listen.proxy_protocol {
            node.set("proxy_protocol", Node::text("true"));
        }
        for (key, value) in listen.options {
            node.set(key, Node::text(value));
        }
        node
    });
    root.set("listeners", Node::List(nodes.collect()));
}

fn tls(servers: &[&Directive], outer: &Scope<'_>, root: &mut Node, remarks: &mut Remarks) {
    let mut certificates: Vec<Node> = Vec::new();
    let mut protocols = BTreeSet::new();
    for server in servers {
        let scope = outer.within(server);
        if !read_listens(server, &mut Remarks::default()).iter().any(|listen| listen.tls) {
            continue;
        }
        let (chains, keys) = (scope.all("ssl_certificate"), scope.all("ssl_certificate_key"));
        for (chain, key) in chains.into_iter().zip(keys) {
            if chain.argument(0).contains('$') {
                remarks.add(chain, "write a directory of certificates: tls.certificates: [{directory: ...}]");
                continue;
            }
            let pair = [("chain", Node::text(chain.argument(0))), ("key", Node::text(key.argument(0)))];
            let node = Node::map(pair);
            if !certificates.contains(&node) {
                certificates.push(node);
            }
        }
        protocols.extend(scope.find("ssl_protocols").into_iter().flat_map(|one| &one.arguments));
        if scope.is_on("ssl_stapling") {
            root.set("tls.ocsp", Node::text("auto"));
        }
        client_certificates(&scope, root, remarks);
        if let Some(directive) = scope.find("ssl_ciphers") {
            remarks.add(directive, "the ciphers are those that are safe today; tls.ciphers changes them");
        }
    }
    if !certificates.is_empty() {
        root.set("tls.certificates", Node::List(certificates));
    }
    let versions: Vec<&str> = protocols
        .into_iter()
        .filter_map(|name| match name.as_str() {
            "TLSv1" => Some("1.0"),
            "TLSv1.1" => Some("1.1"),
            "TLSv1.2" => Some("1.2"),
            "TLSv1.3" => Some("1.3"),
            _ => None,
        })
        .collect();
    if !versions.is_empty() && versions != ["1.2", "1.3"] {
        root.set("tls.versions", Node::texts(versions));
    }
}

fn client_certificates(scope: &Scope<'_>, root: &mut Node, remarks: &mut Remarks) {
    let Some(verify) = scope.find("ssl_verify_client") else { return };
    let mode = match verify.argument(0) {
        "on" => "required",
        "optional" => "optional",
        "off" => return,
        _ => {
            remarks.caution(verify, "certificates are verified: mode is required or optional");
            return;
        }
    };
    if let Some(ca) = scope.value("ssl_client_certificate") {
        root.set("tls.client_certificates", Node::map([("ca", Node::text(ca)), ("mode", Node::text(mode))]));
        if let Some(crl) = scope.value("ssl_crl") {
            root.set("tls.client_certificates.crl", Node::text(crl));
        }
        remarks.add(verify, "all listeners with TLS ask for certificates");
    }
}

fn sites(
    http: &Directive,
    servers: &[&Directive],
    scope: &Scope<'_>,
    knows: &dyn Fn(&str) -> bool,
    root: &mut Node,
    remarks: &mut Remarks,
) {
    let upstreams: Upstreams<'_> =
        http.all("upstream").map(|upstream| (upstream.argument(0), upstream)).collect();
    // The first server answers for unknown hosts, unless another one says that it does.
    let is_marked = |server: &&&Directive| {
        read_listens(server, &mut Remarks::default()).iter().any(|listen| listen.is_default)
    };
    let content = |server: &&&Directive| !redirects_to_https(server);
    let default = servers.iter().filter(content).find(is_marked).or_else(|| servers.iter().find(content));
    let default = default.or_else(|| servers.first());
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut nodes = Vec::new();
    // A server that leads to HTTPS has the hosts of another one, as a rule: the listener redirects.
    let (redirecting, serving): (Vec<&&Directive>, Vec<&&Directive>) =
        servers.iter().partition(|server| redirects_to_https(server));
    for server in serving.into_iter().chain(redirecting.into_iter().filter(|_| servers.len() == 1)) {
        let is_default = default.is_some_and(|default| std::ptr::eq(*default, *server));
        let hosts = hosts(server, is_default, remarks);
        let (fresh, known): (Vec<String>, Vec<String>) =
            hosts.into_iter().partition(|host| !taken.contains(host));
        if !known.is_empty() {
            let why =
                format!("another server has {} already: a site answers on every listener", known.join(", "));
            remarks.add(server, why);
        }
        if fresh.is_empty() {
            continue;
        }
        let mut node = site(server, scope, &upstreams, &fresh, remarks);
        let mut kept = Node::map([("sites", Node::List(vec![node.clone()]))]);
        kept.prune(knows);
        let answers = ["origin", "redirect", "respond"].iter().any(|key| {
            matches!(kept.get("sites"), Some(Node::List(sites)) if sites.iter().any(|site| site.get(key).is_some()))
        });
        if !answers {
            if node.get("routes").is_none() || !knows("sites.respond") {
                remarks.add(
                    server,
                    "no root and no proxy_pass of this server could be translated: it is left out",
                );
                continue;
            }
            // Paths without a location.
            node.set("respond.status", Node::text("404"));
        }
        taken.extend(fresh);
        nodes.push(node);
    }
    root.set("sites", Node::List(nodes));
}

fn cache(servers: &[&Directive], scope: &Scope<'_>, root: &mut Node, remarks: &mut Remarks) {
    let mut slices = BTreeSet::new();
    find_slices(servers, &mut slices);
    let slice = slices.iter().filter_map(|text| size(text)).find(|slice| slice != "0");
    let paths = scope.all("proxy_cache_path");
    if paths.is_empty() {
        return;
    }
    if let Some(slice) = slice {
        root.set("cache.slice", Node::text(slice));
    }
    let disks = paths.iter().filter_map(|path| {
        let most = path.arguments.iter().find_map(|option| option.strip_prefix("max_size=")).and_then(size);
        let Some(most) = most else {
            remarks.add(path, "a directory of the cache needs a size: write it as cache.disk.size");
            return None;
        };
        let directory = format!("{}/penstock", path.argument(0).trim_end_matches('/'));
        Some(Node::map([("directory", Node::text(directory)), ("size", Node::text(most))]))
    });
    let disks: Vec<Node> = disks.collect();
    if !disks.is_empty() {
        root.set("cache.disk", Node::List(disks));
    }
}

fn find_slices<'d>(blocks: &[&'d Directive], found: &mut BTreeSet<&'d str>) {
    for block in blocks {
        found.extend(block.child("slice").map(|slice| slice.argument(0)));
        let inner: Vec<&Directive> = block.children().iter().filter(|child| child.block.is_some()).collect();
        find_slices(&inner, found);
    }
}

fn limits(scope: &Scope<'_>, root: &mut Node) {
    let times = [("idle_timeout", "keepalive_timeout"), ("head_deadline", "client_header_timeout")];
    for (key, name) in times {
        if let Some(value) = scope.value(name).and_then(time).filter(|value| value != "0") {
            root.set(&format!("limits.{key}"), Node::text(value));
        }
    }
    if let Some(requests) = scope.value("keepalive_requests") {
        root.set("limits.requests_per_connection", Node::text(requests));
    }
    if let Some(most) = scope.value("client_max_body_size").and_then(size).filter(|most| most != "0") {
        root.set("limits.body_bytes", Node::text(most));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::parse::parse;

    fn translated(text: &str, knows: &dyn Fn(&str) -> bool) -> Translation {
        translate(parse(text, "nginx.conf", &|_| Ok(Vec::new())).unwrap(), knows)
    }

    /// The lines of the translation of a server, below its `sites`.
    pub(crate) fn site(inside: &str) -> String {
        let yaml = translated(&format!("server {{ {inside} }}"), &|_| true).yaml;
        yaml.split("\nsites:\n").nth(1).unwrap().to_owned()
    }

    /// The remarks on a server, without file and line.
    pub(crate) fn remarks(inside: &str) -> Vec<String> {
        let found = translated(&format!("server {{ {inside} }}"), &|_| true).remarks;
        found.iter().map(|remark| remark.to_string().replace("nginx.conf:1: ", "")).collect()
    }

    #[test]
    fn servers_become_sites_with_routes() {
        for (inside, expected) in [
            ("root /srv/;", "  - hosts: [\"*\"]\n    origin: {directory: /srv}\n"),
            (
                "server_name a .b; location / { proxy_pass http://192.0.2.1:80/x/; }",
                "  - hosts: [a, b, \"*.b\", \"*\"]\n    origin:\n      http: [\"http://192.0.2.1:80/x\"]\n      \
                 cache: off\n      host: \"192.0.2.1:80\"\n",
            ),
            (
                "location / { proxy_pass http://a:1; proxy_set_header Upgrade $http_upgrade; \
                 proxy_set_header Connection $connection_upgrade; proxy_read_timeout 7d; }",
                "  - hosts: [\"*\"]\n    origin:\n      http: [\"http://a:1\"]\n      cache: off\n      host: \"a:1\"\n      \
                 timeouts: {first_byte: 7d, between_bytes: 7d}\n      upgrades: [websocket]\n      upgrade_idle: 1d\n",
            ),
            (
                "location / { proxy_pass http://a:1; proxy_set_header X-Request-ID $request_id; }",
                "  - hosts: [\"*\"]\n    origin:\n      http: [\"http://a:1\"]\n      cache: off\n      host: \"a:1\"\n    \
                 request_id: generate\n",
            ),
            (
                "location / { proxy_pass http://a:1; proxy_set_header X-Request-ID $request_id; } location /b/ { proxy_pass http://a:1; }",
                "  - hosts: [\"*\"]\n    origin:\n      http: [\"http://a:1\"]\n      cache: off\n      host: \"a:1\"\n    \
                 request_id: generate\n    routes:\n      - path: \"/b/*\"\n        request_id: off\n",
            ),
            (
                "root /a; location /b/ { alias /c/; } location = /d { return 204; } location ~ \\.(ts|mp4)$ { expires 1m; }",
                "  - hosts: [\"*\"]\n    origin: {directory: /a}\n    routes:\n      - path: /d\n        respond: {status: 204}\n      \
                 - path: \"*.ts\"\n        headers:\n          response:\n            set: {Cache-Control: \"max-age=60\"}\n      \
                 - path: \"*.mp4\"\n        headers:\n          response:\n            set: {Cache-Control: \"max-age=60\"}\n      \
                 - path: \"/b/*\"\n        origin: {directory: /c}\n        rewrite: \"/{rest}\"\n",
            ),
            (
                "root /a; rewrite ^/old/(.*)$ /new/$1 permanent; location /x/ { deny all; }",
                "  - hosts: [\"*\"]\n    origin: {directory: /a}\n    routes:\n      - path: \"/old/*\"\n        \
                 redirect: {to: \"/new/{rest}\", status: 301}\n      - path: \"/x/*\"\n        respond: {status: 403}\n",
            ),
            (
                "root /a; allow 192.0.2.0/24; deny all; limit_rate 2m; limit_rate_after 4m;",
                "  - hosts: [\"*\"]\n    origin: {directory: /a}\n    access:\n      allow: [192.0.2.0/24]\n    \
                 pace: {after: 4MiB, rate: 2MiB}\n",
            ),
            (
                "root /a; gzip off; mp4_limit_rate 1.5;",
                "  - hosts: [\"*\"]\n    origin: {directory: /a}\n    pace: {rate: 1.5x}\n    compress: false\n",
            ),
            (
                "resolver 192.0.2.53 [::1]:5353 valid=30s; location / { proxy_pass http://a:1; }",
                "  - hosts: [\"*\"]\n    origin:\n      http: [\"http://a:1\"]\n      cache: off\n      host: \"a:1\"\n      \
                 resolver: [\"192.0.2.53:53\", \"[::1]:5353\"]\n",
            ),
            (
                "resolver 192.0.2.53; location / { proxy_pass http://192.0.2.1; }",
                "  - hosts: [\"*\"]\n    origin:\n      http: [\"http://192.0.2.1\"]\n      cache: off\n      host: 192.0.2.1\n",
            ),
        ] {
            assert_eq!(site(inside), expected, "{inside}");
        }
    }

    #[test]
    fn keys_that_penstock_lacks_are_remarks() {
        let text = "server { root /a; allow 192.0.2.0/24; deny all; location /b/ { deny all; } }";
        let translation = translated(text, &|key| !key.starts_with("sites.access") && key != "sites.routes");
        let cautions: Vec<&str> = translation
            .remarks
            .iter()
            .filter(|remark| remark.opens)
            .map(|remark| remark.what.as_str())
            .collect();
        assert_eq!(cautions, ["sites.access", "sites.routes"]);
        assert!(!translation.yaml.contains("routes") && !translation.yaml.contains("access"));
    }

    #[test]
    fn servers_that_lead_to_https_become_listeners() {
        let text = "server { listen 80; server_name a; return 301 https://$host$request_uri; } \
                    server { listen 443 ssl; server_name a; root /a; }";
        let yaml = translated(text, &|_| true).yaml;
        assert!(yaml.contains("- address: \"0.0.0.0:80\"\n    redirect: https\n"), "{yaml}");
        assert_eq!(yaml.matches("hosts:").count(), 1, "{yaml}");
    }

    #[test]
    fn what_is_unknown_is_said_with_its_line() {
        let translation = translated("server {\n root /a;\n mirror /b;\n map $a $b { x y; }\n}", &|_| true);
        let shown: Vec<String> = translation.remarks.iter().map(Remark::to_string).collect();
        assert_eq!(
            shown,
            [
                "nginx.conf:3: mirror /b: it has no counterpart",
                "nginx.conf:4: map $a $b: there are no computed variables",
            ]
        );
    }
}
