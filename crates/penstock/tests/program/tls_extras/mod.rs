//! Extensions of handshakes: compressed certificates, OCSP responses, encrypted hellos.

mod compression;
mod ech;
mod key_log;
mod legacy;
pub(crate) mod ocsp;
