//! The text of a first configuration.

use std::net::{Ipv6Addr, SocketAddr, TcpListener};

use crate::privileges;

use super::answers::{Answers, CertificateSource, Content};
use super::yaml::{quoted, quoted_path};

/// The whole file. `listen` is the only address for clients.
pub(super) fn configuration(answers: &Answers, listen: Option<SocketAddr>) -> String {
    let sections = [
        HEAD.to_owned(),
        listeners(listen),
        tls(&answers.certificate),
        site(answers),
        cache(&answers.content),
        admin(answers.admin),
        TAIL.to_owned(),
    ];
    sections.join("\n")
}

const HEAD: &str = "\
# Made by penstock init. docs/configuration.md describes every key.
# Check it with: penstock check --strict -c FILE
# A line that begins with `#` and no space is a setting to try.

# As root, the server becomes this user after its start. The unit in packaging/ starts it as one.
#user: penstock
";

const TAIL: &str = "\
# One JSON line for each response.
#log: {access: /var/log/penstock/access.jsonl}

#limits:
  # Open connections of one client network (/24 of IPv4, /56 of IPv6).
  #connections_per_network: 1000
  # After SIGTERM, responses in progress may take this long.
  #drain_deadline: 30s
";

fn listeners(listen: Option<SocketAddr>) -> String {
    let mut text = "listeners:\n".to_owned();
    if let Some(address) = listen {
        return text + &format!("  - {{address: {}, tls: true}}\n", quoted(&address.to_string()));
    }
    let (secure, plain) = if may_open_low_ports() { (443, 80) } else { (8443, 8080) };
    if secure != 443 {
        text += "  # This user may not open ports below 1024; the unit in packaging/ lets the server open 443 and 80.\n";
    }
    text += "  # HTTPS over TCP, and HTTP/3 over UDP; protocols: [h1, h2] leaves HTTP/3 out.\n";
    let families: &[&str] = if has_ipv6() { &["0.0.0.0", "[::]"] } else { &["0.0.0.0"] };
    for address in families {
        text += &format!("  - {{address: \"{address}:{secure}\", tls: true}}\n");
    }
    text += "  # Plain HTTP only redirects to HTTPS.\n";
    for address in families {
        text += &format!("  - {{address: \"{address}:{plain}\", redirect: https}}\n");
    }
    text
}

fn may_open_low_ports() -> bool {
    const LOWEST: u16 = 80;
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let first = first.ok().and_then(|text| text.trim().parse::<u16>().ok());
    privileges::is_root() || first.is_some_and(|first| first <= LOWEST)
}

fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

fn tls(certificate: &CertificateSource) -> String {
    let mut text = "tls:\n".to_owned();
    match certificate {
        // Made files have become `Files` before.
        CertificateSource::SelfSigned => {}
        CertificateSource::Files { chain, key } => {
            text += "  # The server follows these files: a renewed certificate needs no reload.\n";
            let (chain, key) = (quoted_path(chain), quoted_path(key));
            text += &format!("  certificates:\n    - {{chain: {chain}, key: {key}}}\n");
        }
        CertificateSource::Acme { email } => {
            text += &format!("  acme: {{email: {}, agree_to_terms: true}}\n", quoted(email));
        }
    }
    text + "  # Keys of session tickets, rotated in memory. docs/fleet.md shares them with other edges.\n  tickets: {rotate: 12h, keep: 3}\n"
}

fn site(answers: &Answers) -> String {
    let origin = match &answers.content {
        Content::Directory(path) => format!("directory: {}", quoted_path(path)),
        Content::Origin { url, .. } => format!("http: [{}]", quoted(url)),
    };
    format!(
        "sites:\n  - hosts: [{}]\n    origin: {{{origin}}}\n    \
         # Players on pages of other origins may read it.\n    #headers: {{cors: \"*\", hsts: 180d}}\n    \
         # Other settings for some paths; see docs/rules.md.\n    #routes: [{{path: \"/live/*\", pace: {{rate: 2MiB}}}}]\n",
        quoted(&answers.domain)
    )
}

fn cache(content: &Content) -> String {
    let Content::Origin { memory, disk, .. } = content else {
        return "# A directory needs no cache: the kernel keeps its files in memory.\n".to_owned();
    };
    let mut text = format!(
        "cache:\n  # Files on tmpfs, which survive a restart of the server.\n  \
         memory: {{directory: /dev/shm/penstock, size: {}}}\n",
        quoted(memory)
    );
    match disk {
        None => text += "  #disk: [{directory: /var/cache/penstock, size: 100GiB}]\n",
        Some(tier) => {
            let (directory, size) = (quoted_path(&tier.directory), quoted(&tier.size));
            text += &format!(
                "  # What is asked for again.\n  disk:\n    - {{directory: {directory}, size: {size}}}\n"
            );
        }
    }
    text
}

fn admin(address: Option<SocketAddr>) -> String {
    match address {
        None => "#admin: {address: 127.0.0.1:9600}\n".to_owned(),
        Some(address) => format!(
            "# Metrics, health and purges. It has no password: keep it on the loopback or a private network.\nadmin: {{address: {}}}\n",
            quoted(&address.to_string())
        ),
    }
}
