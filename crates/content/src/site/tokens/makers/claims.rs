//! Makes tokens with claims: JSON Web Tokens, and Common Access Tokens.

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ciborium::Value;
use penstock_config::{TokenAlgorithm, TokenKeyKind, TokenKeys};
use serde_json::{Map, json};

use super::super::cat_labels as label;
use super::super::cbor::encoded;
use super::super::cose::{ALGORITHMS, TAG_CWT, signed_message};
use super::{TokenOrder, pem_block};

/// A key that signs claims: a secret of a JWKS, or a private key of P-256 in PEM.
pub struct ClaimSigner {
    id: Option<String>,
    key: PrivateKey,
}

enum PrivateKey {
    Secret(Box<hmac::Key>),
    P256(EcdsaKeyPair),
}

impl ClaimSigner {
    /// Reads the text of a file: a JWKS, of which the key with this name counts, or a PEM file. `None` if there is no such key.
    pub fn parse(text: &str, id: Option<&str>) -> Option<Self> {
        let own_id = || id.map(str::to_owned);
        if text.trim_start().starts_with('{') {
            let keys = TokenKeys::parse(text).ok()?;
            let key = keys.named(id)?;
            let TokenKeyKind::Secret(secret) = &key.kind else { return None };
            let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
            return Some(Self {
                id: key.id.clone().or_else(own_id),
                key: PrivateKey::Secret(Box::new(secret)),
            });
        }
        let key = match pem_block(text, &["PRIVATE KEY", "EC PRIVATE KEY"])? {
            ("PRIVATE KEY", der) => EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der),
            (_, der) => EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, &der),
        };
        Some(Self { id: own_id(), key: PrivateKey::P256(key.ok()?) })
    }

    fn algorithm(&self) -> (&'static str, TokenAlgorithm) {
        match self.key {
            PrivateKey::Secret(_) => ("HS256", TokenAlgorithm::Hs256),
            PrivateKey::P256(_) => ("ES256", TokenAlgorithm::Es256),
        }
    }

    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        Some(match &self.key {
            PrivateKey::Secret(key) => hmac::sign(key, message).as_ref().to_vec(),
            PrivateKey::P256(key) => key.sign(&SystemRandom::new(), message).ok()?.as_ref().to_vec(),
        })
    }
}

/// A JSON Web Token with `exp`, the path in the claim `path`, the id in `jti` and the address in `ip`, and further claims.
pub fn jwt(signer: &ClaimSigner, order: &TokenOrder<'_>, more: &[(&str, &str)]) -> Option<String> {
    let (name, _) = signer.algorithm();
    let mut header = json!({"alg": name, "typ": "JWT"});
    if let Some(id) = &signer.id {
        header["kid"] = json!(id);
    }
    let mut claims = Map::new();
    claims.insert("exp".to_owned(), json!(order.seconds()));
    claims.insert("path".to_owned(), json!(order.path));
    if let Some(id) = order.id {
        claims.insert("jti".to_owned(), json!(id));
    }
    if let Some(client) = order.client {
        claims.insert("ip".to_owned(), json!(client.to_string()));
    }
    claims.extend(more.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
    let claims = serde_json::Value::Object(claims);
    let text = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let mark = signer.sign(text.as_bytes())?;
    Some(format!("{text}.{}", URL_SAFE_NO_PAD.encode(mark)))
}

/// A Common Access Token in base64url. The path is that of `catu` in its encoded form, the id is `cti`.
pub fn cat(signer: &ClaimSigner, order: &TokenOrder<'_>, more: &[(&str, &str)]) -> Option<String> {
    let number = |number: i128| Value::Integer(i64::try_from(number).unwrap_or_default().into());
    let map = |entries: Vec<(i128, Value)>| {
        Value::Map(entries.into_iter().map(|(key, value)| (number(key), value)).collect())
    };
    let path = super::encode(order.path).replace("%2F", "/").replace("%3D", "=");
    // An exact path, or a prefix.
    let path = map(vec![(i128::from(order.directory().is_some()), Value::Text(path))]);
    let mut claims = vec![
        (label::EXPIRES, Value::Integer(order.seconds().into())),
        (label::VERSION, number(1)),
        (label::URI, map(vec![(3, path)])),
    ];
    if let Some(id) = order.id {
        claims.push((label::ID, Value::Bytes(id.as_bytes().to_vec())));
    }
    if let Some(client) = order.client {
        let (tag, bytes) = match client {
            std::net::IpAddr::V4(ip) => (52, ip.octets().to_vec()),
            std::net::IpAddr::V6(ip) => (54, ip.octets().to_vec()),
        };
        let address = Value::Tag(tag, Box::new(Value::Bytes(bytes)));
        claims.push((label::ADDRESSES, Value::Array(vec![address])));
    }
    for (name, value) in more {
        let label = match *name {
            "iss" => label::ISSUER,
            "aud" => label::AUDIENCE,
            "sub" => label::SUBJECT,
            _ => return None,
        };
        claims.push((label, Value::Text((*value).to_owned())));
    }
    let (_, algorithm) = signer.algorithm();
    let (code, _, tag) = *ALGORITHMS.iter().find(|(_, known, _)| *known == algorithm)?;
    let protected = encoded(&map(vec![(1, number(code))]));
    let id = signer.id.iter().map(|id| (4, Value::Bytes(id.as_bytes().to_vec()))).collect();
    let payload = encoded(&map(claims));
    let mark = signer.sign(&signed_message(algorithm, &protected, &payload))?;
    let parts = vec![Value::Bytes(protected), map(id), Value::Bytes(payload), Value::Bytes(mark)];
    let message = Value::Tag(TAG_CWT, Box::new(Value::Tag(tag, Box::new(Value::Array(parts)))));
    Some(URL_SAFE_NO_PAD.encode(encoded(&message)))
}
