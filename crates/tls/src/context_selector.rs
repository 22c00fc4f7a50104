//! Chooses the library's context of a connection by its ClientHello.

use std::sync::Arc;

use boring::error::ErrorStack;
use boring::ssl::{ClientHello, ExtensionType, NameType, SelectCertError};
use penstock_sys::digest::sha256;
use penstock_sys::ssl;
use penstock_sys::traffic::ProtocolVersion;

use crate::certificate_store::{CertificateStore, Chosen};
use crate::challenges;
use crate::context::ContextError;
use crate::extensions;
use crate::groups;
use crate::hello;
use crate::settings::{AcceptorSettings, Group};
use crate::signatures::{SignatureRules, Verifiable};
use crate::signing;
use crate::suites::{ChaCha20Switch, SuiteOrders};

/// The extension with the protocols that a client offers (RFC 7301).
const ALPN: u16 = 16;

/// The policy that is applied to each ClientHello.
pub(crate) struct ContextSelector {
    certificate_store: Arc<CertificateStore>,
    rules: SignatureRules,
    orders: SuiteOrders,
    chacha20: Arc<ChaCha20Switch>,
    /// Empty if the order of groups never changes.
    groups: Vec<Group>,
    ja4: bool,
    /// Identifies the sessions that these settings may resume.
    family: Vec<u8>,
}

impl ContextSelector {
    pub(crate) fn new(settings: AcceptorSettings) -> Result<Self, ContextError> {
        let rules = SignatureRules {
            tls13: settings.newest == ProtocolVersion::Tls13,
            sha1: settings.legacy.is_some(),
        };
        Ok(Self {
            rules,
            orders: SuiteOrders::new(&settings.suites),
            chacha20: Arc::clone(&settings.chacha20),
            groups: if settings.asks_for_best_group { Vec::new() } else { settings.groups.clone() },
            ja4: settings.ja4,
            family: settings.session_family().to_vec(),
            certificate_store: CertificateStore::new(settings)?,
        })
    }

    pub(crate) fn certificate_store(&self) -> &Arc<CertificateStore> {
        &self.certificate_store
    }

    /// Gives the connection its certificate, groups, suites and session ID context, or suspends the handshake.
    pub(crate) fn select(&self, mut hello: ClientHello<'_>) -> Result<(), SelectCertError> {
        ssl::end_client_hello(hello.ssl_mut());
        if hello::has_obsolete_version(hello.as_bytes()) {
            // The library accepts such a hello if an extension offers a newer version.
            if let Some(progress) = signing::progress(hello.ssl()) {
                progress.refuse_version();
            }
            return Ok(());
        }
        if let Some(progress) = signing::progress(hello.ssl()).filter(|_| self.ja4) {
            progress.note_ja4(hello.as_bytes(), ssl::is_quic(hello.ssl()));
        }
        let find = |number: u16| hello.get_extension(number.into());
        if has_faulty_parameters(&hello) {
            // The transport closes the connection.
            return Err(SelectCertError::RETRY);
        }
        let name = hello.servername(NameType::HOST_NAME);
        let verifiable = Verifiable::of(self.orders.signed_by(hello.ciphers()), find, self.rules);
        let is_challenge =
            !ssl::is_quic(hello.ssl()) && self.certificate_store.is_challenged(find(ALPN), name);
        let chosen = match is_challenge {
            true => self.certificate_store.answer(name),
            false => self.certificate_store.get_or_load(name, verifiable),
        };
        let context = match chosen {
            Chosen::Ready(context) => context,
            Chosen::Pending(signal) => {
                let progress = signing::progress(hello.ssl()).ok_or(SelectCertError::ERROR)?;
                progress.set_pending_load(signal);
                return Err(SelectCertError::RETRY);
            }
            Chosen::None => return Err(SelectCertError::ERROR),
        };
        let waits = signing::progress(hello.ssl()).is_some_and(|progress| !progress.has_permit());
        if waits && !hello::offers_resumption(hello.as_bytes(), find) {
            // This handshake will most likely sign: its key exchange waits for the permit too.
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
        let sessions = sessions_of(&self.family, &self.certificate_store, name);
        let ssl = hello.ssl_mut();
        let prepare = || {
            ssl.set_ssl_context(&context)?;
            if is_challenge {
                challenges::restrict(ssl)?;
            } else {
                ssl::set_session_context(ssl, &sessions)?;
            }
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

/// Whether a client of QUIC sends faulty transport parameters. If it sends none, the library ends the handshake.
fn has_faulty_parameters(hello: &ClientHello<'_>) -> bool {
    let progress = signing::progress(hello.ssl()).filter(|_| ssl::is_quic(hello.ssl()));
    let list = hello.get_extension(hello::extension::TRANSPORT_PARAMETERS.into());
    progress.zip(list).is_some_and(|(progress, list)| !progress.parameters().passes(list))
}

/// The session ID context of a connection: the rules for client certificates, the requested server name, and whether a
/// certificate covers that name. Machines that share ticket keys may have different certificates, and a resumed session
/// shows none (RFC 6066 §3).
fn sessions_of(family: &[u8], certificate_store: &CertificateStore, name: Option<&str>) -> [u8; 32] {
    let name = name.unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    sha256(&[family, name.as_bytes(), &[u8::from(certificate_store.covers(&name))]])
}

/// Keeps the offered ticket, because the library does not report why it refuses one.
fn keep_offered_ticket(hello: &ClientHello<'_>) {
    let of_tls13 = hello.get_extension(ExtensionType::PRE_SHARED_KEY);
    let ticket = hello::offered_ticket(of_tls13, hello.get_extension(ExtensionType::SESSION_TICKET));
    if let Some(notes) = ssl::notes(hello.ssl()) {
        notes.tickets().set_offered(ticket);
    }
}
