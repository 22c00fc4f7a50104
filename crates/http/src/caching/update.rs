//! Updating a stored response with the fields of a 304 (RFC 9111 §3.2).

use crate::Fields;

/// Fields of one connection (RFC 9110 §7.6.1), with those of proxies, which a cache does not store either (RFC 9111 §3.1).
const OF_CONNECTION: [&[u8]; 10] = [
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authentication-info",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
];

/// Further fields that a 304 never changes: those that describe the stored body, the validator by which the stored response
/// was selected (RFC 9111 §4.3.4), and Set-Cookie, which is for one client.
const NOT_UPDATED: [&[u8]; 7] = [
    b"content-digest",
    b"content-encoding",
    b"content-length",
    b"content-md5",
    b"content-range",
    b"etag",
    b"set-cookie",
];

/// Whether a field is of one connection or of a proxy: it is neither stored nor sent on.
pub fn is_of_connection(name: impl AsRef<[u8]>) -> bool {
    OF_CONNECTION.iter().any(|known| name.as_ref().eq_ignore_ascii_case(known))
}

/// The fields of a stored response after a 304: each field of the 304 replaces all stored ones of that name, and the others
/// stay. Fields of one connection, those that describe the body, ETag and Set-Cookie are not taken over. Names are compared
/// without regard to case.
pub fn updated_fields(stored: &Fields, not_modified: &Fields) -> Fields {
    let is_taken = |name: &[u8]| {
        !is_of_connection(name) && !NOT_UPDATED.iter().any(|excluded| name.eq_ignore_ascii_case(excluded))
    };
    let mut fresh = not_modified.clone();
    fresh.remove(|name| !is_taken(name));
    let mut updated = stored.clone();
    updated.remove(|name| fresh.iter().any(|(new, _)| new.eq_ignore_ascii_case(name)));
    updated.extend(&fresh);
    updated
}

#[cfg(test)]
mod tests {
    use super::*;

    fn updated(stored: &str, not_modified: &str) -> String {
        let fields = |lines: &str| Fields::from_lines(lines.as_bytes()).unwrap();
        String::from_utf8(updated_fields(&fields(stored), &fields(not_modified)).to_lines()).unwrap()
    }

    #[test]
    fn fields_of_a_304_replace_stored_ones_and_the_others_stay() {
        let stored =
            "content-type: video/mp4\r\ncache-control: max-age=5\r\nx-a: 1\r\nx-a: 2\r\netag: \"1\"\r\n";
        let fresh = "cache-control: max-age=60\r\nX-A: 3\r\nx-new: 4\r\n";
        assert_eq!(
            updated(stored, fresh),
            "content-type: video/mp4\r\netag: \"1\"\r\ncache-control: max-age=60\r\nX-A: 3\r\nx-new: 4\r\n"
        );
        assert_eq!(updated(stored, ""), stored);
    }

    #[test]
    fn a_304_changes_neither_what_describes_the_body_nor_what_belongs_to_its_connection_or_client() {
        let stored = "content-encoding: gzip\r\netag: \"1\"\r\n";
        for line in [
            "Content-Length: 0",
            "content-encoding: br",
            "content-range: bytes 0-1/2",
            "Content-MD5: 1B2M2Y8AsgTpgAmY7PhCfg==",
            "content-digest: sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:",
            "etag: W/\"1\"",
            "connection: close",
            "transfer-encoding: chunked",
            "Set-Cookie: session=1",
        ] {
            assert_eq!(updated(stored, &format!("{line}\r\n")), stored, "{line}");
        }
    }
}
