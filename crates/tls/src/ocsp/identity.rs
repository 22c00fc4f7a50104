//! Identity of a certificate in OCSP, and its responder.

use std::fmt;

use boring::hash::{MessageDigest, hash};
use boring::pkey::{PKey, Public};
use boring::x509::{X509, X509Ref};
use x509_cert::der::asn1::{Null, ObjectIdentifier, OctetString};
use x509_cert::der::{Decode, Encode};
use x509_cert::spki::AlgorithmIdentifierOwned;
use x509_ocsp::{CertId, OcspRequest, Request, TbsRequest, Version};

use crate::certificate::Certificate;

const SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");
const SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
/// The extension by which a certificate demands a staple (RFC 7633).
const TLS_FEATURE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.24");
/// INTEGER 5: `status_request` in a list of features.
const STATUS_REQUEST: &[u8] = &[0x02, 0x01, 0x05];

/// A certificate as OCSP sees it.
pub struct OcspIdentity {
    parsed: x509_cert::Certificate,
    issuer: Option<Issuer>,
    /// URL of the OCSP responder; only `http:` URLs.
    pub responder: Option<String>,
    /// Whether clients refuse it without a staple (RFC 7633).
    pub must_staple: bool,
}

/// The issuer of a certificate.
pub(super) struct Issuer {
    pub(super) key: PKey<Public>,
    /// The bits that responders hash.
    pub(super) key_bits: Vec<u8>,
}

/// The certificate cannot be parsed, so no response can be checked against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoIdentity;

impl fmt::Debug for OcspIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OcspIdentity").field("serial", &self.parsed.tbs_certificate.serial_number).finish()
    }
}

impl OcspIdentity {
    /// Reads it from a certificate with its chain.
    ///
    /// # Errors
    /// If the certificate cannot be parsed.
    pub fn of_certificate(certificate: &Certificate) -> Result<Self, NoIdentity> {
        Self::of(certificate.leaf(), certificate.issuer())
    }

    /// Reads it from a leaf and, if the chain has it, its issuer.
    ///
    /// # Errors
    /// When the certificate cannot be parsed again.
    pub fn of(leaf: &X509, issuer: Option<&X509>) -> Result<Self, NoIdentity> {
        let parsed = parse(leaf).ok_or(NoIdentity)?;
        let issuer = issuer.and_then(|issuer| {
            let key_bits = key_bits(&parse(issuer)?).to_vec();
            Some(Issuer { key: issuer.public_key().ok()?, key_bits })
        });
        let responders = leaf.ocsp_responders().ok();
        let responder = responders
            .iter()
            .flatten()
            .map(|url| url.to_string())
            .find(|url| url.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://")));
        let extensions = parsed.tbs_certificate.extensions.as_deref().unwrap_or_default();
        let must_staple = extensions.iter().any(|extension| {
            extension.extn_id == TLS_FEATURE
                && extension.extn_value.as_bytes().windows(3).any(|window| window == STATUS_REQUEST)
        });
        Ok(Self { parsed, issuer, responder, must_staple })
    }

    /// Whether the chain contains the issuer, which requests and checks need.
    pub fn has_issuer(&self) -> bool {
        self.issuer.is_some()
    }

    /// The OCSP request. SHA-1 only identifies here (RFC 5019 §2.1.1).
    pub fn request(&self) -> Option<Vec<u8>> {
        let request = Request { req_cert: self.id(SHA1)?, single_request_extensions: None };
        let question = TbsRequest {
            version: Version::V1,
            requestor_name: None,
            request_list: vec![request],
            request_extensions: None,
        };
        OcspRequest { tbs_request: question, optional_signature: None }.to_der().ok()
    }

    pub(super) fn issuer(&self) -> Option<&Issuer> {
        self.issuer.as_ref()
    }

    /// Whether an identifier of a response names this certificate.
    pub(super) fn is_named_by(&self, other: &CertId) -> bool {
        self.id(other.hash_algorithm.oid).is_some_and(|ours| {
            ours.serial_number == other.serial_number
                && ours.issuer_name_hash == other.issuer_name_hash
                && ours.issuer_key_hash == other.issuer_key_hash
        })
    }

    fn id(&self, algorithm: ObjectIdentifier) -> Option<CertId> {
        let digest = match algorithm {
            SHA1 => MessageDigest::sha1(),
            SHA256 => MessageDigest::sha256(),
            _ => return None,
        };
        let hashed = |bytes: &[u8]| OctetString::new(hash(digest, bytes).ok()?.to_vec()).ok();
        let certificate = &self.parsed.tbs_certificate;
        Some(CertId {
            hash_algorithm: AlgorithmIdentifierOwned { oid: algorithm, parameters: Some(Null.into()) },
            issuer_name_hash: hashed(&certificate.issuer.to_der().ok()?)?,
            issuer_key_hash: hashed(&self.issuer.as_ref()?.key_bits)?,
            serial_number: certificate.serial_number.clone(),
        })
    }
}

pub(super) fn parse(certificate: &X509Ref) -> Option<x509_cert::Certificate> {
    x509_cert::Certificate::from_der(&certificate.to_der().ok()?).ok()
}

pub(super) fn key_bits(certificate: &x509_cert::Certificate) -> &[u8] {
    certificate.tbs_certificate.subject_public_key_info.subject_public_key.raw_bytes()
}
