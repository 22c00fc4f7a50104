//! The library's contexts: one per certificate, all with the same policy.

use std::fmt;
use std::sync::Arc;

use boring::error::ErrorStack;
use boring::ssl::{
    AlpnError, SniError, SslAlert, SslContextBuilder, SslMethod, SslOptions, SslRef, SslSessionCacheMode,
    SslVersion,
};
use penstock_sys::ssl;
use penstock_sys::traffic::{ProtocolVersion, Secret};

use crate::alpn::{self, AlpnDecision, HttpVersions};
use crate::certificate::Certificate;
use crate::compression::CompressedMessages;
use crate::groups;
use crate::legacy::{Legacy, MODERN_SIGNATURES};
use crate::ocsp;
use crate::session_store::SessionLookup;
use crate::settings::AcceptorSettings;
use crate::signing::{self, HandshakeProgress, Signing};
use crate::suites::SuiteOrders;

/// Settings from which the library makes no context.
#[derive(Debug)]
pub struct ContextError(String);

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the TLS settings cannot be used: {}", self.0)
    }
}

impl std::error::Error for ContextError {}

impl ContextError {
    pub(crate) fn new(what: &str) -> Self {
        Self(what.to_owned())
    }
}

impl From<ErrorStack> for ContextError {
    fn from(error: ErrorStack) -> Self {
        Self(error.to_string())
    }
}

pub(crate) fn base_context(settings: &AcceptorSettings) -> Result<SslContextBuilder, ContextError> {
    let mut builder = SslContextBuilder::new(SslMethod::tls())?;
    let oldest = settings.legacy.map_or_else(|| library_version(settings.oldest), Legacy::library_version);
    builder.set_min_proto_version(Some(oldest))?;
    builder.set_max_proto_version(Some(library_version(settings.newest)))?;
    builder.set_curves_list(&groups::names(&settings.groups))?;
    builder.set_options(SslOptions::CIPHER_SERVER_PREFERENCE);
    SuiteOrders::new(&settings.suites).as_listed().set_for_context(&mut builder)?;
    match &settings.session_storage {
        Some(keeping) => {
            ssl::set_session_callbacks(&mut builder, Arc::new(SessionLookup(Arc::clone(&keeping.store))))
        }
        None => drop(builder.set_session_cache_mode(SslSessionCacheMode::OFF)),
    }
    if let Some(rules) = &settings.client_certificates {
        rules.ask(&mut builder)?;
    }
    // Each connection gets its own later. Without any, the library resumes no session with a client certificate.
    builder.set_session_id_context(settings.session_family())?;
    ssl::set_session_lifetime(&mut builder, settings.session_lifetime);
    match &settings.tickets {
        Some(keys) => ssl::set_ticket_keys(&mut builder, Arc::clone(keys) as Arc<dyn ssl::TicketKeys>),
        None => {
            builder.set_options(SslOptions::NO_TICKET);
        }
    }
    if settings.early_data.is_some() {
        ssl::take_early_data(&mut builder);
    }
    // Of the callbacks that see a ClientHello, only this one can choose the alert.
    builder.set_servername_callback(|ssl, alert| {
        if !signing::progress(ssl).is_some_and(HandshakeProgress::refuses_version) {
            return Err(SniError::NOACK);
        }
        *alert = SslAlert::PROTOCOL_VERSION;
        Err(SniError::ALERT_FATAL)
    });
    builder.set_alpn_select_callback(|ssl, offered| match alpn::choose(offered, spoken(ssl)) {
        AlpnDecision::Agreed(name) => Ok(name),
        AlpnDecision::NoneNeeded => Err(AlpnError::NOACK),
        AlpnDecision::Foreign => Err(AlpnError::ALERT_FATAL),
    });
    let key_log = settings.key_log.clone();
    // The library formats four secrets per connection for this callback, so it is installed only if it is used.
    if key_log.is_some() || settings.early_data.is_some() {
        builder.set_keylog_callback(move |ssl, line| {
            keep_server_secret(ssl, line);
            if let Some(log) = &key_log {
                log.write(line);
            }
        });
    }
    ssl::observe_messages(&mut builder);
    ssl::observe_steps(&mut builder);
    Ok(builder)
}

/// The versions of HTTP for this connection. HTTP/2 is not spoken over a CBC suite (RFC 9113 §9.2.2); the library asks after
/// the suite has been chosen.
fn spoken(ssl: &SslRef) -> HttpVersions {
    let versions = ssl::notes(ssl).map_or(HttpVersions::H1, |notes| HttpVersions::of_bits(notes.protocols()));
    let is_quic = ssl::is_quic(ssl);
    HttpVersions { h2: versions.h2 && ssl::has_aead_cipher(ssl), h3: versions.h3 && is_quic, ..versions }
}

/// The context of connections that show this certificate.
pub(crate) fn with_certificate(
    settings: &AcceptorSettings,
    certificate: &Certificate,
    compressed: &Arc<CompressedMessages>,
) -> Result<SslContextBuilder, ContextError> {
    let mut builder = base_context(settings)?;
    compress_certificates(&mut builder, settings, compressed)?;
    ocsp::attach(&mut builder, settings.staples.of(certificate));
    builder.set_certificate(certificate.leaf())?;
    for intermediate in certificate.intermediates() {
        builder.add_extra_chain_cert(intermediate.clone())?;
    }
    if settings.legacy.is_none() {
        ssl::set_signing_preferences(&mut builder, &MODERN_SIGNATURES)?;
    }
    builder.set_private_key_method(Signing::with(certificate));
    Ok(builder)
}

/// All contexts of an acceptor share one cache of compressed certificates.
fn compress_certificates(
    builder: &mut SslContextBuilder,
    settings: &AcceptorSettings,
    compressed: &Arc<CompressedMessages>,
) -> Result<(), ErrorStack> {
    let numbers: Vec<u16> = settings.compressions.iter().map(|one| one.number()).collect();
    let compressor = Arc::clone(compressed) as Arc<dyn ssl::CertificateCompressor>;
    ssl::set_certificate_compression(builder, &numbers, compressor)
}

fn library_version(version: ProtocolVersion) -> SslVersion {
    match version {
        ProtocolVersion::Tls12 => SslVersion::TLS1_2,
        ProtocolVersion::Tls13 => SslVersion::TLS1_3,
    }
}

/// Keeps the TLS 1.3 send secret, which the library reports before the end of the handshake only in its key log.
fn keep_server_secret(ssl: &SslRef, line: &str) {
    let Some(fields) = line.strip_prefix("SERVER_TRAFFIC_SECRET_0 ") else { return };
    let Some(secret) = fields.split(' ').nth(1).and_then(from_hex) else { return };
    if let Some(notes) = ssl::notes(ssl) {
        notes.set_server_secret(secret);
    }
}

fn from_hex(digits: &str) -> Option<Secret> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    // Never grown: what a vector leaves behind then is not wiped.
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    for pair in digits.as_bytes().chunks_exact(2) {
        bytes.push(nibble(pair[0])? << 4 | nibble(pair[1])?);
    }
    Some(Secret::new(bytes))
}
