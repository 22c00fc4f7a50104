//! Values in CBOR (RFC 8949).

use ciborium::Value;

/// A value as CBOR.
pub(super) fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    // Writing to memory does not fail.
    let _infallible = ciborium::into_writer(value, &mut out);
    out
}

/// The only value of an encoding; an empty one is an empty map (RFC 9052 §3).
pub(super) fn whole(mut bytes: &[u8]) -> Option<Value> {
    if bytes.is_empty() {
        return Some(Value::Map(Vec::new()));
    }
    let value = ciborium::de::from_reader_with_recursion_limit(&mut bytes, RECURSION).ok()?;
    bytes.is_empty().then_some(value)
}

/// How deep values may lie in others.
const RECURSION: usize = 16;

/// The value with an integer for its key.
pub(super) fn of_label(map: &Value, label: i128) -> Option<&Value> {
    let mut entries = map.as_map()?.iter();
    entries.find(|(key, _)| key.as_integer().map(i128::from) == Some(label)).map(|(_, value)| value)
}
