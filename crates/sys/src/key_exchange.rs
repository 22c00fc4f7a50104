//! X25519 of AWS-LC instead of BoringSSL's: its code is a quarter faster, and X25519 is a third of a handshake.
//!
//! BoringSSL has no hook for key shares. The linker option `--wrap` of `penstock` (`crates/penstock/build.rs`) redirects its
//! calls of `X25519` and `X25519_keypair` to these two functions. The functions of both libraries are the same in name,
//! arguments and meaning, since AWS-LC descends from BoringSSL.

use std::ffi::c_int;

/// Writes the 32 bytes of the shared secret; 0 if they are all zero, which a hostile public value makes them (RFC 7748
/// §6.1), else 1.
///
/// # Safety
/// `out` is valid for 32 writes, the two others for 32 reads.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_X25519(out: *mut u8, private: *const u8, peer: *const u8) -> c_int {
    // SAFETY: the caller gives what this function asks for.
    unsafe { aws_lc_sys::X25519(out, private, peer) }
}

/// Makes a new key and writes both its parts, of 32 bytes each.
///
/// # Safety
/// Both are valid for 32 writes.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_X25519_keypair(out_public: *mut u8, out_private: *mut u8) {
    // SAFETY: the caller gives what this function asks for.
    unsafe { aws_lc_sys::X25519_keypair(out_public, out_private) };
}

#[cfg(test)]
mod tests {
    use super::*;

    type Bytes32 = [u8; 32];

    fn bytes(hex: &str) -> Bytes32 {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        std::array::from_fn(|place| byte(2 * place))
    }

    fn shared(private: &Bytes32, peer: &Bytes32) -> Option<Bytes32> {
        let mut out = [0; 32];
        // SAFETY: all three are arrays of 32 bytes.
        let done = unsafe { __wrap_X25519(out.as_mut_ptr(), private.as_ptr(), peer.as_ptr()) };
        (done == 1).then_some(out)
    }

    fn key_pair() -> (Bytes32, Bytes32) {
        let (mut public, mut private) = ([0; 32], [0; 32]);
        // SAFETY: both are arrays of 32 bytes.
        unsafe { __wrap_X25519_keypair(public.as_mut_ptr(), private.as_mut_ptr()) };
        (public, private)
    }

    #[test]
    fn the_shared_secret_is_that_of_rfc_7748() {
        // RFC 7748 §5.2, the first test vector.
        let scalar = bytes("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4");
        let point = bytes("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c");
        let secret = bytes("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
        assert_eq!(shared(&scalar, &point), Some(secret));
    }

    #[test]
    fn both_libraries_agree_on_every_secret() {
        for _ in 0..50 {
            let ((public, private), (other_public, other_private)) = (key_pair(), key_pair());
            let secret = shared(&private, &other_public);
            assert!(secret.is_some());
            assert_eq!(shared(&other_private, &public), secret);
            let mut theirs = [0; 32];
            // SAFETY: all three are arrays of 32 bytes.
            let done =
                unsafe { boring_sys::X25519(theirs.as_mut_ptr(), other_private.as_ptr(), public.as_ptr()) };
            assert_eq!((done, Some(theirs)), (1, secret));
        }
    }

    #[test]
    fn a_point_of_small_order_gives_no_secret() {
        let (_, private) = key_pair();
        assert_eq!(shared(&private, &[0; 32]), None);
        let mut one = [0; 32];
        one[0] = 1;
        assert_eq!(shared(&private, &one), None);
    }
}
