//! The outer form of a TLS record (RFC 8446 §5.1): content types, lengths, and two messages with fixed bytes.

/// Bytes of a record header.
pub(crate) const HEADER_BYTES: usize = 5;

/// Content type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ContentType {
    Alert = 21,
    Handshake = 22,
    ApplicationData = 23,
}

/// KeyUpdate with update_not_requested (RFC 8446 §4.6.3).
pub(crate) const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

const ALERT_WARNING: u8 = 1;
const ALERT_FATAL: u8 = 2;
const CLOSE_NOTIFY: u8 = 0;

/// Level and number of an alert (RFC 8446 §6): only close_notify is no reason to worry.
pub(crate) fn alert_message(number: u8) -> [u8; 2] {
    [if number == CLOSE_NOTIFY { ALERT_WARNING } else { ALERT_FATAL }, number]
}
