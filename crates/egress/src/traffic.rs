//! What a connection sends, which decides the calls that a sealing kernel needs.

/// What a connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Files behind heads, as HTTP/1.1 does: `sendfile`.
    Files,
    /// Frames of files, as HTTP/2 does: `sendmsg`.
    Frames,
}
