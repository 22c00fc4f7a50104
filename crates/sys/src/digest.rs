//! SHA-256, for keys that must not collide and for signatures that must not be forged.

/// SHA-256 of all parts, each after its length, so that different lists have different inputs.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = boring::sha::Sha256::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finish()
}

/// HMAC-SHA256 (RFC 2104); `None` only if the library is out of memory.
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> Option<[u8; 32]> {
    boring::hash::hmac_sha256(key, message).ok()
}

/// MD5, for links of nginx, which have nothing better; `None` only if the library is out of memory.
pub fn md5(message: &[u8]) -> Option<[u8; 16]> {
    let digest = boring::hash::hash(boring::hash::MessageDigest::md5(), message).ok()?;
    digest.as_ref().try_into().ok()
}

/// Compares two signatures in constant time. Of two lengths none is secret.
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && boring::memcmp::eq(one, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_depends_on_the_boundaries_of_parts() {
        assert_ne!(sha256(&[b"ab", b"c"]), sha256(&[b"a", b"bc"]));
        assert_ne!(sha256(&[b""]), sha256(&[]));
        assert_eq!(sha256(&[b"a", b"b"]), sha256(&[b"a", b"b"]));
    }

    #[test]
    fn signatures_are_those_of_the_standard() {
        // RFC 4231 §4.3
        let signature = hmac_sha256(b"Jefe", b"what do ya want for nothing?").unwrap();
        assert_eq!(signature[..4], [0x5b, 0xdc, 0xc1, 0x46]);
        assert_eq!(signature[28..], [0x64, 0xec, 0x38, 0x43]);
        assert!(is_same(&signature, &signature));
        let mut other = signature;
        other[31] ^= 1;
        assert!(!is_same(&signature, &other) && !is_same(&signature, &signature[..31]));
        // RFC 1321 §A.5
        assert_eq!(md5(b"abc").unwrap()[..4], [0x90, 0x01, 0x50, 0x98]);
    }
}
