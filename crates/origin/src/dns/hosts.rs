//! Names of /etc/hosts.

use std::io::Read as _;
use std::net::IpAddr;

/// Length in bytes of the file as far as it is read.
const HOSTS_BYTES: u64 = 1024 * 1024;

/// The addresses that the file has for a name.
pub(super) fn addresses(name: &str, most: usize) -> Vec<IpAddr> {
    let mut text = Vec::new();
    let file = std::fs::File::open("/etc/hosts");
    match file.and_then(|file| file.take(HOSTS_BYTES).read_to_end(&mut text)) {
        Ok(_) => of(&String::from_utf8_lossy(&text), name, most),
        Err(_) => Vec::new(),
    }
}

fn of(text: &str, name: &str, most: usize) -> Vec<IpAddr> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let address = |line: &str| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let address = words.next()?;
        words.any(|alias| alias.eq_ignore_ascii_case(name)).then(|| address.parse().ok())?
    };
    text.lines().filter_map(address).take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_with_the_name_count_and_comments_do_not() {
        let text = "127.0.0.1 localhost\n::1\tlocalhost ip6-localhost # edge\n#192.0.2.9 edge\n\n\
            192.0.2.1  Edge.example edge\n2001:db8::1 edge\nhere edge\n192.0.2.2 edges\n";
        let found = |name, most| of(text, name, most).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(found("localhost", 9), ["127.0.0.1", "::1"]);
        assert_eq!(found("EDGE.", 9), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(found("edge", 1), ["192.0.2.1"]);
        assert_eq!(found("edge.example", 9), ["192.0.2.1"]);
        assert!(found("ip6", 9).is_empty() && found("", 9).is_empty());
    }
}
