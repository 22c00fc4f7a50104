//! System calls that fail: the kernel has no memory, no descriptor, no space, or a disk that returns errors.
//!
//! strace lets calls of the running server fail. Meanwhile a client may get an error or a response that is cut, never
//! wrong bytes; afterwards every byte is served again, nothing has panicked, and no connection is left.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]
#![expect(clippy::print_stdout, reason = "a skipped test says so")]

mod calls;
mod scene;
