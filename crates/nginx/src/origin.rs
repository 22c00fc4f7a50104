//! `proxy_pass`, `upstream` and the cache: where a location's bytes come from.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crate::caching::is_cached;
use crate::parse::Directive;
use crate::remarks::Remarks;
use crate::scope::Scope;
use crate::units::time;
use crate::yaml::Node;

/// The servers that `upstream` names.
pub(crate) type Upstreams<'d> = BTreeMap<&'d str, &'d Directive>;

/// A `proxy_pass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyPass {
    /// `http` or `https`.
    scheme: String,
    /// Host and port, the name of an upstream, or a Unix socket.
    authority: String,
    /// The path that replaces that of the location.
    pub(crate) path: Option<String>,
}

impl ProxyPass {
    /// Reads a `proxy_pass`; `None` with a remark if it has no counterpart.
    pub(crate) fn read(directive: &Directive, remarks: &mut Remarks) -> Option<Self> {
        let url = directive.argument(0);
        if url.contains('$') {
            remarks.add(directive, "a URL with variables: write a site for each origin");
            return None;
        }
        let (scheme, rest) = url.split_once("://")?;
        if let Some(socket) = rest.strip_prefix("unix:") {
            let (socket, path) =
                socket.split_once(':').map_or((socket, None), |(socket, path)| (socket, Some(path)));
            return Some(Self {
                scheme: scheme.to_owned(),
                authority: format!("unix:{socket}"),
                path: path.map(str::to_owned),
            });
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = (!path.is_empty()).then(|| path.to_owned());
        Some(Self { scheme: scheme.to_owned(), authority: authority.to_owned(), path })
    }

    fn url(&self, server: &str, base: &str) -> String {
        match server.strip_prefix("unix:") {
            Some(socket) if base.is_empty() => format!("unix:{}", socket),
            Some(socket) => format!("unix:{}:{base}", socket),
            None => format!("{}://{server}{base}", self.scheme),
        }
    }
}

/// The `origin` section of a location that passes requests on. `base` is the path in front of every request's.
pub(crate) fn origin(
    pass: &ProxyPass,
    base: &str,
    scope: &Scope<'_>,
    upstreams: &Upstreams<'_>,
    hosts: &[String],
    remarks: &mut Remarks,
) -> Node {
    let mut origin = Node::Map(Vec::new());
    let upstream = upstreams.get(pass.authority.as_str());
    match upstream {
        None => origin.set("http", Node::texts([pass.url(&pass.authority, base)])),
        Some(upstream) => {
            let servers = upstream.all("server").filter_map(|server| upstream_server(pass, server, base));
            origin.set("http", Node::List(servers.collect()));
            balance(upstream, &mut origin, remarks);
        }
    }
    let is_cached = is_cached(scope);
    if !is_cached {
        origin.set("cache", Node::text("off"));
    }
    host(pass, upstream.is_some(), is_cached, hosts, scope, &mut origin, remarks);
    tls(pass, scope, &mut origin, remarks);
    resolver(pass, upstream.copied(), scope, &mut origin, remarks);
    timeouts(scope, &mut origin);
    let hidden: Vec<&str> =
        scope.all("proxy_hide_header").into_iter().map(|directive| directive.argument(0)).collect();
    if !hidden.is_empty() {
        origin.set("hide", Node::texts(hidden));
    }
    if let Some(tries) = scope.value("proxy_next_upstream_tries").and_then(|tries| tries.parse::<u32>().ok())
        && tries > 0
    {
        origin.set("retries", Node::text((tries - 1).min(10).to_string()));
    }
    origin
}

fn upstream_server(pass: &ProxyPass, server: &Directive, base: &str) -> Option<Node> {
    let address = server.argument(0);
    if server.arguments.iter().any(|option| option == "down") {
        return None;
    }
    let url = pass.url(address, base);
    let weight = server.arguments.iter().find_map(|option| option.strip_prefix("weight="));
    let is_backup = server.arguments.iter().any(|option| option == "backup");
    if weight.is_none() && !is_backup {
        return Some(Node::text(url));
    }
    let mut node = Node::map([("url", Node::text(url))]);
    if let Some(weight) = weight {
        node.set("weight", Node::text(weight));
    }
    if is_backup {
        node.set("backup", Node::text("true"));
    }
    Some(node)
}

/// The DNS servers that are asked for names of servers, if there are names.
fn resolver(
    pass: &ProxyPass,
    upstream: Option<&Directive>,
    scope: &Scope<'_>,
    origin: &mut Node,
    remarks: &mut Remarks,
) {
    let Some(directive) = scope.find("resolver") else { return };
    let is_name = |server: &str| {
        let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
        !server.starts_with("unix:") && host.trim_matches(['[', ']']).parse::<IpAddr>().is_err()
    };
    let has_names = match upstream {
        None => is_name(&pass.authority),
        Some(upstream) => upstream.all("server").any(|server| is_name(server.argument(0))),
    };
    if !has_names {
        return;
    }
    let address = |text: &String| {
        let plain = text.trim_matches(['[', ']']).parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53));
        text.parse::<SocketAddr>().or(plain).ok()
    };
    let servers: Vec<String> =
        directive.arguments.iter().filter_map(address).take(3).map(|server| server.to_string()).collect();
    if directive.arguments.len() > servers.len() {
        remarks.add(directive, "up to three addresses are taken; answers hold for their own time (TTL)");
    }
    if !servers.is_empty() {
        origin.set("resolver", Node::texts(servers));
    }
}

fn balance(upstream: &Directive, origin: &mut Node, remarks: &mut Remarks) {
    if upstream.child("least_conn").is_some() {
        origin.set("balance", Node::text("least_connections"));
    }
    if let Some(hash) = upstream.child("hash") {
        match hash.argument(0) {
            "$request_uri" => origin.set("spread.by", Node::text("url")),
            "$uri" | "$document_uri" => origin.set("spread.by", Node::text("path")),
            _ => remarks.add(hash, "requests are spread by URL or path (spread), or in turn"),
        }
    }
    for name in ["ip_hash", "random"] {
        if let Some(directive) = upstream.child(name) {
            remarks.add(directive, "requests are spread by URL or path (spread), or in turn");
        }
    }
    // Failures of all servers of an origin are counted by one rule.
    let failures = upstream.all("server").find_map(|server| {
        server.arguments.iter().find_map(|option| option.strip_prefix("max_fails=")?.parse::<u32>().ok())
    });
    if let Some(failures) = failures.filter(|failures| *failures > 0) {
        origin.set("health.unhealthy_after", Node::text(failures.min(100).to_string()));
    }
}

/// The Host of requests to the servers.
fn host(
    pass: &ProxyPass,
    is_upstream: bool,
    is_cached: bool,
    hosts: &[String],
    scope: &Scope<'_>,
    origin: &mut Node,
    remarks: &mut Remarks,
) {
    let set = scope.all("proxy_set_header");
    let host = set.into_iter().find(|directive| directive.argument(0).eq_ignore_ascii_case("host"));
    let name = match host.map(|directive| (directive, directive.argument(1))) {
        // nginx sends the name in the URL, that of an upstream included.
        None | Some((_, "$proxy_host")) => is_upstream.then(|| pass.authority.clone()),
        Some((_, "$host" | "$http_host" | "$server_name")) if !is_cached => return,
        Some((directive, "$host" | "$http_host" | "$server_name")) => {
            let exact: Vec<&String> = hosts.iter().filter(|host| !host.contains('*')).collect();
            match exact[..] {
                [only] if hosts.len() == 1 || hosts.len() == 2 => Some(only.clone()),
                _ => {
                    let why = "one object is kept for all hosts of a site, so that the origin is asked for one host: \
                               write a site for each host, or origin.host";
                    remarks.add(directive, why);
                    None
                }
            }
        }
        Some((directive, name)) if name.contains('$') => {
            remarks.add(directive, "write the host that servers are asked for as origin.host");
            None
        }
        Some((_, name)) => Some(name.to_owned()),
    };
    let name = name.or_else(|| (!is_cached && !is_upstream).then(|| pass.authority.clone()));
    if let Some(name) = name.filter(|name| !name.starts_with("unix:")) {
        origin.set("host", Node::text(name));
    }
}

fn tls(pass: &ProxyPass, scope: &Scope<'_>, origin: &mut Node, remarks: &mut Remarks) {
    if pass.scheme != "https" {
        return;
    }
    let keys = [
        ("ca", "proxy_ssl_trusted_certificate"),
        ("chain", "proxy_ssl_certificate"),
        ("key", "proxy_ssl_certificate_key"),
        ("host", "proxy_ssl_name"),
    ];
    for (key, name) in keys {
        if let Some(value) = scope.value(name).filter(|value| !value.contains('$')) {
            origin.set(key, Node::text(value));
        }
    }
    if let Some(directive) = scope.find("proxy_pass").filter(|_| !scope.is_on("proxy_ssl_verify")) {
        remarks.add(
            directive,
            "nginx does not verify this server's certificate; Penstock does: write its authority as origin.ca if \
             that is not one of the system's",
        );
    }
}

fn timeouts(scope: &Scope<'_>, origin: &mut Node) {
    let keys = [
        ("timeouts.connect", "proxy_connect_timeout"),
        ("timeouts.first_byte", "proxy_read_timeout"),
        ("timeouts.between_bytes", "proxy_read_timeout"),
    ];
    for (key, name) in keys {
        if let Some(value) = scope.value(name).and_then(time) {
            origin.set(key, Node::text(value));
        }
    }
}
