//! Updating a stored response with the fields of a 304 (RFC 9111 §3.2).

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

/// The field lines of a stored response after a 304: each field of the 304 replaces all stored lines of that name, and
/// the others stay. Fields of one connection, those that describe the body, ETag and Set-Cookie are not taken over. Both
/// inputs are `name: value` lines, each with its line end; names are compared without regard to case.
pub fn updated_lines(stored: &[u8], not_modified: &[u8]) -> Vec<u8> {
    let fresh: Vec<&[u8]> = lines(not_modified)
        .filter(|line| !name(line).is_empty())
        .filter(|line| !is_of_connection(name(line)))
        .filter(|line| !NOT_UPDATED.iter().any(|excluded| name(line).eq_ignore_ascii_case(excluded)))
        .collect();
    let replaced = |line: &&[u8]| fresh.iter().any(|new| name(new).eq_ignore_ascii_case(name(line)));
    let kept = lines(stored).filter(|line| !replaced(line));
    kept.chain(fresh.iter().copied()).collect::<Vec<_>>().concat()
}

/// Names and values of field lines, as [`Response::read`](super::Response::read) takes them.
pub fn fields(lines_of_head: &[u8]) -> impl Iterator<Item = (&str, &[u8])> + Clone {
    lines(lines_of_head).filter(|line| !name(line).is_empty()).filter_map(|line| {
        let value = line.get(name(line).len() + 1..)?.trim_ascii();
        Some((str::from_utf8(name(line)).ok()?, value))
    })
}

fn lines(lines_of_head: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    lines_of_head.split_inclusive(|byte| *byte == b'\n')
}

/// The name of a field line; empty if it has none.
fn name(line: &[u8]) -> &[u8] {
    memchr::memchr(b':', line).map_or(&[], |colon| &line[..colon])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_304_replace_stored_ones_and_the_others_stay() {
        let stored =
            b"content-type: video/mp4\r\ncache-control: max-age=5\r\nx-a: 1\r\nx-a: 2\r\netag: \"1\"\r\n";
        let fresh = b"cache-control: max-age=60\r\nX-A: 3\r\nx-new: 4\r\n";
        assert_eq!(
            updated_lines(stored, fresh),
            b"content-type: video/mp4\r\netag: \"1\"\r\ncache-control: max-age=60\r\nX-A: 3\r\nx-new: 4\r\n"
        );
        assert_eq!(updated_lines(stored, b""), stored);
    }

    #[test]
    fn a_304_changes_neither_what_describes_the_body_nor_what_belongs_to_its_connection_or_client() {
        let stored = b"content-encoding: gzip\r\netag: \"1\"\r\n";
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
            "no field at all",
        ] {
            assert_eq!(updated_lines(stored, format!("{line}\r\n").as_bytes()), stored, "{line}");
        }
    }

    #[test]
    fn lines_are_read_as_fields() {
        let read: Vec<_> = fields(b"a: 1\r\nb:2 \r\nnone\r\n").collect();
        assert_eq!(read, [("a", &b"1"[..]), ("b", b"2")]);
    }
}
