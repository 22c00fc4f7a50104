//! The cipher suites we speak, in our orders of preference.

use std::ffi::CStr;

/// TLS 1.2 suites with forward secrecy and an AEAD. Each comes for both kinds of certificate; AES-128 first,
/// because it is the cheapest to seal and strong enough for everybody.
pub(crate) const AES_ONLY: &CStr = c"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:\
    ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384";
pub(crate) const AES_FIRST: &CStr = c"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:\
    ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:\
    ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
pub(crate) const CHACHA20_FIRST: &CStr = c"ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:\
    ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:\
    ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384";

/// TLS 1.3 suites.
pub(crate) const AES_128: u16 = 0x1301;
pub(crate) const AES_256: u16 = 0x1302;
pub(crate) const CHACHA20: u16 = 0x1303;
