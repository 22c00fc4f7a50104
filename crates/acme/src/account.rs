//! The account at the authority, made once and stored.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use instant_acme::{Account, AccountCredentials, CertificateIdentifier, ExternalAccountKey, NewAccount};
use penstock_config::{Acme, limits};
use penstock_tls::certificate::RenewalFacts;

use crate::client::CaClient;
use crate::failure::{Failure, is_bad_nonce};
use crate::status::OrderOutcome;
use crate::storage::Storage;

/// The stored account, or a new one. To be called with the lock if there is none.
///
/// # Errors
/// Why the authority makes none, or cannot be asked.
pub(crate) async fn open(settings: &Acme, storage: &Storage, client: &CaClient) -> Result<Account, Failure> {
    if let Some(account) = stored(storage, client).await? {
        return Ok(account);
    }
    let contact = settings.email.as_ref().map(|email| format!("mailto:{email}"));
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    let new = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
    let binding = settings
        .external_account
        .as_ref()
        .map(|binding| ExternalAccountKey::new(binding.id.clone(), binding.key.expose()));
    let mut attempts = 0;
    let (account, credentials) = loop {
        let builder = Account::builder_with_http(Box::new(client.clone()));
        match builder.create(&new, settings.directory.clone(), binding.as_ref()).await {
            Err(error) if is_bad_nonce(&error) && attempts < limits::ACME_NONCE_ATTEMPTS => attempts += 1,
            made => break made?,
        }
    };
    let json = serde_json::to_vec(&credentials).map_err(|error| Failure::new(OrderOutcome::Local, error))?;
    storage.set_account(&json)?;
    tracing::info!("acme: made an account at {}", settings.directory);
    Ok(account)
}

/// The stored account; `None` if there is none.
pub(crate) async fn stored(storage: &Storage, client: &CaClient) -> Result<Option<Account>, Failure> {
    let Some(json) = storage.account()? else { return Ok(None) };
    let credentials: AccountCredentials = serde_json::from_slice(&json)
        // The words of the parser could repeat the key.
        .map_err(|_| {
            Failure::new(OrderOutcome::Local, "the stored account cannot be read; remove it for a new one")
        })?;
    let account = Account::builder_with_http(Box::new(client.clone())).from_credentials(credentials).await?;
    Ok(Some(account))
}

/// How the authority names a certificate (RFC 9773 section 4.1); `None` if that names no issuer's key.
pub(crate) fn identifier(facts: &RenewalFacts) -> Option<CertificateIdentifier<'static>> {
    let (issuer, serial) = facts.identifier.as_ref()?;
    let encoded = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes).into();
    Some(CertificateIdentifier { authority_key_identifier: encoded(issuer), serial: encoded(serial) })
}
