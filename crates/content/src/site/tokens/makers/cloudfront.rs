//! Makes signed URLs and cookies of CloudFront.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::cloudfront::canned;
use super::{TokenOrder, pem_block};

/// The parameters of a signed URL, with the names that they have in a query. A canned policy is for `url` alone; one for
/// everything below a path, or for one client, is custom. `site` is the scheme and the host. `None` if `pem` has no private
/// key of RSA.
pub fn cloudfront(
    pem: &str,
    key_pair: &str,
    site: &str,
    url: &str,
    order: &TokenOrder<'_>,
) -> Option<Vec<(&'static str, String)>> {
    let key = match pem_block(pem, &["PRIVATE KEY", "RSA PRIVATE KEY"])? {
        ("PRIVATE KEY", der) => KeyPair::from_pkcs8(&der).ok()?,
        (_, der) => KeyPair::from_der(&der).ok()?,
    };
    let end = order.seconds();
    let (policy, first) = match (order.directory(), order.client) {
        (None, None) => (canned(url, end), ("Expires", end.to_string())),
        (directory, client) => {
            let resource = directory.map_or_else(
                || url.to_owned(),
                |directory| format!("{site}{}*", super::encode(directory).replace("%2F", "/")),
            );
            let bits = client.map_or(0, |client| if client.is_ipv4() { 32 } else { 128 });
            let address = client
                .map(|client| format!(",\"IpAddress\":{{\"AWS:SourceIp\":\"{client}/{bits}\"}}"))
                .unwrap_or_default();
            let condition = format!("\"DateLessThan\":{{\"AWS:EpochTime\":{end}}}{address}");
            let policy =
                format!("{{\"Statement\":[{{\"Resource\":\"{resource}\",\"Condition\":{{{condition}}}}}]}}");
            let encoded = to_base64(policy.as_bytes());
            (policy, ("Policy", encoded))
        }
    };
    let mut mark = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), policy.as_bytes(), &mut mark).ok()?;
    Some(vec![
        first,
        ("Signature", to_base64(&mark)),
        ("Key-Pair-Id", key_pair.to_owned()),
        ("Hash-Algorithm", "SHA256".to_owned()),
    ])
}

/// CloudFront's base64.
fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes).replace('+', "-").replace('=', "_").replace('/', "~")
}
