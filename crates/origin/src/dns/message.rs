//! Queries of DNS for addresses and servers, and their answers, as bytes (RFC 1035; SRV: RFC 2782).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// A server that a record names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRecord {
    /// The name of the server, in lowercase letters, without the final dot.
    pub target: String,
    /// Its port.
    pub port: u16,
    /// Its weight.
    pub weight: u16,
}

/// Addresses of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRecords {
    /// The addresses; empty if the name has none of this family.
    pub addresses: Vec<IpAddr>,
    /// How long they hold: the least time of all records that lead to them.
    pub ttl: Duration,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsAnswer<T> {
    /// These records.
    Records(T),
    /// The answer did not fit; it can be asked for over TCP.
    Truncated,
    /// The name does not exist, or the server failed: the code of RFC 1035 section 4.1.1.
    Failed(u8),
}

/// The type of the records that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// Addresses of IPv4.
    A = 1,
    /// Addresses of IPv6.
    Aaaa = 28,
    /// Servers.
    Srv = 33,
}

/// Bytes that a server may send over UDP (RFC 6891).
pub(super) const UDP_ANSWER_BYTES: u16 = 1232;

const CNAME: u16 = 5;
const INTERNET: u16 = 1;
const OPT: u16 = 41;
const HEADER_BYTES: usize = 12;
/// Bytes behind the name of a question: its type and class, and the record that tells [`UDP_ANSWER_BYTES`].
const QUESTION_TAIL_BYTES: usize = 15;
/// Names that lead to another one before an answer is given up.
const ALIASES_MAX: usize = 16;

/// The query for records of a name; `None` if it cannot be a name of DNS.
pub(super) fn query(id: u16, name: &str, kind: Kind) -> Option<Vec<u8>> {
    let mut query = id.to_be_bytes().to_vec();
    // Recursion desired; one question, one additional record.
    query.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    let name = name.strip_suffix('.').unwrap_or(name);
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length))?;
        query.push(length);
        query.extend_from_slice(label.as_bytes());
    }
    if name.len() > 253 {
        return None;
    }
    query.push(0);
    query.extend_from_slice(&(kind as u16).to_be_bytes());
    query.extend_from_slice(&INTERNET.to_be_bytes());
    query.push(0);
    query.extend_from_slice(&OPT.to_be_bytes());
    query.extend_from_slice(&UDP_ANSWER_BYTES.to_be_bytes());
    query.extend_from_slice(&[0; 6]);
    Some(query)
}

/// Reads the answer to a query for servers; `None` if it is damaged or answers another one. Only records of the lowest priority
/// number count, and at most `most` of them.
pub fn servers(query: &[u8], answer: &[u8], most: usize) -> Option<DnsAnswer<Vec<ServerRecord>>> {
    let records = match records(query, answer)? {
        DnsAnswer::Records(records) => records,
        DnsAnswer::Truncated => return Some(DnsAnswer::Truncated),
        DnsAnswer::Failed(code) => return Some(DnsAnswer::Failed(code)),
    };
    let mut found: Vec<(u16, ServerRecord)> = Vec::new();
    // The name of a record may be another one, to which a CNAME leads.
    for record in records.iter().filter(|record| record.kind == Kind::Srv as u16) {
        let mut reader = Reader { bytes: answer, at: record.data.start };
        let (priority, weight, port) = (reader.number()?, reader.number()?, reader.number()?);
        let (target, after) = read_name(answer, reader.at)?;
        // The root as a target says that there is no such service.
        if after == record.data.end && !target.is_empty() {
            found.push((priority, ServerRecord { target, port, weight }));
        }
    }
    let first = found.iter().map(|(priority, _)| *priority).min();
    let servers = found.into_iter().filter(|(priority, _)| Some(*priority) == first);
    Some(DnsAnswer::Records(servers.map(|(_, server)| server).take(most).collect()))
}

/// Reads the answer to a query for addresses; `None` if it is damaged or answers another one. Only records of the name that was
/// asked for count, and of names that it leads to, and at most `most` of them.
pub(super) fn addresses(query: &[u8], answer: &[u8], most: usize) -> Option<DnsAnswer<AddressRecords>> {
    let records = match records(query, answer)? {
        DnsAnswer::Records(records) => records,
        DnsAnswer::Truncated => return Some(DnsAnswer::Truncated),
        DnsAnswer::Failed(code) => return Some(DnsAnswer::Failed(code)),
    };
    let (mut name, _) = read_name(query, HEADER_BYTES)?;
    let mut found = AddressRecords { addresses: Vec::new(), ttl: Duration::MAX };
    for _ in 0..ALIASES_MAX {
        let alias = records.iter().find(|record| record.kind == CNAME && record.name == name);
        let Some(alias) = alias else { break };
        name = read_name(answer, alias.data.start)?.0;
        found.ttl = found.ttl.min(alias.ttl);
    }
    for record in records.iter().filter(|record| record.name == name).take(most) {
        let data = &answer[record.data.clone()];
        let address = if record.kind == Kind::A as u16 {
            data.try_into().ok().map(|bytes: [u8; 4]| IpAddr::V4(Ipv4Addr::from(bytes)))
        } else if record.kind == Kind::Aaaa as u16 {
            data.try_into().ok().map(|bytes: [u8; 16]| IpAddr::V6(Ipv6Addr::from(bytes)))
        } else {
            None
        };
        if let Some(address) = address {
            found.addresses.push(address);
            found.ttl = found.ttl.min(record.ttl);
        }
    }
    Some(DnsAnswer::Records(found))
}

/// A record of an answer.
struct Record {
    name: String,
    kind: u16,
    ttl: Duration,
    /// Its data in the answer.
    data: std::ops::Range<usize>,
}

/// The records of an answer of class IN; `None` if it is damaged or answers another query.
fn records(query: &[u8], answer: &[u8]) -> Option<DnsAnswer<Vec<Record>>> {
    let header = answer.first_chunk::<HEADER_BYTES>()?;
    let count = |place: usize| u16::from_be_bytes([header[place], header[place + 1]]);
    let is_answer = header[2] & 0x80 != 0;
    if !is_answer || header[..2] != *query.get(..2)? || count(4) != 1 {
        return None;
    }
    let (asked, at) = read_name(query, HEADER_BYTES)?;
    let asked_kind = Reader { bytes: query, at }.number()?;
    let (repeated, at) = read_name(answer, HEADER_BYTES)?;
    let mut reader = Reader { bytes: answer, at };
    if asked != repeated || (reader.number()?, reader.number()?) != (asked_kind, INTERNET) {
        return None;
    }
    if header[2] & 0x02 != 0 {
        return Some(DnsAnswer::Truncated);
    }
    let code = header[3] & 0x0f;
    if code != 0 {
        return Some(DnsAnswer::Failed(code));
    }
    let mut found = Vec::new();
    for _ in 0..count(6) {
        let (name, at) = read_name(answer, reader.at)?;
        reader.at = at;
        let (kind, class) = (reader.number()?, reader.number()?);
        let (high, low) = (reader.number()?, reader.number()?);
        let length = usize::from(reader.number()?);
        let end = reader.at.checked_add(length).filter(|end| *end <= answer.len())?;
        if class == INTERNET {
            // A time with the highest bit counts as zero (RFC 2181 section 8).
            let seconds = if high < 1 << 15 { u32::from(high) << 16 | u32::from(low) } else { 0 };
            let ttl = Duration::from_secs(seconds.into());
            found.push(Record { name, kind, ttl, data: reader.at..end });
        }
        reader.at = end;
    }
    Some(DnsAnswer::Records(found))
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Reader<'_> {
    fn number(&mut self) -> Option<u16> {
        let bytes = self.bytes.get(self.at..)?.first_chunk()?;
        self.at += 2;
        Some(u16::from_be_bytes(*bytes))
    }
}

/// A name in lowercase letters and the place behind it. Pointers (RFC 1035 section 4.1.4) lead backwards only, so that each
/// name ends.
fn read_name(bytes: &[u8], start: usize) -> Option<(String, usize)> {
    let (mut at, mut behind, mut least) = (start, None, start);
    let mut name = String::new();
    loop {
        let length = usize::from(*bytes.get(at)?);
        match length {
            0 => return Some((name, behind.unwrap_or(at + 1))),
            1..=63 => {
                let label = bytes.get(at + 1..at + 1 + length)?;
                let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
                if !name.is_empty() {
                    name.push('.');
                }
                if !label.iter().all(is_plain) || name.len() + length > 253 {
                    return None;
                }
                name.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
                at += 1 + length;
            }
            192.. => {
                let target = (length & 0x3f) << 8 | usize::from(*bytes.get(at + 1)?);
                behind = behind.or(Some(at + 2));
                if target >= least {
                    return None;
                }
                (at, least) = (target, target);
            }
            _ => return None,
        }
    }
}

/// The body of the fuzz target `dns_answer`: what is read is bounded, whatever a server sends.
///
/// # Panics
/// When that does not hold.
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub fn fuzz_dns_answer(input: &[u8]) {
    let (&kind, input) = input.split_first().unwrap_or((&0, &[]));
    let (name, kind) = match kind % 3 {
        0 => ("_penstock._tcp.example.com", Kind::Srv),
        1 => ("origin.example.com", Kind::A),
        _ => ("origin.example.com", Kind::Aaaa),
    };
    let query = query(0x0102, name, kind).expect("it is a name");
    // With the right start, which a fuzzer would have to guess.
    let mut answer = query[..2].to_vec();
    answer.extend_from_slice(&[0x80, 0, 0, 1]);
    answer.extend_from_slice(input.get(..2).unwrap_or(&[0, 0]));
    answer.extend_from_slice(&[0; 4]);
    answer.extend_from_slice(&query[HEADER_BYTES..query.len() - QUESTION_TAIL_BYTES + 4]);
    answer.extend_from_slice(input.get(2..).unwrap_or_default());
    for answer in [input, &answer] {
        if let Some(DnsAnswer::Records(servers)) = servers(&query, answer, 64) {
            assert!(servers.len() <= 64);
            let is_name = |server: &ServerRecord| (1..=253).contains(&server.target.len());
            assert!(servers.iter().all(is_name), "{servers:?}");
        }
        if let Some(DnsAnswer::Records(found)) = addresses(&query, answer, 64) {
            assert!(found.addresses.len() <= 64);
            let is_bounded = found.ttl < Duration::from_secs(1 << 31);
            assert!(found.addresses.is_empty() || is_bounded, "{found:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "_penstock._tcp.example.com";

    fn srv_query(id: u16, name: &str) -> Option<Vec<u8>> {
        query(id, name, Kind::Srv)
    }

    /// Name, type and class of a query.
    fn question(query: &[u8]) -> &[u8] {
        &query[HEADER_BYTES..query.len() - QUESTION_TAIL_BYTES + 4]
    }

    /// An answer with these records: priority, weight, port and target as bytes.
    fn answer(query: &[u8], flags: [u8; 2], records: &[(u16, u16, u16, &[u8])]) -> Vec<u8> {
        let mut answer =
            [&query[..2], &flags, &[0, 1, 0], &[u8::try_from(records.len()).unwrap()], &[0; 4]].concat();
        answer.extend_from_slice(question(query));
        for (priority, weight, port, target) in records {
            answer.extend_from_slice(&[0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 9]);
            answer.extend_from_slice(&u16::try_from(6 + target.len()).unwrap().to_be_bytes());
            for number in [priority, weight, port] {
                answer.extend_from_slice(&number.to_be_bytes());
            }
            answer.extend_from_slice(target);
        }
        answer
    }

    fn server(target: &str, port: u16, weight: u16) -> ServerRecord {
        ServerRecord { target: target.to_owned(), port, weight }
    }

    #[test]
    fn servers_of_the_first_priority_are_read() {
        let query = srv_query(7, NAME).unwrap();
        // The second name ends with a pointer to `example.com` in the question.
        let pointed: &[u8] = &[2, b'E', b'2', 0xc0, 27];
        let records: [(u16, u16, u16, &[u8]); 4] =
            [(1, 5, 80, b"\x02e1\0"), (1, 0, 81, pointed), (2, 9, 82, b"\x02e3\0"), (1, 1, 83, b"\0")];
        let bytes = answer(&query, [0x81, 0x80], &records);
        let expected = vec![server("e1", 80, 5), server("e2.example.com", 81, 0)];
        assert_eq!(servers(&query, &bytes, 64), Some(DnsAnswer::Records(expected.clone())));
        assert_eq!(servers(&query, &bytes, 1), Some(DnsAnswer::Records(expected[..1].to_vec())));
        for end in 0..bytes.len() {
            assert_eq!(servers(&query, &bytes[..end], 64), None, "{end} bytes");
        }
    }

    #[test]
    fn failures_and_truncated_answers_are_told_apart_and_others_are_no_answers() {
        let query = srv_query(7, NAME).unwrap();
        assert_eq!(servers(&query, &answer(&query, [0x81, 0x83], &[]), 9), Some(DnsAnswer::Failed(3)));
        assert_eq!(servers(&query, &answer(&query, [0x83, 0x80], &[]), 9), Some(DnsAnswer::Truncated));
        assert_eq!(servers(&query, &query, 9), None, "a question");
        let others = [srv_query(8, NAME).unwrap(), srv_query(7, "_other._tcp.example.com").unwrap()];
        for other in others {
            assert_eq!(servers(&query, &answer(&other, [0x81, 0x80], &[]), 9), None);
        }
    }

    #[test]
    fn pointers_that_lead_in_a_circle_end() {
        let query = srv_query(7, NAME).unwrap();
        let mut bytes = answer(&query, [0x81, 0x80], &[(1, 1, 1, &[0xc0, 0])]);
        let pointer = bytes.len() - 2;
        for target in [pointer, pointer + 1] {
            bytes[pointer..].copy_from_slice(&(0xc000 | u16::try_from(target).unwrap()).to_be_bytes());
            assert_eq!(servers(&query, &bytes, 9), None);
        }
    }

    #[test]
    fn names_that_dns_cannot_have_are_refused() {
        for wrong in ["", ".", "a..b", &"a".repeat(64), &"a.".repeat(128)] {
            assert_eq!(srv_query(1, wrong), None, "{wrong}");
        }
        assert!(srv_query(1, "a.example.").is_some());
    }

    /// An answer with these records: name, type, time and data as bytes.
    fn answer_of(query: &[u8], records: &[(&[u8], u16, u32, &[u8])]) -> Vec<u8> {
        let mut answer = answer(query, [0x81, 0x80], &[]);
        answer[7] = u8::try_from(records.len()).unwrap();
        for (name, kind, ttl, data) in records {
            answer.extend_from_slice(name);
            answer.extend_from_slice(&kind.to_be_bytes());
            answer.extend_from_slice(&[0, 1]);
            answer.extend_from_slice(&ttl.to_be_bytes());
            answer.extend_from_slice(&u16::try_from(data.len()).unwrap().to_be_bytes());
            answer.extend_from_slice(data);
        }
        answer
    }

    fn found(addresses: &[&str], ttl: u64) -> Option<DnsAnswer<AddressRecords>> {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Some(DnsAnswer::Records(AddressRecords { addresses, ttl: Duration::from_secs(ttl) }))
    }

    #[test]
    fn addresses_of_the_name_and_of_those_it_leads_to_hold_for_the_least_of_their_times() {
        let query = query(7, "Video.example", Kind::A).unwrap();
        let (asked, cdn): (&[u8], &[u8]) = (&[0xc0, 12], b"\x03cdn\0");
        let other: &[u8] = b"\x05other\0";
        let (one, two): (&[u8], &[u8]) = (&[192, 0, 2, 1], &[192, 0, 2, 2]);
        let plain = answer_of(&query, &[(asked, 1, 60, one), (asked, 1, 30, two), (other, 1, 1, two)]);
        assert_eq!(addresses(&query, &plain, 9), found(&["192.0.2.1", "192.0.2.2"], 30));
        assert_eq!(addresses(&query, &plain, 1), found(&["192.0.2.1"], 60));
        for end in 0..plain.len() {
            assert_eq!(addresses(&query, &plain[..end], 9), None, "{end} bytes");
        }
        // In any order, the address first.
        let aliased = answer_of(&query, &[(cdn, 1, 60, one), (asked, 5, 5, cdn), (other, 1, 9, two)]);
        assert_eq!(addresses(&query, &aliased, 9), found(&["192.0.2.1"], 5));
        let endless = answer_of(&query, &[(asked, 5, 5, cdn), (cdn, 5, 5, cdn), (cdn, 1, 9, b"12345")]);
        assert_eq!(addresses(&query, &endless, 9), found(&[], 5));
        let odd = answer_of(&query, &[(asked, 1, u32::MAX, one)]);
        assert_eq!(addresses(&query, &odd, 9), found(&["192.0.2.1"], 0));
        let other_kind = super::query(7, "video.example", Kind::Aaaa).unwrap();
        assert_eq!(addresses(&other_kind, &plain, 9), None, "it answers another question");
    }

    #[test]
    fn addresses_of_ipv6_are_read() {
        let query = query(7, "video.example", Kind::Aaaa).unwrap();
        let address = "2001:db8::7".parse::<Ipv6Addr>().unwrap();
        let bytes = answer_of(&query, &[(&[0xc0, 12], 28, 60, &address.octets())]);
        assert_eq!(addresses(&query, &bytes, 9), found(&["2001:db8::7"], 60));
    }
}
