//! Identity of a stored session.

/// Key of a stored session. A session resumes only under its original server name (RFC 6066 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionKey<'k> {
    /// The session identifier: random bytes of the server, or any bytes of a client.
    pub id: &'k [u8],
    /// The server name that the client asked for.
    pub server_name: Option<&'k str>,
}
