//! Client certificates: whether they are required, which authorities are trusted, and the name of the client.
//!
//! The library checks the chain within the handshake. A full handshake of TLS 1.3 ends with the client's Finished, after
//! its certificate, and early data is accepted in resumed sessions only, whose client was verified. So no request of an
//! unverified client is read.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use boring::error::ErrorStack;
use boring::nid::Nid;
use boring::ssl::{SslContextBuilder, SslRef, SslVerifyMode};
use boring::stack::Stack;
use boring::x509::store::{X509Store, X509StoreBuilder};
use boring::x509::{X509, X509Name, X509Ref, X509StoreContext, X509StoreContextRef};
use penstock_sys::digest::sha256;
use penstock_sys::ssl::{moment, refuse_revoked, shorten_session};

/// Whether clients need a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificateMode {
    /// No, but a certificate that is sent must be valid.
    Optional,
    /// Yes.
    Required,
}

impl ClientCertificateMode {
    /// The one of that name: `optional` or `required`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "optional" => Some(Self::Optional),
            "required" => Some(Self::Required),
            _ => None,
        }
    }
}

/// Limits on client certificates.
#[derive(Clone, Copy, Debug)]
pub struct ClientCertificateLimits {
    /// Intermediate certificates between a client's and the authority's.
    pub depth: u32,
    /// Bytes of a client's name.
    pub name_bytes: usize,
    /// Bytes of names of authorities sent to clients; a longer list is not sent, and clients choose by themselves.
    pub authority_names_bytes: usize,
}

/// Rules for client certificates.
#[derive(Clone)]
pub struct ClientCertificates(Arc<Rules>);

struct Rules {
    authorities: Vec<X509>,
    trusted: X509Store,
    mode: ClientCertificateMode,
    limits: ClientCertificateLimits,
    sessions: [u8; 32],
    lists_end: Option<SystemTime>,
}

/// Why a file cannot be the authorities of clients.
#[derive(Debug)]
pub enum AuthoritiesError {
    /// There is no certificate in it.
    Empty,
    /// A certificate in it cannot be read.
    Malformed,
}

/// Why a file cannot be lists of revoked certificates.
#[derive(Debug)]
pub enum RevocationsError {
    /// There is no list in it.
    Empty,
    /// A list in it cannot be read.
    Malformed,
}

impl fmt::Debug for ClientCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rules { authorities, mode, .. } = &*self.0;
        f.debug_struct("ClientCertificates")
            .field("authorities", &authorities.len())
            .field("mode", mode)
            .finish_non_exhaustive()
    }
}

impl ClientCertificates {
    /// Trusts the authorities of a PEM file only.
    ///
    /// # Errors
    /// The fault of the file.
    pub fn new(
        authorities_pem: &[u8],
        mode: ClientCertificateMode,
        limits: ClientCertificateLimits,
    ) -> Result<Self, AuthoritiesError> {
        let authorities = X509::stack_from_pem(authorities_pem).map_err(|_| AuthoritiesError::Malformed)?;
        if authorities.is_empty() {
            return Err(AuthoritiesError::Empty);
        }
        let trusted = builder_of(&authorities).map_err(|_| AuthoritiesError::Malformed)?.build();
        let rule: &[u8] = match mode {
            ClientCertificateMode::Optional => b"optional",
            ClientCertificateMode::Required => b"required",
        };
        let sessions = sha256(&[b"penstock client certificates", rule, authorities_pem]);
        Ok(Self(Arc::new(Rules { authorities, trusted, mode, limits, sessions, lists_end: None })))
    }

    /// Whether a handshake without a certificate fails.
    pub fn are_required(&self) -> bool {
        self.0.mode == ClientCertificateMode::Required
    }

    /// Adds the revocation lists of a PEM file (CRLs, RFC 5280 §5). Every authority of a chain then needs a list that is
    /// not past its `nextUpdate`.
    ///
    /// # Errors
    /// The fault of the file.
    pub fn refusing_revoked(&self, lists_pem: &[u8]) -> Result<Self, RevocationsError> {
        let rules = &*self.0;
        let mut store = builder_of(&rules.authorities).map_err(|_| RevocationsError::Malformed)?;
        let lists = refuse_revoked(&mut store, lists_pem).map_err(|_| RevocationsError::Malformed)?;
        if lists.count == 0 {
            return Err(RevocationsError::Empty);
        }
        Ok(Self(Arc::new(Rules {
            authorities: rules.authorities.clone(),
            trusted: store.build(),
            mode: rules.mode,
            limits: rules.limits,
            sessions: sha256(&[b"penstock revoked clients", &rules.sessions, lists_pem]),
            lists_end: lists.next_update,
        })))
    }

    /// The earliest `nextUpdate` of the lists; afterwards the clients of that authority are refused.
    pub fn lists_end(&self) -> Option<SystemTime> {
        self.0.lists_end
    }

    /// Identifies these rules in sessions: a session under other rules is not resumed.
    pub(crate) fn session_id_context(&self) -> &[u8] {
        &self.0.sessions
    }

    pub(crate) fn ask(&self, builder: &mut SslContextBuilder) -> Result<(), ErrorStack> {
        let rules = &*self.0;
        let mode = match rules.mode {
            ClientCertificateMode::Optional => SslVerifyMode::PEER,
            ClientCertificateMode::Required => SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT,
        };
        let lists_end = rules.lists_end;
        builder.set_verify_callback(mode, move |is_valid, context| {
            if is_valid {
                end_session_with_certificate(context, lists_end);
            }
            is_valid
        });
        builder.set_verify_depth(rules.limits.depth);
        builder.set_cert_store_ref(&rules.trusted);
        let mut names = Stack::new()?;
        let mut bytes = 0;
        for authority in &rules.authorities {
            let name = authority.subject_name().to_der()?;
            bytes += name.len();
            names.push(X509Name::from_der(&name)?)?;
        }
        if bytes <= rules.limits.authority_names_bytes {
            builder.set_client_ca_list(names);
        }
        Ok(())
    }

    /// The name in the client's certificate, of this handshake or of the original one of the session.
    pub(crate) fn name_of_client(&self, connection: &SslRef) -> Option<String> {
        let certificate = connection.peer_certificate()?;
        let name = name_in(&certificate);
        Some(bounded(&name, self.0.limits.name_bytes))
    }
}

/// Ends the session with the validity of the certificate that has just been verified, or that of the revocation lists if it
/// ends sooner, because a resumed session shows no certificate. Called for each certificate of the chain.
fn end_session_with_certificate(context: &X509StoreContextRef, lists_end: Option<SystemTime>) {
    let connection = X509StoreContext::ssl_idx().ok().and_then(|index| context.ex_data(index));
    let end = context.current_cert().and_then(|certificate| moment(certificate.not_after()));
    let end = end.into_iter().chain(lists_end).min();
    if let (Some(connection), Some(end)) = (connection, end) {
        shorten_session(connection, end.duration_since(SystemTime::now()).unwrap_or_default());
    }
}

fn builder_of(authorities: &[X509]) -> Result<X509StoreBuilder, ErrorStack> {
    let mut store = X509StoreBuilder::new()?;
    for authority in authorities {
        store.add_cert(authority)?;
    }
    Ok(store)
}

/// The common name, else the first alternative name; `unnamed` if there is neither.
fn name_in(certificate: &X509Ref) -> String {
    let common = certificate.subject_name().entries_by_nid(Nid::COMMONNAME).next();
    if let Some(text) = common.and_then(|entry| entry.data().as_utf8().ok()).filter(|text| !text.is_empty()) {
        return text.to_string();
    }
    let others = certificate.subject_alt_names();
    let mut others = others.iter().flatten().filter_map(|name| {
        name.dnsname().or_else(|| name.email()).or_else(|| name.uri()).filter(|text| !text.is_empty())
    });
    others.next().unwrap_or("unnamed").to_owned()
}

/// Truncates to `bytes` and replaces control characters.
fn bounded(name: &str, bytes: usize) -> String {
    let mut shown = String::new();
    for character in name.chars() {
        let character = if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
        if shown.len() + character.len_utf8() > bytes {
            break;
        }
        shown.push(character);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_between_characters_and_hold_no_control_characters() {
        assert_eq!(bounded("encoder 7", 64), "encoder 7");
        assert_eq!(bounded("a\n\u{1b}[2J", 64), "a\u{fffd}\u{fffd}[2J");
        assert_eq!(bounded("äöü", 5), "äö");
        assert_eq!(bounded("\n\n", 5), "\u{fffd}");
    }
}
