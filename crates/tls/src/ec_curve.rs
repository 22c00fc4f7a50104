//! Elliptic curves as hardware modules describe them: parameters, points and signatures of PKCS #11 in those of TLS.

use boring::bn::{BigNum, BigNumContext};
use boring::ec::{EcGroup, EcKey, EcPoint};
use boring::ecdsa::EcdsaSig;
use boring::nid::Nid;
use boring::pkey::PKey;

use crate::remote_key::PublicKey;

/// A curve for ECDSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcCurve {
    /// NIST P-256.
    P256,
    /// NIST P-384.
    P384,
    /// NIST P-521.
    P521,
}

impl EcCurve {
    /// The curve of `CKA_EC_PARAMS`: an object identifier in DER (RFC 5480 section 2.1.1.1). `None` for others.
    pub fn of_parameters(der: &[u8]) -> Option<Self> {
        match der {
            b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07" => Some(Self::P256),
            b"\x06\x05\x2b\x81\x04\x00\x22" => Some(Self::P384),
            b"\x06\x05\x2b\x81\x04\x00\x23" => Some(Self::P521),
            _ => None,
        }
    }

    /// Length in bytes of a coordinate, and of each half of a raw signature.
    pub fn bytes(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    /// The public key of `CKA_EC_POINT`: an uncompressed point, with or without the OCTET STRING around it. `None` if it is
    /// not on the curve.
    pub fn public_key(self, point: &[u8]) -> Option<PublicKey> {
        let point = &point[point.len().checked_sub(2 * self.bytes() + 1)?..];
        let curve = match self {
            Self::P256 => Nid::X9_62_PRIME256V1,
            Self::P384 => Nid::SECP384R1,
            Self::P521 => Nid::SECP521R1,
        };
        let group = EcGroup::from_curve_name(curve).ok()?;
        let point = EcPoint::from_bytes(&group, point, &mut *BigNumContext::new().ok()?).ok()?;
        let key = EcKey::from_public_key(&group, &point).ok()?;
        Some(PublicKey::new(PKey::from_ec_key(key).ok()?))
    }
}

/// Turns a signature of `CKM_ECDSA`, r and s of equal length, into DER (RFC 3279 section 2.2.3). `None` if its length is odd.
pub fn ecdsa_der(raw: &[u8]) -> Option<Vec<u8>> {
    if raw.is_empty() || !raw.len().is_multiple_of(2) {
        return None;
    }
    let (r, s) = raw.split_at(raw.len() / 2);
    let number = |bytes| BigNum::from_slice(bytes).ok();
    EcdsaSig::from_private_components(number(r)?, number(s)?).ok()?.to_der().ok()
}

#[cfg(test)]
mod tests {
    use boring::ec::PointConversionForm;

    use super::*;
    use crate::remote_key::KeyId;
    use crate::signature_kind::{Hash, SignatureKind};

    #[test]
    fn raw_points_and_signatures_are_those_of_the_library() {
        for (curve, name, parameters) in [
            (EcCurve::P256, Nid::X9_62_PRIME256V1, &b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"[..]),
            (EcCurve::P384, Nid::SECP384R1, b"\x06\x05\x2b\x81\x04\x00\x22"),
            (EcCurve::P521, Nid::SECP521R1, b"\x06\x05\x2b\x81\x04\x00\x23"),
        ] {
            assert_eq!(EcCurve::of_parameters(parameters), Some(curve));
            let group = EcGroup::from_curve_name(name).unwrap();
            let key = EcKey::generate(&group).unwrap();
            let mut context = BigNumContext::new().unwrap();
            let point = key.public_key().to_bytes(&group, PointConversionForm::UNCOMPRESSED, &mut context);
            let point = point.unwrap();
            let length = u8::try_from(point.len()).unwrap();
            let wrapped = match length {
                128.. => [&[4, 0x81, length], &point[..]].concat(),
                _ => [&[4, length], &point[..]].concat(),
            };
            let kind = SignatureKind::Ecdsa(Hash::Sha256);
            let signature = EcdsaSig::sign(&kind.digest(b"message").unwrap(), &key).unwrap();
            let half = i32::try_from(curve.bytes()).unwrap();
            let padded = |number: &boring::bn::BigNumRef| {
                let bytes = number.to_vec();
                [vec![0; usize::try_from(half).unwrap() - bytes.len()], bytes].concat()
            };
            let raw = [padded(signature.r()), padded(signature.s())].concat();
            assert_eq!(ecdsa_der(&raw).unwrap(), signature.to_der().unwrap());
            for form in [&point, &wrapped] {
                let public = curve.public_key(form).unwrap();
                assert!(public.verifies(kind, b"message", &ecdsa_der(&raw).unwrap()));
                assert_eq!(public.id(), KeyId::of(&PKey::from_ec_key(key.clone()).unwrap()));
            }
            assert!(curve.public_key(&point[1..]).is_none());
            assert!(curve.public_key(&vec![4; point.len()]).is_none(), "it is not on the curve");
        }
        assert_eq!((ecdsa_der(b""), ecdsa_der(b"odd")), (None, None));
    }
}
