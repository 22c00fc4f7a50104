//! The configuration of `penstock serve --root DIR --domain NAME`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;

use penstock_config::{Config, Fault};
use serde_json::{Value, json};

use crate::arguments::DomainArgs;

/// A directory on HTTPS for these domains, with plain HTTP that redirects. The certificates are ordered.
///
/// # Errors
/// The faults of the arguments.
pub(super) fn configuration(
    root: &Path,
    arguments: &DomainArgs,
    listen: &[SocketAddr],
) -> Result<Config, Vec<Fault>> {
    let https = or_everywhere(listen, 443).map(|address| json!({"address": address, "tls": true}));
    let http =
        or_everywhere(&arguments.http, 80).map(|address| json!({"address": address, "redirect": "https"}));
    let mut acme = json!({"agree_to_terms": true});
    let given = [
        ("email", arguments.email.clone().map(Value::from)),
        ("storage", arguments.storage.as_deref().map(absolute)),
        ("directory", arguments.acme_directory.clone().map(Value::from)),
        ("ca_file", arguments.acme_ca.as_deref().map(absolute)),
    ];
    for (key, value) in given {
        if let Some(value) = value {
            acme[key] = value;
        }
    }
    let config = json!({
        "listeners": https.chain(http).collect::<Vec<_>>(),
        "tls": {"acme": acme},
        "sites": [{"hosts": arguments.domain, "origin": {"directory": absolute(root)}}],
    });
    // JSON is YAML, apart from variables.
    let text = config.to_string().replace("${", "$${");
    Config::from_text(&text, Path::new("--domain"))
}

fn absolute(path: &Path) -> Value {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string().into()
}

/// The given addresses, or all of this machine with this port.
fn or_everywhere(given: &[SocketAddr], port: u16) -> impl Iterator<Item = SocketAddr> + use<> {
    let everywhere = [SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), (Ipv6Addr::UNSPECIFIED, port).into()];
    let has_ipv6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    let usual = everywhere.into_iter().filter(move |address| address.is_ipv4() || has_ipv6);
    let usual: Vec<SocketAddr> = if given.is_empty() { usual.collect() } else { given.to_vec() };
    usual.into_iter()
}
