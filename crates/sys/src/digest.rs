//! SHA-256, for keys that must not collide.

/// SHA-256 of all parts one behind the other, each with its length in front, so that no two lists of parts meet.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = boring::sha::Sha256::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_part_ends_counts() {
        assert_ne!(sha256(&[b"ab", b"c"]), sha256(&[b"a", b"bc"]));
        assert_ne!(sha256(&[b""]), sha256(&[]));
        assert_eq!(sha256(&[b"a", b"b"]), sha256(&[b"a", b"b"]));
    }
}
