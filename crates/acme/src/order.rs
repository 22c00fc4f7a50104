//! One order: from a name to a stored certificate.

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, Error, Identifier, NewOrder, Order, OrderStatus,
    RetryPolicy,
};
use penstock_config::{Acme, AcmeKey, limits};
use penstock_tls::certificate::{Certificate, RenewalFacts};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384};

use crate::challenge::{self, ChallengeAnswer};
use crate::failure::Failure;
use crate::last_order::LastOrder;
use crate::shared::SharedStorage;
use crate::status::OrderOutcome;

/// Orders a certificate for a name and stores it with `this` order.
///
/// # Errors
/// See [`Failure`]. An account that the authority does not know is given back as the library's error.
pub(crate) async fn order(
    account: &Account,
    settings: &Acme,
    storage: &SharedStorage,
    name: &str,
    replaces: Option<CertificateIdentifier<'_>>,
    this: LastOrder,
) -> Result<(), OrderError> {
    let identifiers = [Identifier::Dns(name.to_owned())];
    let new = || match &settings.profile {
        Some(profile) => NewOrder::new(&identifiers).profile(profile),
        None => NewOrder::new(&identifiers),
    };
    let mut order = match replaces {
        // An authority may refuse the old certificate: it is another one's, or was replaced before.
        Some(replaces) => match account.new_order(&new().replaces(replaces)).await {
            Ok(order) => order,
            Err(_) => account.new_order(&new()).await?,
        },
        None => account.new_order(&new()).await?,
    };
    let answers = answer(&mut order, settings, storage).await?;
    let policy = RetryPolicy::new()
        .initial_delay(Duration::from_millis(limits::ACME_POLL_MILLISECONDS))
        .backoff(1.5)
        .timeout(Duration::from_secs(limits::ACME_ORDER_SECONDS));
    if !answers.is_empty() {
        match order.poll_ready(&policy).await {
            Ok(OrderStatus::Invalid) => return Err(rejection(&mut order, None).await.into()),
            Ok(_) => {}
            Err(Error::Api(problem)) => {
                let words = Failure::rejected(&problem);
                return Err(rejection(&mut order, Some(words)).await.into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    drop(answers);
    let key = KeyPair::generate_for(match settings.key {
        AcmeKey::EcdsaP256 => &PKCS_ECDSA_P256_SHA256,
        AcmeKey::EcdsaP384 => &PKCS_ECDSA_P384_SHA384,
    })
    .map_err(Failure::from)?;
    order.finalize_csr(&request(name, &key).map_err(Failure::from)?).await?;
    let chain = order.poll_certificate(&policy).await?;
    verify(name, &chain, &key)?;
    storage.own.set_certificate(name, &chain, &key.serialize_pem(), this).map_err(Failure::from)?;
    Ok(())
}

/// Why an order failed.
#[derive(Debug)]
pub(crate) enum OrderError {
    /// The authority has said something.
    Library(Error),
    Failed(Failure),
}

impl From<Error> for OrderError {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl From<Failure> for OrderError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<OrderError> for Failure {
    fn from(error: OrderError) -> Self {
        match error {
            OrderError::Library(error) => error.into(),
            OrderError::Failed(failure) => failure,
        }
    }
}

/// Answers all challenges, and tells the authority. No answers: there was nothing to prove.
async fn answer(
    order: &mut Order,
    settings: &Acme,
    storage: &SharedStorage,
) -> Result<Vec<ChallengeAnswer>, OrderError> {
    let mut answers = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => {
                let what = format_args!("the CA's authorization is {other:?}, not pending");
                return Err(Failure::new(OrderOutcome::Rejected, what).into());
            }
        }
        let kind = challenge::kind(settings);
        let Some(mut challenge) = authorization.challenge(kind) else {
            let what = format_args!("the CA offers no challenge {} for this name", settings.challenge.name());
            return Err(Failure::new(OrderOutcome::Rejected, what).into());
        };
        let Identifier::Dns(name) = challenge.identifier().identifier.clone() else {
            return Err(
                Failure::new(OrderOutcome::Unavailable, "the CA asks for another kind of name").into()
            );
        };
        let (token, key) = (challenge.token.clone(), challenge.key_authorization());
        answers.push(ChallengeAnswer::present(settings, storage, &name, &token, &key).await?);
        challenge.set_ready().await?;
    }
    Ok(answers)
}

/// The words of the authority about a rejected order: those about its challenges say most.
async fn rejection(order: &mut Order, other: Option<Failure>) -> Failure {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if let Ok(state) = authorization.refresh().await
            && let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.as_ref())
        {
            return Failure::rejected(problem);
        }
    }
    other.unwrap_or_else(|| Failure::new(OrderOutcome::Rejected, "the CA says that the order is invalid"))
}

fn request(name: &str, key: &KeyPair) -> Result<Vec<u8>, rcgen::Error> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(key)?.der().to_vec())
}

/// A chain that cannot be served must not replace one that can.
fn verify(name: &str, chain: &str, key: &KeyPair) -> Result<(), Failure> {
    let unusable = |error| {
        Failure::new(OrderOutcome::Unavailable, format_args!("the CA's certificate cannot be used: {error}"))
    };
    let made = Certificate::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes()).map_err(unusable)?;
    // What cannot be read when it is looked at again would be ordered again.
    let facts = RenewalFacts::from_pem(chain.as_bytes()).map_err(unusable)?;
    if facts.not_after <= facts.not_before {
        return Err(Failure::new(OrderOutcome::Unavailable, "the CA's certificate ends before it begins"));
    }
    if made.names().iter().any(|covered| covered == name) {
        Ok(())
    } else {
        Err(Failure::new(OrderOutcome::Unavailable, "the CA's certificate is for another name"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_certificate_with_dates_that_cannot_be_followed_is_refused() {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        let (now, before_1970) = (SystemTime::now(), SystemTime::UNIX_EPOCH - 2 * DAY);
        for (begin, end, words) in [
            (now - DAY, now + DAY, None),
            (now, now - DAY, Some("ends before it begins")),
            (before_1970, now + DAY, Some("cannot be used")),
            (before_1970, before_1970 + DAY, Some("cannot be used")),
        ] {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
            (params.not_before, params.not_after) = (begin.into(), end.into());
            let chain = params.self_signed(&key).unwrap().pem();
            let failure = verify("a.test", &chain, &key).err().map(|failure| failure.words);
            assert_eq!(failure.is_some(), words.is_some(), "{failure:?}");
            assert!(failure.unwrap_or_default().contains(words.unwrap_or_default()));
        }
    }
}
