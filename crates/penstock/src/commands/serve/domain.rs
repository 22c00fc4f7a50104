//! The configuration of `penstock serve --root DIR --domain NAME`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
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
    let faults: Vec<Fault> = arguments.domain.iter().filter_map(|name| fault_of_name(name)).collect();
    if !faults.is_empty() {
        return Err(faults);
    }
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
    // Faults of names come before what follows from them.
    let config = json!({
        "listeners": https.chain(http).collect::<Vec<_>>(),
        "sites": [{"hosts": arguments.domain, "origin": {"directory": absolute(root)}}],
        "tls": {"acme": acme},
    });
    // JSON is YAML, apart from variables.
    let text = config.to_string().replace("${", "$${");
    let read = Config::from_text(&text, Path::new("--domain"));
    read.map_err(|faults| faults.into_iter().map(of_option).collect())
}

/// Why no certificate can be ordered for a name by what the command line offers.
fn fault_of_name(name: &str) -> Option<Fault> {
    let (what, instead) = if name.contains('*') {
        (
            format!("`{name}` is a pattern, for which an authority asks for an answer in DNS"),
            "write host names; a configuration file has tls.acme.challenge: dns-01 for patterns",
        )
    } else if name.parse::<IpAddr>().is_ok() {
        let what = format!("`{name}` is an address, for which no certificate is ordered");
        (what, "write the host name that leads to it")
    } else {
        return None;
    };
    let (file, instead) = ("--domain".into(), instead.to_owned());
    Some(Fault { file, line: 0, column: 0, what, instead })
}

/// A fault with the option that has the value: the text in which it was found is no file of the user.
fn of_option(fault: Fault) -> Fault {
    let option = match fault.what.split_once(':').map_or("", |(key, _)| key) {
        "directory" if fault.what.contains("is not a URL") => "--acme-directory",
        "directory" => "--root",
        "email" => "--email",
        "storage" => "--storage",
        "ca_file" => "--acme-ca",
        "address" => "--listen or --http",
        _ => "--domain",
    };
    Fault { file: option.into(), line: 0, column: 0, ..fault }
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
