//! Responses of an authority made for this, each wrong in one way.

use std::time::{Duration, SystemTime};

use boring::hash::{MessageDigest, hash};
use boring::pkey::PKey;
use boring::sign::Signer;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SerialNumber,
};
use x509_cert::der::asn1::{BitString, Null, ObjectIdentifier, OctetString};
use x509_cert::der::{Decode, Encode};
use x509_cert::spki::AlgorithmIdentifierOwned;
use x509_ocsp::{
    BasicOcspResponse, CertStatus, OcspGeneralizedTime, OcspRequest, OcspResponse, ResponderId, ResponseData,
    RevokedInfo, SingleResponse, Version,
};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// An authority, a leaf of it, and delegates that may and may not speak for it.
struct Authority {
    authority: Party,
    stranger: Party,
    delegate: Party,
    no_delegate: Party,
    former_delegate: Party,
    identity: OcspIdentity,
    other: OcspIdentity,
    now: SystemTime,
}

struct Party {
    key: KeyPair,
    certificate: x509_cert::Certificate,
}

fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

fn leaf(issuer: &Issuer<'_, &KeyPair>, ca: &boring::x509::X509, serial: u64) -> OcspIdentity {
    let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    params.serial_number = Some(SerialNumber::from(serial));
    let made = params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap();
    let parsed = boring::x509::X509::from_der(made.der()).unwrap();
    OcspIdentity::of(&parsed, Some(ca)).unwrap()
}

fn party(issuer: &Issuer<'_, &KeyPair>, purposes: Vec<ExtendedKeyUsagePurpose>, end: i32) -> Party {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("responder {purposes:?} {end}"));
    params.extended_key_usages = purposes;
    params.not_after = rcgen::date_time_ymd(end, 1, 1);
    let made = params.signed_by(&key, issuer).unwrap();
    Party { key, certificate: x509_cert::Certificate::from_der(made.der()).unwrap() }
}

impl Authority {
    fn new() -> Self {
        let root = |key: &KeyPair| ca_params().self_signed(key).unwrap();
        let (key, other_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let (made, strange) = (root(&key), root(&other_key));
        let ca = boring::x509::X509::from_der(made.der()).unwrap();
        let params = ca_params();
        let issuer = Issuer::from_params(&params, &key);
        let signing = vec![ExtendedKeyUsagePurpose::OcspSigning];
        Self {
            delegate: party(&issuer, signing.clone(), 2090),
            no_delegate: party(&issuer, vec![ExtendedKeyUsagePurpose::ServerAuth], 2090),
            former_delegate: party(&issuer, signing, 2001),
            identity: leaf(&issuer, &ca, 7),
            other: leaf(&issuer, &ca, 8),
            authority: Party {
                certificate: x509_cert::Certificate::from_der(made.der()).unwrap(),
                key: KeyPair::from_pem(&key.serialize_pem()).unwrap(),
            },
            stranger: Party {
                certificate: x509_cert::Certificate::from_der(strange.der()).unwrap(),
                key: other_key,
            },
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000),
        }
    }

    fn answer(&self) -> TestResponse<'_> {
        TestResponse {
            about: &self.identity,
            status: CertStatus::good(),
            this_update: self.now - HOUR,
            next_update: Some(self.now + HOUR),
            signer: &self.authority,
            certificates: None,
        }
    }

    fn check(&self, answer: &TestResponse<'_>) -> Result<Staple, StapleFault> {
        check(&answer.der(), &self.identity, self.now)
    }
}

struct TestResponse<'w> {
    about: &'w OcspIdentity,
    status: CertStatus,
    this_update: SystemTime,
    next_update: Option<SystemTime>,
    signer: &'w Party,
    certificates: Option<&'w Party>,
}

fn time(time: SystemTime) -> OcspGeneralizedTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    x509_cert::der::DateTime::from_unix_duration(since).unwrap().into()
}

impl TestResponse<'_> {
    fn der(&self) -> Vec<u8> {
        let question = OcspRequest::from_der(&self.about.request().unwrap()).unwrap();
        let named = &self.signer.certificate;
        let key_bits = identity::key_bits(named);
        let key_hash = hash(MessageDigest::sha1(), key_bits).unwrap();
        let data = ResponseData {
            version: Version::V1,
            responder_id: ResponderId::ByKey(OctetString::new(key_hash.to_vec()).unwrap()),
            produced_at: time(self.this_update),
            responses: vec![SingleResponse {
                cert_id: question.tbs_request.request_list[0].req_cert.clone(),
                cert_status: self.status,
                this_update: time(self.this_update),
                next_update: self.next_update.map(time),
                single_extensions: None,
            }],
            response_extensions: None,
        };
        let key = PKey::private_key_from_pem(self.signer.key.serialize_pem().as_bytes()).unwrap();
        let mut signer = Signer::new(MessageDigest::sha256(), &key).unwrap();
        signer.update(&data.to_der().unwrap()).unwrap();
        let response = BasicOcspResponse {
            tbs_response_data: data,
            signature_algorithm: AlgorithmIdentifierOwned {
                oid: ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2"),
                parameters: None,
            },
            signature: BitString::from_bytes(&signer.sign_to_vec().unwrap()).unwrap(),
            certs: self.certificates.map(|party| vec![party.certificate.clone()]),
        };
        OcspResponse::successful(response).unwrap().to_der().unwrap()
    }
}

#[test]
fn a_current_response_signed_by_the_issuer_is_a_staple() {
    let world = Authority::new();
    let answer = world.answer().der();
    let staple = check(&answer, &world.identity, world.now).unwrap();
    assert_eq!((staple.this_update, staple.next_update), (world.now - HOUR, world.now + HOUR));
    assert_eq!(staple.response, answer);
}

#[test]
fn a_response_about_another_certificate_is_refused() {
    let world = Authority::new();
    let answer = TestResponse { about: &world.other, ..world.answer() };
    assert_eq!(world.check(&answer), Err(StapleFault::WrongCertificate));
}

#[test]
fn time_decides_at_both_ends() {
    let world = Authority::new();
    let check = |from: SystemTime, to| {
        world.check(&TestResponse { this_update: from, next_update: to, ..world.answer() }).map(|_| ())
    };
    let now = world.now;
    let second = Duration::from_secs(1);
    assert_eq!(check(now - 2 * HOUR, Some(now)), Err(StapleFault::Stale));
    assert_eq!(check(now - 2 * HOUR, Some(now + second)), Ok(()));
    assert_eq!(check(now + 300 * second, Some(now + HOUR)), Ok(()), "clocks differ a little");
    assert_eq!(check(now + 301 * second, Some(now + HOUR)), Err(StapleFault::Early));
    // Without an end it is believed for a day.
    assert_eq!(check(now - 23 * HOUR, None), Ok(()));
    assert_eq!(check(now - 24 * HOUR, None), Err(StapleFault::Stale));
}

#[test]
fn only_the_issuer_and_its_delegates_are_believed() {
    let world = Authority::new();
    let signed_by = |party| TestResponse { signer: party, certificates: Some(party), ..world.answer() };
    assert_eq!(world.check(&signed_by(&world.delegate)).map(|_| ()), Ok(()));
    assert_eq!(
        world.check(&signed_by(&world.no_delegate)),
        Err(StapleFault::WrongResponder),
        "no such purpose"
    );
    assert_eq!(world.check(&signed_by(&world.former_delegate)), Err(StapleFault::WrongResponder), "expired");
    assert_eq!(world.check(&signed_by(&world.stranger)), Err(StapleFault::WrongResponder), "another issuer");
    let without_certificate = TestResponse { signer: &world.delegate, ..world.answer() };
    assert_eq!(world.check(&without_certificate), Err(StapleFault::BadSignature));
}

#[test]
fn a_flipped_bit_anywhere_is_never_a_staple() {
    let world = Authority::new();
    let answer = world.answer().der();
    for place in 0..answer.len() {
        let mut bent = answer.clone();
        bent[place] ^= 1;
        assert!(check(&bent, &world.identity, world.now).is_err(), "byte {place}");
    }
    for length in 0..answer.len() {
        assert!(check(&answer[..length], &world.identity, world.now).is_err(), "cut at {length}");
    }
}

#[test]
fn bad_news_is_not_stapled() {
    let world = Authority::new();
    let revoked = RevokedInfo { revocation_time: time(world.now - HOUR), revocation_reason: None };
    let answer = TestResponse { status: CertStatus::Revoked(revoked), ..world.answer() };
    assert_eq!(world.check(&answer), Err(StapleFault::Revoked));
    let answer = TestResponse { status: CertStatus::Unknown(Null), ..world.answer() };
    assert_eq!(world.check(&answer), Err(StapleFault::Unknown));
    let refused = OcspResponse::try_later().to_der().unwrap();
    assert_eq!(check(&refused, &world.identity, world.now), Err(StapleFault::Refused));
}

#[test]
fn a_certificate_loaded_again_keeps_its_staple_until_it_is_stale() {
    let key = KeyPair::generate().unwrap();
    let made = CertificateParams::new(vec!["a.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    let load = || Certificate::from_pem(made.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    let staples = Staples::default();
    let now = SystemTime::UNIX_EPOCH + HOUR;
    let staple = Staple { response: vec![1], this_update: now - HOUR, next_update: now + HOUR };
    staples.of(&load()).replace(Some(staple.clone()));
    assert_eq!(staples.of(&load()).current(now).as_deref(), Some(&staple));
    assert_eq!(staples.of(&load()).current(now + HOUR), None);
    staples.prune(now);
    assert_eq!(staples.all().len(), 1, "it may be wanted again");
    staples.prune(now + HOUR);
    assert_eq!(staples.all().len(), 0, "it is unused and stale");
}
