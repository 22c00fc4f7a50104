//! Parsing and checking of OCSP responses (RFC 6960 §3.2).

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use boring::hash::{MessageDigest, hash};
use boring::pkey::{PKeyRef, Public};
use boring::sign::Verifier;
use boring::x509::X509;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Encode, Reader, SliceReader};
use x509_cert::ext::pkix::ExtendedKeyUsage;
use x509_ocsp::{
    BasicOcspResponse, CertStatus, OcspGeneralizedTime, OcspResponse, OcspResponseStatus, ResponderId,
};

use super::identity::{Issuer, OcspIdentity, key_bits};
use super::staple::Staple;

const BASIC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1.1");
const OCSP_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.9");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// How far the responder's clock may be ahead of ours.
const CLOCK_SKEW: Duration = Duration::from_secs(5 * 60);

/// How long a response without `nextUpdate` is believed, as Firefox does.
const UNLIMITED: Duration = Duration::from_secs(24 * 3600);

/// Why a response is not stapled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StapleFault {
    /// It is not an OCSP response.
    Malformed,
    /// The responder says that it cannot or will not answer.
    Refused,
    /// It is for another certificate.
    WrongCertificate,
    /// Its signature does not verify.
    BadSignature,
    /// Its signer is not authorised by the issuer.
    WrongResponder,
    /// It is not valid yet.
    Early,
    /// It has expired.
    Stale,
    /// The certificate is revoked.
    Revoked,
    /// The responder does not know the certificate.
    Unknown,
}

impl fmt::Display for StapleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "it is not an OCSP response",
            Self::Refused => "the responder refused to answer",
            Self::WrongCertificate => "it speaks of another certificate",
            Self::BadSignature => "its signature does not verify",
            Self::WrongResponder => "its signer is not authorised by the issuer",
            Self::Early => "it is not valid yet",
            Self::Stale => "it is stale",
            Self::Revoked => "it says that the certificate is revoked",
            Self::Unknown => "it says that the responder does not know the certificate",
        })
    }
}

/// Checks a response in DER: for this certificate, from an authorised signer, valid now, with status good.
///
/// # Errors
/// Why a client would reject it.
pub fn check(response: &[u8], identity: &OcspIdentity, now: SystemTime) -> Result<Staple, StapleFault> {
    let outer = OcspResponse::from_der(response).map_err(|_| StapleFault::Malformed)?;
    if outer.response_status != OcspResponseStatus::Successful {
        return Err(StapleFault::Refused);
    }
    let inner =
        outer.response_bytes.filter(|bytes| bytes.response_type == BASIC).ok_or(StapleFault::Malformed)?;
    let inner = inner.response.as_bytes();
    let basic = BasicOcspResponse::from_der(inner).map_err(|_| StapleFault::Malformed)?;
    let answers = &basic.tbs_response_data.responses;
    let answer =
        answers.iter().find(|one| identity.is_named_by(&one.cert_id)).ok_or(StapleFault::WrongCertificate)?;
    let this_update = time_of(&answer.this_update);
    let next_update = answer.next_update.as_ref().map_or(this_update + UNLIMITED, time_of);
    if this_update > now + CLOCK_SKEW {
        return Err(StapleFault::Early);
    }
    if next_update <= now {
        return Err(StapleFault::Stale);
    }
    let issuer = identity.issuer().ok_or(StapleFault::WrongResponder)?;
    let signed = signed_part(inner).ok_or(StapleFault::Malformed)?;
    verify(signed, &basic, issuer, now)?;
    // The signature is valid from here on.
    match answer.cert_status {
        CertStatus::Good(_) => Ok(Staple { response: response.to_vec(), this_update, next_update }),
        CertStatus::Revoked(_) => Err(StapleFault::Revoked),
        CertStatus::Unknown(_) => Err(StapleFault::Unknown),
    }
}

fn time_of(time: &OcspGeneralizedTime) -> SystemTime {
    UNIX_EPOCH + time.0.to_unix_duration()
}

/// The signed bytes as received: another encoding could differ from that of the responder.
fn signed_part(basic: &[u8]) -> Option<&[u8]> {
    let mut reader = SliceReader::new(basic).ok()?;
    let header = x509_cert::der::Header::decode(&mut reader).ok()?;
    let body = reader.read_slice(header.length).ok()?;
    SliceReader::new(body).ok()?.tlv_bytes().ok()
}

/// Checks the signature of the issuer or of a responder with a certificate of the issuer (RFC 6960 §4.2.2.2).
fn verify(
    signed: &[u8],
    basic: &BasicOcspResponse,
    issuer: &Issuer,
    now: SystemTime,
) -> Result<(), StapleFault> {
    let responder = &basic.tbs_response_data.responder_id;
    if is_signed_by(&issuer.key, signed, basic) {
        return Ok(());
    }
    let certificates = basic.certs.as_deref().unwrap_or_default();
    let delegate =
        certificates.iter().find(|one| is_named(one, responder)).ok_or(StapleFault::BadSignature)?;
    let key = delegated_key(delegate, issuer, now).ok_or(StapleFault::WrongResponder)?;
    if is_signed_by(&key, signed, basic) { Ok(()) } else { Err(StapleFault::BadSignature) }
}

fn is_named(certificate: &x509_cert::Certificate, responder: &ResponderId) -> bool {
    match responder {
        ResponderId::ByName(name) => certificate.tbs_certificate.subject == *name,
        ResponderId::ByKey(digest) => hash(MessageDigest::sha1(), key_bits(certificate))
            .is_ok_and(|ours| ours.as_ref() == digest.as_bytes()),
    }
}

/// The key of a delegate, if the issuer signed its certificate for this very purpose and it is valid now.
fn delegated_key(
    delegate: &x509_cert::Certificate,
    issuer: &Issuer,
    now: SystemTime,
) -> Option<boring::pkey::PKey<Public>> {
    let fields = &delegate.tbs_certificate;
    let (_, usage) = fields.get::<ExtendedKeyUsage>().ok()??;
    let valid_from = UNIX_EPOCH + fields.validity.not_before.to_unix_duration();
    let valid_to = UNIX_EPOCH + fields.validity.not_after.to_unix_duration();
    let certificate = X509::from_der(&delegate.to_der().ok()?).ok()?;
    let may = usage.0.contains(&OCSP_SIGNING)
        && valid_from <= now + CLOCK_SKEW
        && now <= valid_to
        && certificate.verify(&issuer.key).ok()?;
    if may { certificate.public_key().ok() } else { None }
}

fn is_signed_by(key: &PKeyRef<Public>, signed: &[u8], basic: &BasicOcspResponse) -> bool {
    // `None` if it does not end with a byte.
    let Some(signature) = basic.signature.as_bytes() else { return false };
    let verified = match digest_of(basic.signature_algorithm.oid) {
        Some(digest) => Verifier::new(digest, key)
            .and_then(|mut verifier| verifier.update(signed).and_then(|()| verifier.verify(signature))),
        None if basic.signature_algorithm.oid == ED25519 => Verifier::new_without_digest(key)
            .and_then(|mut verifier| verifier.verify_oneshot(signature, signed)),
        None => return false,
    };
    verified.unwrap_or(false)
}

/// RSA with PKCS #1 padding and ECDSA; SHA-1 is broken for signatures.
fn digest_of(algorithm: ObjectIdentifier) -> Option<MessageDigest> {
    match algorithm.to_string().as_str() {
        "1.2.840.113549.1.1.11" | "1.2.840.10045.4.3.2" => Some(MessageDigest::sha256()),
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => Some(MessageDigest::sha384()),
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => Some(MessageDigest::sha512()),
        _ => None,
    }
}
