//! Keys that verify JSON Web Tokens: a JWKS (RFC 7517), or one public key in PEM.
//!
//! A key is of one kind, and an algorithm fits one kind: a token cannot choose how a key is used (RFC 8725 §3.1).

use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use penstock_sys::small_file;
use serde::Deserialize;

use crate::limits;

/// How a token is signed (RFC 7518 §3.1, RFC 8037 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
    /// RSASSA-PKCS1-v1_5 with SHA-1, which no JSON Web Token may have: it has no name there.
    Rs1,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl TokenAlgorithm {
    const ALL: [(&'static str, Self); 13] = [
        ("HS256", Self::Hs256),
        ("HS384", Self::Hs384),
        ("HS512", Self::Hs512),
        ("RS256", Self::Rs256),
        ("RS384", Self::Rs384),
        ("RS512", Self::Rs512),
        ("PS256", Self::Ps256),
        ("PS384", Self::Ps384),
        ("PS512", Self::Ps512),
        ("ES256", Self::Es256),
        ("ES384", Self::Es384),
        ("EdDSA", Self::EdDsa),
        ("Ed25519", Self::EdDsa),
    ];

    /// The algorithm with this name, by which `none` is no algorithm.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }
}

/// A key, of one kind.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenKeyKind {
    /// A secret, for HMAC.
    Secret(Vec<u8>),
    /// A public key of RSA: modulus and exponent, without leading zeros.
    Rsa(Vec<u8>, Vec<u8>),
    /// A point of P-256, not compressed.
    P256(Vec<u8>),
    /// A point of P-384, not compressed.
    P384(Vec<u8>),
    /// A public key of Ed25519.
    Ed25519(Vec<u8>),
}

/// Says the kind alone.
impl fmt::Debug for TokenKeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret(_) => "Secret",
            Self::Rsa(..) => "Rsa",
            Self::P256(_) => "P256",
            Self::P384(_) => "P384",
            Self::Ed25519(_) => "Ed25519",
        })
    }
}

/// A key with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKey {
    /// The `kid` by which tokens name it.
    pub id: Option<String>,
    /// The algorithm that it is for alone.
    pub algorithm: Option<TokenAlgorithm>,
    /// The key.
    pub kind: TokenKeyKind,
}

impl TokenKey {
    /// Whether a token with this algorithm may be verified with the key.
    pub fn fits(&self, algorithm: TokenAlgorithm) -> bool {
        use TokenAlgorithm as A;
        let is_of_kind = match (&self.kind, algorithm) {
            // A secret is as long as the hash at least (RFC 7518 §3.2).
            (TokenKeyKind::Secret(secret), A::Hs256) => secret.len() >= 32,
            (TokenKeyKind::Secret(secret), A::Hs384) => secret.len() >= 48,
            (TokenKeyKind::Secret(secret), A::Hs512) => secret.len() >= 64,
            (
                TokenKeyKind::Rsa(..),
                A::Rs1 | A::Rs256 | A::Rs384 | A::Rs512 | A::Ps256 | A::Ps384 | A::Ps512,
            )
            | (TokenKeyKind::P256(_), A::Es256)
            | (TokenKeyKind::P384(_), A::Es384)
            | (TokenKeyKind::Ed25519(_), A::EdDsa) => true,
            _ => false,
        };
        is_of_kind && self.algorithm.is_none_or(|only| only == algorithm)
    }
}

/// The keys of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenKeys(Vec<TokenKey>);

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: Option<String>,
    k: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl TokenKeys {
    /// Reads a file: a JWKS, or a PEM block `PUBLIC KEY`.
    ///
    /// # Errors
    /// Why the file is neither. Says nothing of its contents.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text =
            small_file::read_text(path, limits::TOKEN_KEY_FILE_BYTES).map_err(|error| error.to_string())?;
        Self::parse(&text)
    }

    /// Reads the text of such a file.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.trim_start().starts_with('{') {
            let kind = pem_key(text).ok_or("has neither a JWKS nor a public key in PEM")?;
            check(&kind).map_err(|why| format!("has {why}"))?;
            return Ok(Self(vec![TokenKey { id: None, algorithm: None, kind }]));
        }
        let set: Jwks =
            serde_json::from_str(text).map_err(|error| format!("is no JWKS (line {})", error.line()))?;
        let mut keys = Vec::new();
        for (number, key) in set.keys.into_iter().enumerate() {
            // Keys of other kinds, and for other purposes, are passed over (RFC 7517 §5).
            if let Some(key) = key.read().map_err(|why| format!("has in key {} {why}", number + 1))? {
                keys.push(key);
            }
        }
        if keys.is_empty() || keys.len() > limits::TOKEN_KEYS {
            return Err(format!("has {} usable keys; 1 to {} are possible", keys.len(), limits::TOKEN_KEYS));
        }
        Ok(Self(keys))
    }

    /// Reads a file with one public key of RSA in PEM.
    ///
    /// # Errors
    /// Why the file is none.
    pub fn read_rsa(path: &Path) -> Result<Self, String> {
        match Self::read(path)? {
            keys if matches!(&*keys.0, [TokenKey { kind: TokenKeyKind::Rsa(..), .. }]) => Ok(keys),
            _ => Err("has another key than one of RSA".to_owned()),
        }
    }

    /// The first key with this name; the first of all without a name.
    pub fn named(&self, id: Option<&str>) -> Option<&TokenKey> {
        self.0.iter().find(|key| id.is_none_or(|id| key.id.as_deref() == Some(id)))
    }

    /// Whether one of them is a secret.
    pub(crate) fn has_secret(&self) -> bool {
        self.0.iter().any(|key| matches!(key.kind, TokenKeyKind::Secret(_)))
    }

    /// The keys that may verify a token: those with its `kid`, and those without a name.
    pub fn candidates<'k>(
        &'k self,
        algorithm: TokenAlgorithm,
        id: Option<&'k str>,
    ) -> impl Iterator<Item = &'k TokenKey> {
        self.0.iter().filter(move |key| {
            let is_named = key.id.as_deref().zip(id).is_none_or(|(known, id)| known == id);
            is_named && key.fits(algorithm)
        })
    }
}

impl Jwk {
    fn read(self) -> Result<Option<TokenKey>, &'static str> {
        if self.usage.is_some_and(|usage| usage != "sig") {
            return Ok(None);
        }
        let algorithm = match &self.alg {
            None => None,
            Some(name) => match TokenAlgorithm::named(name) {
                None => return Ok(None),
                known => known,
            },
        };
        let bytes = |text: Option<String>| {
            URL_SAFE_NO_PAD
                .decode(text.ok_or("a value that is missing")?)
                .map_err(|_| "a value that is no base64url")
        };
        let kind = match (self.kty.as_str(), self.crv.as_deref()) {
            ("oct", _) => TokenKeyKind::Secret(bytes(self.k)?),
            ("RSA", _) => TokenKeyKind::Rsa(without_zeros(&bytes(self.n)?), without_zeros(&bytes(self.e)?)),
            ("EC", Some("P-256")) => TokenKeyKind::P256(point(&bytes(self.x)?, &bytes(self.y)?)),
            ("EC", Some("P-384")) => TokenKeyKind::P384(point(&bytes(self.x)?, &bytes(self.y)?)),
            ("OKP", Some("Ed25519")) => TokenKeyKind::Ed25519(bytes(self.x)?),
            _ => return Ok(None),
        };
        check(&kind)?;
        let key = TokenKey { id: self.kid, algorithm, kind };
        let is_useful = TokenAlgorithm::ALL.iter().any(|(_, algorithm)| key.fits(*algorithm));
        if is_useful { Ok(Some(key)) } else { Err("a kind that its `alg` does not fit") }
    }
}

/// Checks the size of a key.
fn check(kind: &TokenKeyKind) -> Result<(), &'static str> {
    match kind {
        TokenKeyKind::Secret(secret) if secret.len() < 32 => Err("a secret of less than 32 bytes"),
        TokenKeyKind::Rsa(modulus, exponent)
            if !(256..=512).contains(&modulus.len()) || !(1..=4).contains(&exponent.len()) =>
        {
            Err("a key of RSA that has not 2048 to 4096 bits")
        }
        TokenKeyKind::P256(point) if point.len() != 65 => Err("a point that is none of P-256"),
        TokenKeyKind::P384(point) if point.len() != 97 => Err("a point that is none of P-384"),
        TokenKeyKind::Ed25519(key) if key.len() != 32 => Err("a key that is none of Ed25519"),
        _ => Ok(()),
    }
}

fn without_zeros(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().skip_while(|byte| *byte == 0).collect()
}

fn point(x: &[u8], y: &[u8]) -> Vec<u8> {
    [&[4], x, y].concat()
}

/// The key of a PEM block `PUBLIC KEY` (RFC 7468 §13).
fn pem_key(text: &str) -> Option<TokenKeyKind> {
    const P256: &[u8] =
        b"\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
    const P384: &[u8] = b"\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22";
    const ED25519: &[u8] = b"\x30\x05\x06\x03\x2b\x65\x70";
    const RSA: &[u8] = b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
    let (_, rest) = text.split_once("-----BEGIN PUBLIC KEY-----")?;
    let (encoded, _) = rest.split_once("-----END PUBLIC KEY-----")?;
    let encoded: String = encoded.chars().filter(|one| !one.is_ascii_whitespace()).collect();
    let der = STANDARD.decode(encoded).ok()?;
    let (info, _) = element(&der, 0x30)?;
    let kinds = [P256, P384, ED25519, RSA];
    let algorithm = kinds.into_iter().find(|algorithm| info.starts_with(algorithm))?;
    let (bits, _) = element(&info[algorithm.len()..], 0x03)?;
    let key = bits.strip_prefix(&[0])?;
    Some(match algorithm {
        P256 => TokenKeyKind::P256(key.to_vec()),
        P384 => TokenKeyKind::P384(key.to_vec()),
        ED25519 => TokenKeyKind::Ed25519(key.to_vec()),
        _ => {
            let (numbers, _) = element(key, 0x30)?;
            let (modulus, rest) = element(numbers, 0x02)?;
            let (exponent, _) = element(rest, 0x02)?;
            TokenKeyKind::Rsa(without_zeros(modulus), without_zeros(exponent))
        }
    })
}

/// The content of an element of DER with this tag, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let rest = der.strip_prefix(&[tag])?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 | 0x82 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x0f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const P256_POINT: &str = "\"x\":\"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4\",\"y\":\"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM\"";

    #[test]
    fn keys_for_other_purposes_are_passed_over_and_wrong_ones_are_refused() {
        let secret = format!("{{\"kty\":\"oct\",\"k\":\"{}\"", "A".repeat(43));
        let fine = [
            format!("{secret}}}"),
            format!("{{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"a\",\"alg\":\"ES256\",{P256_POINT}}}"),
            "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}"
                .to_owned(),
        ];
        for key in &fine {
            for more in ["", "{\"kty\":\"EC\",\"crv\":\"secp256k1\"},", "{\"kty\":\"oct\",\"use\":\"enc\"},"]
            {
                let keys = TokenKeys::parse(&format!("{{\"keys\":[{more}{key}]}}")).unwrap();
                assert_eq!(keys.0.len(), 1, "{more}{key}");
            }
        }
        for (text, why) in [
            ("", "has neither a JWKS nor a public key in PEM"),
            ("{", "is no JWKS (line 1)"),
            ("{\"keys\":[]}", "has 0 usable keys; 1 to 64 are possible"),
            ("{\"keys\":[{\"kty\":\"oct\"}]}", "has in key 1 a value that is missing"),
            ("{\"keys\":[{\"kty\":\"oct\",\"k\":\"a+\"}]}", "has in key 1 a value that is no base64url"),
            ("{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}", "has in key 1 a secret of less than 32 bytes"),
            (
                &format!("{{\"keys\":[{secret},\"alg\":\"ES256\"}}]}}"),
                "has in key 1 a kind that its `alg` does not fit",
            ),
            (
                "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}",
                "has in key 1 a key of RSA that has not 2048 to 4096 bits",
            ),
            (
                "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-384\",\"x\":\"AQAB\",\"y\":\"AQAB\"}]}",
                "has in key 1 a point that is none of P-384",
            ),
        ] {
            assert_eq!(TokenKeys::parse(text).unwrap_err(), why, "{text}");
        }
    }

    #[test]
    fn an_algorithm_fits_keys_of_its_kind_alone() {
        use TokenAlgorithm as A;
        let kinds = [
            (TokenKeyKind::Secret(vec![0; 32]), &[A::Hs256][..]),
            (TokenKeyKind::Secret(vec![0; 64]), &[A::Hs256, A::Hs384, A::Hs512]),
            (
                TokenKeyKind::Rsa(vec![1; 256], vec![3]),
                &[A::Rs256, A::Rs384, A::Rs512, A::Ps256, A::Ps384, A::Ps512],
            ),
            (TokenKeyKind::P256(vec![4; 65]), &[A::Es256]),
            (TokenKeyKind::P384(vec![4; 97]), &[A::Es384]),
            (TokenKeyKind::Ed25519(vec![1; 32]), &[A::EdDsa]),
        ];
        for (kind, expected) in kinds {
            let mut key = TokenKey { id: None, algorithm: None, kind };
            for (name, algorithm) in A::ALL {
                key.algorithm = None;
                assert_eq!(key.fits(algorithm), expected.contains(&algorithm), "{key:?} {name}");
                key.algorithm = Some(A::Hs256);
                assert_eq!(key.fits(algorithm), expected.contains(&algorithm) && algorithm == A::Hs256);
            }
        }
        assert_eq!((A::named("none"), A::named("hs256"), A::named("")), (None, None, None));
    }

    #[test]
    fn a_name_selects_among_keys() {
        let key = |id: Option<&str>| TokenKey {
            id: id.map(str::to_owned),
            algorithm: None,
            kind: TokenKeyKind::Ed25519(vec![1; 32]),
        };
        let keys = TokenKeys(vec![key(Some("a")), key(Some("b")), key(None)]);
        let count = |id| keys.candidates(TokenAlgorithm::EdDsa, id).count();
        assert_eq!((count(Some("a")), count(Some("c")), count(None)), (2, 1, 3));
        assert_eq!(keys.candidates(TokenAlgorithm::Hs256, None).count(), 0);
    }
}
