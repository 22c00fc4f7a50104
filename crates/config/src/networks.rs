//! Sets of networks: addresses and CIDR (RFC 4632 §3.1), from the configuration and from files.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use penstock_sys::small_file;

use crate::limits;

/// Addresses, looked up by a binary search. An IPv4 address that is mapped into IPv6 is the IPv4 address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkSet {
    /// Ranges in rising order; no two touch.
    v4: Arc<[(u32, u32)]>,
    v6: Arc<[(u128, u128)]>,
}

/// The first and the last address of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkRange {
    V4(u32, u32),
    V6(u128, u128),
}

impl NetworkRange {
    /// Reads an address, or a network such as `192.0.2.0/24`. Bits behind the prefix do not count.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u32>().ok()?)),
            None => (text, None),
        };
        match address.parse().ok()? {
            IpAddr::V4(ip) => {
                let length = length.unwrap_or(32);
                let rest = u32::MAX.checked_shr(length).unwrap_or(0);
                (length <= 32).then(|| Self::V4(ip.to_bits() & !rest, ip.to_bits() | rest))
            }
            IpAddr::V6(ip) => {
                let length = length.unwrap_or(128);
                let rest = u128::MAX.checked_shr(length).unwrap_or(0);
                (length <= 128).then(|| Self::V6(ip.to_bits() & !rest, ip.to_bits() | rest))
            }
        }
    }
}

impl NetworkSet {
    pub(crate) fn new(ranges: impl IntoIterator<Item = NetworkRange>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for range in ranges {
            match range {
                NetworkRange::V4(first, last) => v4.push((first, last)),
                NetworkRange::V6(first, last) => v6.push((first, last)),
            }
        }
        Self { v4: merged(v4), v6: merged(v6) }
    }

    /// Reads a file with one address or network a line; `#` begins a comment.
    ///
    /// # Errors
    /// Why the file is no such list, with the number of the line.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text =
            small_file::read_text(path, limits::ADDRESS_FILE_BYTES).map_err(|error| error.to_string())?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate().filter_map(|(number, line)| {
            let line = line.split('#').next().unwrap_or_default().trim();
            (!line.is_empty()).then_some((number + 1, line))
        });
        let ranges: Result<Vec<_>, String> = lines
            .map(|(number, line)| {
                let wrong = || format!("line {number} is no address or network: `{}`", line.escape_debug());
                NetworkRange::parse(line).ok_or_else(wrong)
            })
            .collect();
        Ok(Self::new(ranges?))
    }

    /// Whether an address is in one of the networks.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(ip) => has(&self.v4, ip.to_bits()),
            IpAddr::V6(ip) => has(&self.v6, ip.to_bits()),
        }
    }
}

/// Sorts ranges and joins those that overlap.
fn merged<N: Copy + Ord>(mut ranges: Vec<(N, N)>) -> Arc<[(N, N)]> {
    ranges.sort_unstable();
    let mut joined: Vec<(N, N)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match joined.last_mut() {
            Some((_, end)) if first <= *end => *end = last.max(*end),
            _ => joined.push((first, last)),
        }
    }
    joined.into()
}

fn has<N: Copy + Ord>(ranges: &[(N, N)], address: N) -> bool {
    let behind = ranges.partition_point(|(first, _)| *first <= address);
    behind.checked_sub(1).is_some_and(|place| address <= ranges[place].1)
}

/// The body of the fuzz target `networks`: the set has an address if a line of the file has it, and no others.
///
/// # Panics
/// When that does not hold.
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub fn fuzz_networks(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let set = match NetworkSet::parse(text) {
        Ok(set) => set,
        Err(fault) => {
            assert!(fault.starts_with("line ") && !fault.contains(char::is_control), "{fault:?}");
            return;
        }
    };
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let ranges: Vec<NetworkRange> = lines.filter_map(NetworkRange::parse).take(64).collect();
    let is_listed = |address: IpAddr| {
        ranges.iter().any(|range| match (range, address.to_canonical()) {
            (NetworkRange::V4(first, last), IpAddr::V4(ip)) => (*first..=*last).contains(&ip.to_bits()),
            (NetworkRange::V6(first, last), IpAddr::V6(ip)) => (*first..=*last).contains(&ip.to_bits()),
            _ => false,
        })
    };
    let is_whole = text.lines().count() <= 64;
    for range in &ranges {
        let ends: [IpAddr; 4] =
            match *range {
                NetworkRange::V4(first, last) => [first, last, first.wrapping_sub(1), last.wrapping_add(1)]
                    .map(|bits| IpAddr::V4(bits.into())),
                NetworkRange::V6(first, last) => [first, last, first.wrapping_sub(1), last.wrapping_add(1)]
                    .map(|bits| IpAddr::V6(bits.into())),
            };
        for address in ends {
            let listed = is_listed(address);
            assert!(set.contains(address) == listed || (!is_whole && !listed), "{address}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(set: &NetworkSet, address: &str) -> bool {
        set.contains(address.parse().unwrap())
    }

    #[test]
    fn addresses_are_found_in_their_networks_and_nowhere_else() {
        let text = "# ours\n203.0.113.0/24\n203.0.113.64/26 # within\n192.0.2.7\n\n2001:db8::/32\n198.51.100.77/25\n";
        let set = NetworkSet::parse(text).unwrap();
        for inside in [
            "203.0.113.0",
            "203.0.113.255",
            "192.0.2.7",
            "::ffff:203.0.113.9",
            "2001:db8:ffff::1",
            "198.51.100.0",
        ] {
            assert!(contains(&set, inside), "{inside}");
        }
        for outside in
            ["203.0.112.255", "203.0.114.0", "192.0.2.6", "192.0.2.8", "2001:db9::", "198.51.100.128", "::1"]
        {
            assert!(!contains(&set, outside), "{outside}");
        }
        assert!(!contains(&NetworkSet::default(), "192.0.2.1"));
        let all = NetworkSet::parse("0.0.0.0/0\n::/0").unwrap();
        assert!(contains(&all, "255.255.255.255") && contains(&all, "ffff::"));
    }

    #[test]
    fn what_is_no_network_is_named_with_its_line() {
        for wrong in [
            "192.0.2.0/33",
            "::/129",
            "192.0.2",
            "example.com",
            "192.0.2.0/",
            "192.0.2.0/-1",
            "192.0.2.0/24 x",
        ] {
            let fault = NetworkSet::parse(&format!("192.0.2.1\n{wrong}\n")).unwrap_err();
            assert!(fault.starts_with("line 2 is no address or network: `"), "{fault}");
        }
    }
}
