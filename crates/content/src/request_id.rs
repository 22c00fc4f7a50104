//! The name of a request, in fields and in the access log.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

/// The name of one request: 128 random bits, written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId([u64; 2]);

impl RequestId {
    /// A new name. The bits are those of SipHash under random keys, of which each call has others. They tell nothing of other
    /// requests.
    pub(crate) fn new() -> Self {
        let bits = || RandomState::new().build_hasher().finish();
        Self([bits(), bits()])
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([first, second]) = self;
        write!(out, "{first:016x}{second:016x}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_32_digits_and_differ() {
        let names: HashSet<String> = (0..1000).map(|_| RequestId::new().to_string()).collect();
        assert_eq!(names.len(), 1000);
        assert!(
            names.iter().all(|name| name.len() == 32 && name.bytes().all(|digit| digit.is_ascii_hexdigit()))
        );
    }
}
