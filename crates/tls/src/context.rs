//! The library's contexts: one per certificate, all with the same policy.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use boring::error::ErrorStack;
use boring::ssl::{
    AlpnError, ClientHello, ExtensionType, NameType, SelectCertError, Ssl, SslContext, SslContextBuilder,
    SslMethod, SslOptions, SslRef, SslSessionCacheMode, SslVersion,
};
use penstock_sys::digest::sha256;
use penstock_sys::ssl;
use penstock_sys::traffic::{Secret, Version};

use crate::alpn::{self, Choice};
use crate::certificate::Certificate;
use crate::client_certificates::ClientCertificates;
use crate::compression::CompressedMessages;
use crate::early_data::EarlyDataPolicy;
use crate::extensions;
use crate::groups;
use crate::hello;
use crate::legacy::{Legacy, MODERN_SIGNATURES};
use crate::ocsp;
use crate::session_store::{self, Desk, SessionKeeping};
use crate::settings::{Group, Settings};
use crate::shelf::{Chosen, Offered, Shelf};
use crate::signatures::{SignatureRules, Verifiable};
use crate::signing::{self, Signing};
use crate::suites::{ChaCha20Switch, Orders};

/// Why an [`Acceptor`] could not be made: a combination the library refuses.
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

/// Makes connections out of sockets. Shared by all workers; nothing in it changes but the certificates.
pub struct Acceptor {
    context: SslContext,
    shelf: Arc<Shelf>,
    session_keeping: Option<SessionKeeping>,
    early_data: Option<EarlyDataPolicy>,
    client_certificates: Option<ClientCertificates>,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

impl Acceptor {
    /// Prepares everything that is the same for each handshake.
    ///
    /// # Errors
    /// No certificate, or a combination that the library refuses.
    pub fn new(settings: Settings) -> Result<Self, ContextError> {
        // Connections begin without a certificate: which one they need, only the ClientHello tells.
        let mut entry = common(&settings)?;
        let session_keeping = settings.session_keeping.clone();
        let early_data = settings.early_data.clone();
        let client_certificates = settings.client_certificates.clone();
        let chooser = Chooser::new(settings)?;
        let shelf = Arc::clone(&chooser.shelf);
        entry.set_select_certificate_callback(move |hello| chooser.choose(hello));
        Ok(Self { context: entry.build(), shelf, session_keeping, early_data, client_certificates })
    }

    /// Shows these certificates to new clients from now on.
    ///
    /// # Errors
    /// No certificate, or one that the library refuses; the old ones then stay.
    pub fn replace_certificates(&self, certificates: Vec<Offered>) -> Result<(), ContextError> {
        self.shelf.replace(certificates)
    }

    /// How many certificates are in memory because clients needed them.
    pub fn prepared_certificates(&self) -> usize {
        self.shelf.prepared()
    }

    /// What connections begin with.
    pub(crate) fn context(&self) -> &SslContext {
        &self.context
    }

    /// The library's state of a new connection.
    pub(crate) fn new_connection(&self) -> Result<Ssl, ErrorStack> {
        let mut ssl = Ssl::new(&self.context)?;
        ssl::attach_notes(&mut ssl);
        signing::attach_progress(&mut ssl);
        if self.session_keeping.is_some() {
            session_store::attach_question(&mut ssl);
        }
        ssl::shed_handshake_config(&mut ssl);
        Ok(ssl)
    }

    /// How early data is taken.
    pub(crate) fn early_data(&self) -> Option<&EarlyDataPolicy> {
        self.early_data.as_ref()
    }

    /// Whose certificate the client has shown; `None` if it has shown none.
    pub(crate) fn name_of_client(&self, connection: &SslRef) -> Option<String> {
        self.client_certificates.as_ref()?.name_of_client(connection)
    }

    /// How long a handshake waits for a session.
    pub(crate) fn lookup_deadline(&self) -> Duration {
        self.session_keeping.as_ref().map_or(Duration::ZERO, |keeping| keeping.lookup_deadline)
    }
}

fn common(settings: &Settings) -> Result<SslContextBuilder, ContextError> {
    let mut builder = SslContextBuilder::new(SslMethod::tls())?;
    let oldest = settings.legacy.map_or_else(|| library_version(settings.oldest), Legacy::library_version);
    builder.set_min_proto_version(Some(oldest))?;
    builder.set_max_proto_version(Some(library_version(settings.newest)))?;
    builder.set_curves_list(&groups::names(&settings.groups))?;
    builder.set_options(SslOptions::CIPHER_SERVER_PREFERENCE);
    Orders::new(&settings.suites).as_listed().set_for_context(&mut builder)?;
    match &settings.session_keeping {
        Some(keeping) => ssl::set_sessions(&mut builder, Arc::new(Desk(Arc::clone(&keeping.store)))),
        None => drop(builder.set_session_cache_mode(SslSessionCacheMode::OFF)),
    }
    if let Some(rules) = &settings.client_certificates {
        rules.ask(&mut builder)?;
    }
    // Each connection gets one of its own; without any the library refuses to resume where certificates are asked for.
    builder.set_session_id_context(session_family(settings))?;
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
    builder.set_alpn_select_callback(|_, offered| match alpn::choose(offered) {
        Choice::Agreed(name) => Ok(name),
        Choice::NoneNeeded => Err(AlpnError::NOACK),
        Choice::Foreign => Err(AlpnError::ALERT_FATAL),
    });
    let key_log = settings.key_log.clone();
    // The library writes out four secrets for each connection, which is not cheap: only for those who need it.
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

/// The context of connections that show this certificate; what belongs to a certificate is set here.
pub(crate) fn with_certificate(
    settings: &Settings,
    certificate: &Certificate,
    compressed: &Arc<CompressedMessages>,
) -> Result<SslContextBuilder, ContextError> {
    let mut builder = common(settings)?;
    compress_certificates(&mut builder, settings, compressed)?;
    ocsp::keep(&mut builder, settings.staples.of(certificate));
    builder.set_certificate(certificate.leaf())?;
    for intermediate in certificate.intermediates() {
        builder.add_extra_chain_cert(intermediate.clone())?;
    }
    if settings.legacy.is_none() {
        ssl::set_signing_preferences(&mut builder, &MODERN_SIGNATURES)?;
    }
    builder.set_private_key_method(Signing::with(certificate.key().clone()));
    Ok(builder)
}

/// Every context of an acceptor keeps its compressed certificates in the same place.
fn compress_certificates(
    builder: &mut SslContextBuilder,
    settings: &Settings,
    compressed: &Arc<CompressedMessages>,
) -> Result<(), ErrorStack> {
    let numbers: Vec<u16> = settings.compressions.iter().map(|one| one.number()).collect();
    let compressor = Arc::clone(compressed) as Arc<dyn ssl::CertificateCompressor>;
    ssl::set_certificate_compression(builder, &numbers, compressor)
}

fn library_version(version: Version) -> SslVersion {
    match version {
        Version::Tls12 => SslVersion::TLS1_2,
        Version::Tls13 => SslVersion::TLS1_3,
    }
}

/// The one decision per ClientHello: whether it goes on now, which certificate, which groups and suites in which order,
/// which sessions.
struct Chooser {
    shelf: Arc<Shelf>,
    rules: SignatureRules,
    orders: Orders,
    chacha20: Arc<ChaCha20Switch>,
    /// Empty if nothing is ever rearranged.
    groups: Vec<Group>,
    ja4: bool,
    /// The sessions that may be resumed here at all.
    family: Vec<u8>,
}

impl Chooser {
    fn new(settings: Settings) -> Result<Self, ContextError> {
        let rules =
            SignatureRules { tls13: settings.newest == Version::Tls13, sha1: settings.legacy.is_some() };
        Ok(Self {
            rules,
            orders: Orders::new(&settings.suites),
            chacha20: Arc::clone(&settings.chacha20),
            groups: if settings.asks_for_best_group { Vec::new() } else { settings.groups.clone() },
            ja4: settings.ja4,
            family: session_family(&settings).to_vec(),
            shelf: Shelf::new(settings)?,
        })
    }

    fn choose(&self, mut hello: ClientHello<'_>) -> Result<(), SelectCertError> {
        if let Some(progress) = signing::progress(hello.ssl()).filter(|_| self.ja4) {
            progress.note_ja4(hello.as_bytes());
        }
        let find = |number: u16| hello.get_extension(number.into());
        let name = hello.servername(NameType::HOST_NAME);
        let verifiable = Verifiable::of(self.orders.signed_by(hello.ciphers()), find, self.rules);
        let context = match self.shelf.choose(name, verifiable) {
            Chosen::Ready(context) => context,
            Chosen::Pending(gate) => {
                let progress = signing::progress(hello.ssl()).ok_or(SelectCertError::ERROR)?;
                progress.set_gate(gate);
                return Err(SelectCertError::RETRY);
            }
            Chosen::None => return Err(SelectCertError::ERROR),
        };
        let waits = signing::progress(hello.ssl()).is_some_and(|progress| !progress.has_turn());
        if waits && !hello::offers_resumption(hello.as_bytes(), find) {
            // It will most likely sign, so it does not even begin the key exchange before it may.
            return Err(SelectCertError::RETRY);
        }
        let supported = hello.get_extension(ExtensionType::SUPPORTED_GROUPS);
        let shares = hello.get_extension(ExtensionType::KEY_SHARE);
        let groups = groups::sparing_a_round_trip(&self.groups, supported, shares);
        let order = self.orders.for_client(hello.ciphers(), self.chacha20.is_last());
        if let Some(notes) =
            ssl::notes(hello.ssl()).filter(|_| hello.get_extension(ExtensionType::EARLY_DATA).is_some())
        {
            notes.set_early_data_offered();
        }
        let asked = extensions::asked(&hello);
        keep_offered_ticket(&hello);
        let sessions = sessions_of(&self.family, &self.shelf, name);
        let ssl = hello.ssl_mut();
        let prepare = || {
            ssl.set_ssl_context(&context)?;
            ssl::set_session_context(ssl, &sessions)?;
            if let Some(groups) = groups {
                ssl.set_curves_list(&groups::names(&groups))?;
            }
            if let Some(order) = order {
                order.set(ssl)?;
            }
            extensions::answer(ssl, asked)
        };
        prepare().map_err(|_: ErrorStack| SelectCertError::ERROR)
    }
}

/// Sessions belong to the rules for client certificates under which they began.
fn session_family(settings: &Settings) -> &[u8] {
    settings.client_certificates.as_ref().map_or(b"penstock", ClientCertificates::session_id_context)
}

/// And to the server name that was asked for, and to whether there is a certificate for it: machines that share ticket keys
/// need not have the same certificates, and who resumes is shown none (RFC 6066 §3).
fn sessions_of(family: &[u8], shelf: &Shelf, name: Option<&str>) -> [u8; 32] {
    let name = name.unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    sha256(&[family, name.as_bytes(), &[u8::from(shelf.bears(&name))]])
}

/// The library does not say why it does not accept a ticket; with the ticket at hand that can be found out.
fn keep_offered_ticket(hello: &ClientHello<'_>) {
    let of_tls13 = hello.get_extension(ExtensionType::PRE_SHARED_KEY);
    let ticket = hello::offered_ticket(of_tls13, hello.get_extension(ExtensionType::SESSION_TICKET));
    if let Some(notes) = ssl::notes(hello.ssl()) {
        notes.tickets().set_offered(ticket);
    }
}

/// Before the end of the handshake the library tells the TLS 1.3 send secret only through its key log.
fn keep_server_secret(ssl: &SslRef, line: &str) {
    let Some(fields) = line.strip_prefix("SERVER_TRAFFIC_SECRET_0 ") else { return };
    let Some(secret) = fields.split(' ').nth(1).and_then(from_hex) else { return };
    if let Some(notes) = ssl::notes(ssl) {
        notes.set_server_secret(secret);
    }
}

fn from_hex(digits: &str) -> Option<Secret> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let bytes = digits.as_bytes().chunks_exact(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?));
    bytes.collect::<Option<Vec<u8>>>().map(Secret::new)
}
