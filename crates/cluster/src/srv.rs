//! SRV records (RFC 2782) of DNS: the bytes of a query and of its answer (RFC 1035).

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

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SrvAnswer {
    /// These servers.
    Servers(Vec<ServerRecord>),
    /// The answer did not fit; it can be asked for over TCP.
    Truncated,
    /// The name does not exist, or the resolver failed: the code of RFC 1035 section 4.1.1.
    Failed(u8),
}

/// Bytes that a resolver may send over UDP (RFC 6891).
pub const UDP_ANSWER_BYTES: u16 = 1232;

const SRV: u16 = 33;
const INTERNET: u16 = 1;
const OPT: u16 = 41;
const HEADER_BYTES: usize = 12;

/// The query for the servers of a name; `None` if it cannot be a name of DNS.
pub fn srv_query(id: u16, name: &str) -> Option<Vec<u8>> {
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
    query.extend_from_slice(&SRV.to_be_bytes());
    query.extend_from_slice(&INTERNET.to_be_bytes());
    query.push(0);
    query.extend_from_slice(&OPT.to_be_bytes());
    query.extend_from_slice(&UDP_ANSWER_BYTES.to_be_bytes());
    query.extend_from_slice(&[0; 6]);
    Some(query)
}

/// Reads the answer to a query; `None` if it is damaged or answers another one. Only records of the lowest priority number
/// count, and at most `most` of them.
pub fn srv_answer(query: &[u8], answer: &[u8], most: usize) -> Option<SrvAnswer> {
    let header = answer.first_chunk::<HEADER_BYTES>()?;
    let count = |place: usize| u16::from_be_bytes([header[place], header[place + 1]]);
    let is_answer = header[2] & 0x80 != 0;
    if !is_answer || header[..2] != *query.get(..2)? || count(4) != 1 {
        return None;
    }
    let (asked, _) = read_name(query, HEADER_BYTES)?;
    let (repeated, at) = read_name(answer, HEADER_BYTES)?;
    let mut reader = Reader { bytes: answer, at };
    if asked != repeated || (reader.number()?, reader.number()?) != (SRV, INTERNET) {
        return None;
    }
    if header[2] & 0x02 != 0 {
        return Some(SrvAnswer::Truncated);
    }
    let code = header[3] & 0x0f;
    if code != 0 {
        return Some(SrvAnswer::Failed(code));
    }
    let mut found: Vec<(u16, ServerRecord)> = Vec::new();
    for _ in 0..count(6) {
        // Its name may be another one, to which a CNAME leads.
        let (_, at) = read_name(answer, reader.at)?;
        reader.at = at;
        let (kind, class) = (reader.number()?, reader.number()?);
        reader.skip(4)?;
        let length = usize::from(reader.number()?);
        let end = reader.at.checked_add(length).filter(|end| *end <= answer.len())?;
        if (kind, class) == (SRV, INTERNET) {
            let (priority, weight, port) = (reader.number()?, reader.number()?, reader.number()?);
            let (target, after) = read_name(answer, reader.at)?;
            // The root as a target says that there is no such service.
            if after == end && !target.is_empty() {
                found.push((priority, ServerRecord { target, port, weight }));
            }
        }
        reader.at = end;
    }
    let first = found.iter().map(|(priority, _)| *priority).min();
    let servers = found.into_iter().filter(|(priority, _)| Some(*priority) == first);
    Some(SrvAnswer::Servers(servers.map(|(_, server)| server).take(most).collect()))
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

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.at = self.at.checked_add(bytes).filter(|at| *at <= self.bytes.len())?;
        Some(())
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

/// The body of the fuzz target `srv_answer`: what is read is bounded, whatever a resolver sends.
///
/// # Panics
/// When that does not hold.
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub fn fuzz_srv_answer(input: &[u8]) {
    let query = srv_query(0x0102, "_penstock._tcp.example.com").expect("it is a name");
    // With the right start, which a fuzzer would have to guess.
    let mut answer = query[..2].to_vec();
    answer.extend_from_slice(&[0x80, 0, 0, 1]);
    answer.extend_from_slice(input.get(..2).unwrap_or(&[0, 0]));
    answer.extend_from_slice(&[0; 4]);
    answer.extend_from_slice(&query[HEADER_BYTES..query.len() - 11]);
    answer.extend_from_slice(input.get(2..).unwrap_or_default());
    for answer in [input, &answer] {
        let Some(SrvAnswer::Servers(servers)) = srv_answer(&query, answer, 64) else { continue };
        assert!(servers.len() <= 64);
        let is_name = |server: &ServerRecord| (1..=253).contains(&server.target.len());
        assert!(servers.iter().all(is_name), "{servers:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "_penstock._tcp.example.com";

    /// An answer with these records: priority, weight, port and target as bytes.
    fn answer(query: &[u8], flags: [u8; 2], records: &[(u16, u16, u16, &[u8])]) -> Vec<u8> {
        let mut answer =
            [&query[..2], &flags, &[0, 1, 0], &[u8::try_from(records.len()).unwrap()], &[0; 4]].concat();
        answer.extend_from_slice(&query[HEADER_BYTES..query.len() - 11]);
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
        assert_eq!(srv_answer(&query, &bytes, 64), Some(SrvAnswer::Servers(expected.clone())));
        assert_eq!(srv_answer(&query, &bytes, 1), Some(SrvAnswer::Servers(expected[..1].to_vec())));
        for end in 0..bytes.len() {
            assert_eq!(srv_answer(&query, &bytes[..end], 64), None, "{end} bytes");
        }
    }

    #[test]
    fn failures_and_truncated_answers_are_told_apart_and_others_are_no_answers() {
        let query = srv_query(7, NAME).unwrap();
        assert_eq!(srv_answer(&query, &answer(&query, [0x81, 0x83], &[]), 9), Some(SrvAnswer::Failed(3)));
        assert_eq!(srv_answer(&query, &answer(&query, [0x83, 0x80], &[]), 9), Some(SrvAnswer::Truncated));
        assert_eq!(srv_answer(&query, &query, 9), None, "a question");
        let others = [srv_query(8, NAME).unwrap(), srv_query(7, "_other._tcp.example.com").unwrap()];
        for other in others {
            assert_eq!(srv_answer(&query, &answer(&other, [0x81, 0x80], &[]), 9), None);
        }
    }

    #[test]
    fn pointers_that_lead_in_a_circle_end() {
        let query = srv_query(7, NAME).unwrap();
        let mut bytes = answer(&query, [0x81, 0x80], &[(1, 1, 1, &[0xc0, 0])]);
        let pointer = bytes.len() - 2;
        for target in [pointer, pointer + 1] {
            bytes[pointer..].copy_from_slice(&(0xc000 | u16::try_from(target).unwrap()).to_be_bytes());
            assert_eq!(srv_answer(&query, &bytes, 9), None);
        }
    }

    #[test]
    fn names_that_dns_cannot_have_are_refused() {
        for wrong in ["", ".", "a..b", &"a".repeat(64), &"a.".repeat(128)] {
            assert_eq!(srv_query(1, wrong), None, "{wrong}");
        }
        assert!(srv_query(1, "a.example.").is_some());
    }
}
