//! The transport parameters of a client of QUIC (RFC 9000 §18), which are an extension of its ClientHello (RFC 9001 §8.2).
//!
//! The library that carries QUIC checks most of these rules behind the server's part of the handshake, and its client is not told
//! of a fault: after one packet no CONNECTION_CLOSE leaves, after several it leaves in a Handshake packet, which the client
//! has no keys for. So a list is checked before the handshake goes on, by all rules that the library has, and more.

use std::sync::OnceLock;

/// The longest connection id of QUIC version 1.
const ID_BYTES_MAX: usize = 20;

/// Parameters that this server does not know, up to which repetitions are found. Clients send a handful.
const UNKNOWN_MAX: usize = 32;

/// Parameters by their numbers in the IANA registry.
mod parameter {
    pub(super) const ORIGINAL_DESTINATION_CONNECTION_ID: u64 = 0x00;
    pub(super) const MAX_IDLE_TIMEOUT: u64 = 0x01;
    pub(super) const STATELESS_RESET_TOKEN: u64 = 0x02;
    pub(super) const MAX_UDP_PAYLOAD_SIZE: u64 = 0x03;
    pub(super) const INITIAL_MAX_DATA: u64 = 0x04;
    pub(super) const INITIAL_MAX_STREAM_DATA_UNI: u64 = 0x07;
    pub(super) const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;
    pub(super) const INITIAL_MAX_STREAMS_UNI: u64 = 0x09;
    pub(super) const ACK_DELAY_EXPONENT: u64 = 0x0a;
    pub(super) const MAX_ACK_DELAY: u64 = 0x0b;
    pub(super) const DISABLE_ACTIVE_MIGRATION: u64 = 0x0c;
    pub(super) const PREFERRED_ADDRESS: u64 = 0x0d;
    pub(super) const ACTIVE_CONNECTION_ID_LIMIT: u64 = 0x0e;
    pub(super) const INITIAL_SOURCE_CONNECTION_ID: u64 = 0x0f;
    pub(super) const RETRY_SOURCE_CONNECTION_ID: u64 = 0x10;
    pub(super) const MAX_DATAGRAM_FRAME_SIZE: u64 = 0x20;
}

/// Why the list of a client is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterFault {
    /// The list ends inside a parameter.
    Truncated,
    /// A parameter comes twice.
    Repeated,
    /// Only servers send this parameter.
    OfServers,
    /// A value is not as long as its parameter says.
    Length,
    /// A number is outside of its range.
    Range,
    /// `initial_source_connection_id` is missing, or differs from the id in the client's packets (RFC 9000 §7.3).
    ConnectionId,
}

/// The check of one connection. It runs once, however often the library asks.
#[derive(Debug, Default)]
pub(crate) struct ParameterCheck {
    /// The length of the client's connection id, and its bytes.
    id: OnceLock<(usize, [u8; ID_BYTES_MAX])>,
    result: OnceLock<Result<(), ParameterFault>>,
}

impl ParameterCheck {
    /// Sets the connection id that the client's packets come from.
    pub(crate) fn set_id(&self, id: &[u8]) {
        let mut bytes = [0; ID_BYTES_MAX];
        if let Some(place) = bytes.get_mut(..id.len()) {
            place.copy_from_slice(id);
            self.id.get_or_init(|| (id.len(), bytes));
        }
    }

    /// Checks the client's list; later calls check nothing. Returns whether it has no fault.
    pub(crate) fn passes(&self, list: &[u8]) -> bool {
        let (length, bytes) = self.id.get().copied().unwrap_or_default();
        self.result.get_or_init(|| check(list, &bytes[..length])).is_ok()
    }

    /// Whether the list of the client was checked and has a fault.
    pub(crate) fn has_failed(&self) -> bool {
        self.result.get().is_some_and(Result::is_err)
    }
}

/// Checks the list of a client whose packets come from the connection id `id`.
pub(crate) fn check(list: &[u8], id: &[u8]) -> Result<(), ParameterFault> {
    let mut rest = list;
    let mut seen = Seen::default();
    while !rest.is_empty() {
        let (parameter, value) = next_parameter(&mut rest).ok_or(ParameterFault::Truncated)?;
        if seen.add(parameter) {
            return Err(ParameterFault::Repeated);
        }
        check_value(parameter, value, id)?;
    }
    let has_id = seen.has_known(parameter::INITIAL_SOURCE_CONNECTION_ID);
    if has_id { Ok(()) } else { Err(ParameterFault::ConnectionId) }
}

/// The rules of RFC 9000 §18.2, §7.3 and §4.6, and of RFC 9221 §3. Parameters of other numbers have any value.
fn check_value(parameter: u64, value: &[u8], id: &[u8]) -> Result<(), ParameterFault> {
    let range = match parameter {
        parameter::ORIGINAL_DESTINATION_CONNECTION_ID
        | parameter::STATELESS_RESET_TOKEN
        | parameter::PREFERRED_ADDRESS
        | parameter::RETRY_SOURCE_CONNECTION_ID => return Err(ParameterFault::OfServers),
        parameter::INITIAL_SOURCE_CONNECTION_ID if value == id => return Ok(()),
        parameter::INITIAL_SOURCE_CONNECTION_ID => return Err(ParameterFault::ConnectionId),
        parameter::DISABLE_ACTIVE_MIGRATION if value.is_empty() => return Ok(()),
        parameter::DISABLE_ACTIVE_MIGRATION => return Err(ParameterFault::Length),
        parameter::MAX_UDP_PAYLOAD_SIZE => 1200..=u64::MAX,
        parameter::INITIAL_MAX_STREAMS_BIDI | parameter::INITIAL_MAX_STREAMS_UNI => 0..=1 << 60,
        parameter::ACK_DELAY_EXPONENT => 0..=20,
        parameter::MAX_ACK_DELAY => 0..=(1 << 14) - 1,
        parameter::ACTIVE_CONNECTION_ID_LIMIT => 2..=u64::MAX,
        parameter::MAX_IDLE_TIMEOUT
        | parameter::INITIAL_MAX_DATA..=parameter::INITIAL_MAX_STREAM_DATA_UNI
        | parameter::MAX_DATAGRAM_FRAME_SIZE => 0..=u64::MAX,
        _ => return Ok(()),
    };
    let mut rest = value;
    let number = next_number(&mut rest).filter(|_| rest.is_empty()).ok_or(ParameterFault::Length)?;
    if range.contains(&number) { Ok(()) } else { Err(ParameterFault::Range) }
}

/// Takes the next parameter, with its value.
fn next_parameter<'l>(rest: &mut &'l [u8]) -> Option<(u64, &'l [u8])> {
    let parameter = next_number(rest)?;
    let length = usize::try_from(next_number(rest)?).ok()?;
    let (value, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some((parameter, value))
}

/// Takes a number of 1, 2, 4 or 8 bytes (RFC 9000 §16).
fn next_number(rest: &mut &[u8]) -> Option<u64> {
    let first = *rest.first()?;
    let (bytes, behind) = rest.split_at_checked(1 << (first >> 6))?;
    *rest = behind;
    let number = |number, byte: &u8| number << 8 | u64::from(*byte);
    Some(bytes[1..].iter().fold(u64::from(first & 0x3f), number))
}

/// The parameters of a list so far.
#[derive(Default)]
struct Seen {
    /// A bit for each number below 64. All that this server knows are there.
    known: u64,
    /// Further ones: so many of these numbers.
    unknown: ([u64; UNKNOWN_MAX], usize),
}

impl Seen {
    fn has_known(&self, parameter: u64) -> bool {
        self.known & 1 << parameter != 0
    }

    /// Adds a parameter, and returns whether it was there. Unknown ones beyond [`UNKNOWN_MAX`] are not compared: the cost of
    /// a long list stays in proportion to its length. If one of them is repeated, the library ends the connection, and the
    /// client is not told.
    fn add(&mut self, parameter: u64) -> bool {
        if parameter < 64 {
            let was_there = self.has_known(parameter);
            self.known |= 1 << parameter;
            return was_there;
        }
        let (numbers, count) = &mut self.unknown;
        if numbers[..*count].contains(&parameter) {
            return true;
        }
        if let Some(place) = numbers.get_mut(*count) {
            *place = parameter;
            *count += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &[u8] = b"client-8";

    /// A number in as many bytes as it needs.
    fn number(value: u64) -> Vec<u8> {
        let (bytes, mark) = match value {
            0..0x40 => (1, 0),
            0x40..0x4000 => (2, 0x40),
            0x4000..0x4000_0000 => (4, 0x80),
            _ => (8, 0xc0),
        };
        let mut encoded = value.to_be_bytes()[8 - bytes..].to_vec();
        encoded[0] |= mark;
        encoded
    }

    fn raw(parameter: u64, value: &[u8]) -> Vec<u8> {
        [number(parameter), number(value.len() as u64), value.to_vec()].concat()
    }

    fn of(parameter: u64, value: u64) -> Vec<u8> {
        raw(parameter, &number(value))
    }

    /// The client's id, and a further parameter behind it.
    fn with(parameter: Vec<u8>) -> Result<(), ParameterFault> {
        check(&[raw(0x0f, ID), parameter].concat(), ID)
    }

    #[test]
    fn a_usual_list_passes_in_each_order() {
        let list = [
            of(0x01, 30_000),
            of(0x03, 1472),
            of(0x04, 1 << 20),
            of(0x05, 1 << 18),
            of(0x06, 0),
            of(0x07, (1 << 62) - 1),
            of(0x08, 100),
            of(0x09, 103),
            of(0x0a, 3),
            of(0x0b, 25),
            raw(0x0c, b""),
            of(0x0e, 8),
            raw(0x0f, ID),
            of(0x20, 65_536),
        ];
        assert_eq!(check(&list.concat(), ID), Ok(()));
        let reversed: Vec<_> = list.into_iter().rev().flatten().collect();
        assert_eq!(check(&reversed, ID), Ok(()));
    }

    #[test]
    fn numbers_have_their_ranges() {
        use ParameterFault::Range;
        for (parameter, value, result) in [
            (0x01, 0, Ok(())),
            (0x01, (1 << 62) - 1, Ok(())),
            (0x03, 0, Err(Range)),
            (0x03, 1199, Err(Range)),
            (0x03, 1200, Ok(())),
            (0x03, 65_528, Ok(())),
            (0x08, 1 << 60, Ok(())),
            (0x08, (1 << 60) + 1, Err(Range)),
            (0x09, 1 << 60, Ok(())),
            (0x09, (1 << 60) + 1, Err(Range)),
            (0x0a, 20, Ok(())),
            (0x0a, 21, Err(Range)),
            (0x0b, (1 << 14) - 1, Ok(())),
            (0x0b, 1 << 14, Err(Range)),
            (0x0e, 0, Err(Range)),
            (0x0e, 1, Err(Range)),
            (0x0e, 2, Ok(())),
        ] {
            assert_eq!(with(of(parameter, value)), result, "{parameter:#x} of {value}");
        }
    }

    #[test]
    fn what_only_servers_send_is_refused() {
        for (parameter, bytes) in [(0x00, 8), (0x02, 16), (0x0d, 61), (0x10, 8), (0x00, 0)] {
            assert_eq!(
                with(raw(parameter, &vec![1; bytes])),
                Err(ParameterFault::OfServers),
                "{parameter:#x}"
            );
        }
    }

    #[test]
    fn the_id_of_the_client_is_that_of_its_packets() {
        use ParameterFault::ConnectionId;
        for (list, id, result) in [
            (vec![], ID, Err(ConnectionId)),
            (of(0x04, 9), ID, Err(ConnectionId)),
            (raw(0x0f, b"client-9"), ID, Err(ConnectionId)),
            (raw(0x0f, &ID[..7]), ID, Err(ConnectionId)),
            (raw(0x0f, b""), ID, Err(ConnectionId)),
            (raw(0x0f, b""), b"", Ok(())),
            (raw(0x0f, &[7; 20]), &[7; 20], Ok(())),
            (raw(0x0f, &[7; 21]), &[7; 20], Err(ConnectionId)),
        ] {
            assert_eq!(check(&list, id), result, "{list:x?}");
        }
    }

    #[test]
    fn lengths_fit_their_values() {
        use ParameterFault::{Length, Truncated};
        for (bytes, result) in [
            // No value, a number that is cut, one that is followed by another byte, and one that is longer than it needs to be.
            (vec![0x04, 0], Err(Length)),
            (vec![0x04, 1, 0x40], Err(Length)),
            (vec![0x04, 2, 0x05, 0x00], Err(Length)),
            (vec![0x04, 2, 0x40, 0x05], Ok(())),
            (vec![0x20, 2, 0x05, 0x00], Err(Length)),
            (raw(0x0c, b"\0"), Err(Length)),
            (vec![0x04], Err(Truncated)),
            (vec![0x04, 2, 0x40], Err(Truncated)),
            (vec![0x40], Err(Truncated)),
            (vec![0x04, 0x40], Err(Truncated)),
            (vec![0x04, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], Err(Truncated)),
            // An unknown one is cut, too.
            (vec![0x1b, 5, 1, 2, 3, 4], Err(Truncated)),
        ] {
            assert_eq!(with(bytes.clone()), result, "{bytes:x?}");
        }
        // Each cut of a list, but those between its parameters, is noticed.
        let list = [raw(0x0f, ID), of(0x04, 1 << 40)].concat();
        for length in 11..list.len() {
            assert_eq!(check(&list[..length], ID), Err(Truncated), "{length} bytes");
        }
    }

    #[test]
    fn no_parameter_comes_twice() {
        use ParameterFault::Repeated;
        assert_eq!(with(raw(0x0f, ID)), Err(Repeated));
        // The same number in two lengths.
        assert_eq!(with([of(0x04, 9), vec![0x40, 0x04, 1, 9]].concat()), Err(Repeated));
        let many = |first: u64, count: u64| (first..first + count).flat_map(|unknown| raw(unknown, b"x"));
        assert_eq!(with(many(64, 32).chain(raw(64, b"y")).collect()), Err(Repeated));
        assert_eq!(with(many(64, 32).chain(raw(95, b"y")).collect()), Err(Repeated));
        assert_eq!(with(many(33, 3000).collect()), Ok(()));
    }

    #[test]
    fn what_the_server_does_not_know_has_any_value() {
        // Reserved ones (31 * N + 27), version_information, grease_quic_bit, min_ack_delay, and the largest number.
        for parameter in
            [27, 58, 31 * 77 + 27, 31 * ((1 << 62) / 31 - 1) + 27, 0x11, 0x2ab2, 0xff04_de1b, (1 << 62) - 1]
        {
            for value in [&b""[..], b"\xff", &[0xff; 1000]] {
                assert_eq!(with(raw(parameter, value)), Ok(()), "{parameter:#x} of {} bytes", value.len());
            }
        }
    }

    #[test]
    fn a_connection_keeps_its_first_result() {
        let failing = ParameterCheck::default();
        assert!(!failing.has_failed());
        failing.set_id(ID);
        assert!(!failing.passes(b"") && failing.has_failed());
        assert!(!failing.passes(&raw(0x0f, ID)) && failing.has_failed());
        let passing = ParameterCheck::default();
        passing.set_id(ID);
        passing.set_id(b"another");
        assert!(passing.passes(&raw(0x0f, ID)) && passing.passes(b"") && !passing.has_failed());
    }
}
