//! How long the library is busy with exchanging keys during a handshake.
//!
//! The library has no hook around a key exchange. It tells when it goes from one step of its state machine to the next,
//! and keys are exchanged in steps that do little else.

use std::cell::Cell;
use std::ffi::{CStr, c_int};

use boring::ssl::{SslContextBuilder, SslRef};
use boring_sys as ffi;
use foreign_types::ForeignTypeRef;

use super::hello_limit::{begin_second_client_hello, end_client_hello};
use super::notes::notes;

/// More than the library has states.
const SEEN_NAMES: usize = 64;

thread_local! {
    // A handshake takes some forty steps; comparing names in each would be most of the cost.
    static SEEN: [Cell<(usize, HandshakeStep)>; SEEN_NAMES] = const { [const { Cell::new((0, HandshakeStep::Other)) }; SEEN_NAMES] };
}

/// Kinds of steps of the library's state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakeStep {
    /// Exchanges keys and does little else.
    KeyExchange,
    /// Reads the ClientHello after a HelloRetryRequest and exchanges keys.
    SecondClientHello,
    /// Follows the last ClientHello of TLS 1.3.
    ServerHello,
    Other,
}

/// Records the times of steps in the [`Notes`](super::Notes) of this context's connections, and raises the limit on
/// ClientHellos for the second one.
pub fn observe_steps(builder: &mut SslContextBuilder) {
    // SAFETY: the context outlives the call, and `on_info` matches the prototype and never unwinds.
    unsafe { ffi::SSL_CTX_set_info_callback(builder.as_ptr(), Some(on_info)) };
}

extern "C" fn on_info(ssl: *const ffi::SSL, kind: c_int, _value: c_int) {
    if ssl.is_null() || kind != ffi::SSL_CB_ACCEPT_LOOP {
        return;
    }
    // SAFETY: the library passes the live connection it is working on.
    let name = unsafe { ffi::SSL_state_string_long(ssl) };
    if name.is_null() {
        return;
    }
    let step = SEEN.with(|seen| {
        // The names are constants of the library, so their addresses identify them.
        let entry = &seen[name.addr() / 8 % SEEN_NAMES];
        let (known, step) = entry.get();
        if known == name.addr() {
            return step;
        }
        // SAFETY: the library returns a string literal.
        let step = step_of(unsafe { CStr::from_ptr(name) }.to_bytes());
        entry.set((name.addr(), step));
        step
    });
    // SAFETY: as above; the library holds no other reference during the callback, and this one ends with it.
    let ssl = unsafe { SslRef::from_ptr_mut(ssl.cast_mut()) };
    match step {
        HandshakeStep::SecondClientHello => begin_second_client_hello(ssl),
        HandshakeStep::ServerHello => end_client_hello(ssl),
        HandshakeStep::KeyExchange | HandshakeStep::Other => {}
    }
    if let Some(notes) = notes(ssl) {
        notes.enter_step(matches!(step, HandshakeStep::KeyExchange | HandshakeStep::SecondClientHello));
    }
}

/// Maps the library's names of its states, of TLS 1.3 and of the older versions.
fn step_of(state: &[u8]) -> HandshakeStep {
    match state {
        b"TLS 1.3 server select_session"
        | b"TLS server send_server_certificate"
        | b"TLS server read_client_key_exchange" => HandshakeStep::KeyExchange,
        b"TLS 1.3 server read_second_client_hello" => HandshakeStep::SecondClientHello,
        b"TLS 1.3 server send_server_hello" => HandshakeStep::ServerHello,
        _ => HandshakeStep::Other,
    }
}
