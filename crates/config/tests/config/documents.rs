//! The documents say what the program does.

use std::fs;

use crate::fixture::{Fixture, around};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

/// Section, key and default of every row of the reference whose default can be written into a file.
fn documented_defaults() -> Vec<(String, String, String)> {
    let mut section = String::new();
    let mut defaults = Vec::new();
    for line in penstock_config::reference().lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.split('`').nth(1).unwrap_or_default().to_owned();
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let [_, key, _, default, _, _] = cells[..]
            && let (Some(key), Some(default)) = (bare(key), bare(default))
        {
            defaults.push((section.clone(), key, default));
        }
    }
    defaults
}

fn bare(cell: &str) -> Option<String> {
    Some(cell.strip_prefix('`')?.strip_suffix('`')?.to_owned())
}

/// The same for keys of rules.
fn with_key_of_rule(section: &str, line: &str) -> Option<String> {
    Some(match section {
        "sites.routes" => with_key("sites", &format!("routes: [{{headers: {{}}, {line}}}]")),
        "sites.limits" => with_key("sites", &format!("limits: {{{line}}}")),
        "sites.routes.when" => with_key("sites", &format!("routes: [{{when: {{{line}}}}}]")),
        "sites.redirect" => format!(
            "listeners: [{{address: 127.0.0.1:80}}]\nsites: [{{redirect: {{to: \"https://a/\", {line}}}}}]\n"
        ),
        "sites.respond" => {
            format!("listeners: [{{address: 127.0.0.1:80}}]\nsites: [{{respond: {{body: a, {line}}}}}]\n")
        }
        "sites.headers.response" => with_key("sites", &format!("headers: {{response: {{{line}}}}}")),
        "sites.error_pages" => {
            with_key("sites", &format!("error_pages: [{{status: [404], file: s3.key, {line}}}]"))
        }
        _ => return None,
    })
}

/// A whole configuration in which `key` of `section` is written, or one that is the same without it.
fn with_key(section: &str, line: &str) -> String {
    if let Some(text) = with_key_of_rule(section, line) {
        return text;
    }
    match section {
        "listeners" => format!(
            "listeners: [{{address: 127.0.0.1:80, {line}}}]\nsites: [{{origin: {{directory: video}}}}]\n"
        ),
        "sites" => {
            format!(
                "listeners: [{{address: 127.0.0.1:80}}]\nsites: [{{origin: {{directory: video}}, {line}}}]\n"
            )
        }
        "sites.origin" => format!(
            "listeners: [{{address: 127.0.0.1:80}}]\nsites: [{{origin: {{http: [\"http://a\"], {line}}}}}]\n"
        ),
        "sites.origin.http" => with_key("sites.origin", "")
            .replace("[\"http://a\"]", &format!("[{{url: \"http://a\", {line}}}]")),
        "cluster.nodes" => format!(
            "listeners: [{{address: 127.0.0.1:80}}]\nsites: [{{origin: {{directory: video}}}}]\n\
             cluster: {{self: edge1, nodes: [{{name: edge1, address: 127.0.0.1:81, {line}}}]}}\n"
        ),
        "sites.origin.s3" => with_key("sites.origin", "").replace(
            "http: [\"http://a\"],",
            &format!(
                "s3: {{endpoint: \"http://a\", bucket: video, access_key_file: s3.key, \
                 secret_key_file: s3.key, {line}}}"
            ),
        ),
        "sites.origin.timeouts" => with_key("sites.origin", &format!("timeouts: {{{line}}}")),
        "sites.origin.health" => with_key("sites.origin", &format!("health: {{path: /x, {line}}}")),
        // Only where answers are cached.
        "sites.cache" => format!(
            "listeners: [{{address: 127.0.0.1:80}}]\nsites: [{{origin: {{http: [\"http://a\"]}}, cache: {{{line}}}}}]\n"
        ),
        "sites.cache.query" => with_key("sites.cache", &format!("query: {{{line}}}")),
        "log.access" => around(&format!("log: {{access: {{path: stdout, {line}}}}}")),
        "sites.cmcd" => with_key("sites.cache", "").replace("cache: {}", &format!("cmcd: {{{line}}}")),
        "sites.pace" => with_key("sites", &format!("pace: {{rate: 1MiB, {line}}}")),
        "sites.tokens" => with_key("sites", &format!("tokens: {{format: penstock, key: ec.key, {line}}}")),
        "sites.signed_urls" => {
            with_key("sites", &format!("signed_urls: {{keys: [{{id: a, file: ec.key}}], {line}}}"))
        }
        "tls.acme" => format!(
            "listeners: [{{address: 127.0.0.1:80}}]\nsites: [{{hosts: [a.example], origin: {{directory: video}}}}]\n\
             tls: {{acme: {{agree_to_terms: true, ca_file: ec.crt, {line}}}}}\n"
        ),
        "tls.certificates" => {
            around(&format!("tls: {{certificates: [{{chain: ec.crt, key: ec.key, {line}}}]}}"))
        }
        "tls.certificates.key" => {
            let access = "keyserver: [\"127.0.0.1:2407\"], ca: ec.crt, chain: ec.crt, key: ec.key";
            around(&format!("tls: {{certificates: [{{chain: ec.crt, key: {{{access}, {line}}}}}]}}"))
        }
        "cluster" => around(&format!(
            "cluster: {{dns: _edge._tcp.a, self: a.example, address: 192.0.2.1:8443, {line}}}"
        )),
        "cluster with valkey" => around(&format!(
            "fleet: {{valkey: \"redis://127.0.0.1\", secret: ec.key}}\n\
             cluster: {{valkey: true, self: a, address: 192.0.2.1:8443, {line}}}"
        )),
        "fleet" => around(&format!("fleet: {{valkey: \"redis://127.0.0.1\", secret: ec.key, {line}}}")),
        "" => around(line),
        _ => {
            if let Some(inside) = in_site(section, line) {
                return with_key("sites", &inside);
            }
            around(&nested(section, line))
        }
    }
}

/// The sections of a path, each in the one before, with the required keys of the last and this line.
fn nested(section: &str, line: &str) -> String {
    let required = if section == "log.qlog" { "directory: logs, clients: [192.0.2.7], " } else { "" };
    let opened: String = section.split('.').map(|name| format!("{name}: {{")).collect();
    let closed = "}".repeat(section.split('.').count());
    format!("{opened}{required}{line}{closed}")
}

/// A section of a site with its required keys and this line.
fn in_site(section: &str, line: &str) -> Option<String> {
    Some(match section {
        "sites.headers.hsts" => format!("headers: {{hsts: {{max_age: 1d, {line}}}}}"),
        "sites.cors" => format!("cors: {{origins: [\"*\"], {line}}}"),
        "sites.access.jwt" => format!("access: {{jwt: {{keys: jwks.json, {line}}}}}"),
        "sites.pace" => format!("pace: {{rate: 1MiB, {line}}}"),
        "sites.signed_urls" => format!("signed_urls: {{keys: [{{id: a, file: ec.key}}], {line}}}"),
        "sites.steering" => format!("steering: {{hls: /s, pathways: [{{id: a}}], {line}}}"),
        _ => return None,
    })
}

#[test]
fn documented_defaults_are_the_real_ones() {
    let fixture = Fixture::new();
    let defaults = documented_defaults();
    assert!(defaults.len() > 25, "the reference lost its defaults: {defaults:?}");
    for (mut section, key, default) in defaults {
        // DNS has weights of its own.
        if (section.as_str(), key.as_str()) == ("cluster", "weight") {
            section.push_str(" with valkey");
        }
        // Without protocols it is refused.
        let upgrades = if key == "upgrade_idle" { "upgrades: [websocket], " } else { "" };
        let meaning = |line: &str| {
            let config = fixture.read(&with_key(&section, line)).unwrap();
            let shown = format!("{config:#?}");
            // The positions of keys come last, and differs.
            shown.split("source: ConfigSource").next().map(str::to_owned)
        };
        let without = meaning(upgrades);
        assert_eq!(meaning(&format!("{upgrades}{key}: {default}")), without, "{section}.{key}: {default}");
    }
}

#[test]
fn the_sample_is_a_right_configuration_and_shows_every_section() {
    let fixture = Fixture::new();
    let sample = fs::read_to_string(format!("{DOCS}/penstock.yaml")).unwrap();
    // The sample names the places of an installed server; here they are in the fixture.
    let text = sample
        .replace("/etc/penstock/tls/video.crt", "ec.crt")
        .replace("/etc/penstock/tls/video.key", "ec.key")
        .replace("/srv/video", "video")
        .replace("/var/log/penstock/", "");
    let config = fixture.read(&text).unwrap_or_else(|faults| panic!("{:?}", fixture.shown(&faults)));
    assert_eq!(fixture.shown(&config.warnings), Vec::<String>::new());
    for section in ["listeners", "tls", "sites", "admin", "log", "limits"] {
        let heading = format!("{section}:");
        assert!(sample.lines().any(|line| line.starts_with(&heading)), "{section} is missing");
    }
}

#[test]
fn the_lines_commented_out_in_the_sample_are_right_too() {
    let fixture = Fixture::new();
    let sample = fs::read_to_string(format!("{DOCS}/penstock.yaml")).unwrap();
    // `#key: value` without a space is a setting to try, `# text` is a remark.
    let text: String = sample
        .lines()
        .map(|line| match line.trim_start().strip_prefix('#') {
            Some(setting) if !setting.starts_with([' ', '#']) && !setting.is_empty() => {
                line.replacen('#', "", 1) + "\n"
            }
            _ => format!("{line}\n"),
        })
        .collect();
    assert_ne!(text, sample, "the sample has settings to try");
    let text = text
        .replace("/etc/penstock/tls/video.crt", "ec.crt")
        .replace("/etc/penstock/tls/video.key", "ec.key")
        .replace("/etc/penstock/tls/rsa.crt", "other.crt")
        .replace("/etc/penstock/tls/rsa.key", "other.key")
        .replace("/srv/video", "video")
        .replace("/var/log/penstock/", "");
    let outcome = fixture.read(&text);
    assert!(outcome.is_ok(), "{:?}", fixture.shown(&outcome.unwrap_err()));
}

#[test]
fn the_smallest_configuration_of_the_reference_is_right() {
    let fixture = Fixture::new();
    let reference = penstock_config::reference();
    let block = reference.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let text =
        block.replace("video.crt", "ec.crt").replace("video.key", "ec.key").replace("/srv/video", "video");
    let config = fixture.read(&text).unwrap_or_else(|faults| panic!("{:?}", fixture.shown(&faults)));
    assert!(config.listeners[0].tls);
}
