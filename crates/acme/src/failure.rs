//! Why an order failed, with the words of the authority.

use std::fmt;
use std::time::Duration;

use instant_acme::{Error, Problem};
use penstock_config::limits;

use crate::client::{CaError, RetryAfter};
use crate::status::OrderOutcome;
use crate::storage::StorageError;

/// A failed order.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// What kind of failure it is; never [`OrderOutcome::Issued`].
    pub(crate) outcome: OrderOutcome,
    /// What happened, in one bounded line.
    pub(crate) words: String,
    /// How long the authority asks to wait.
    pub(crate) retry_after: Option<Duration>,
}

impl Failure {
    /// A failure with these words.
    pub(crate) fn new(outcome: OrderOutcome, words: impl fmt::Display) -> Self {
        Self { outcome, words: one_line(&words.to_string()), retry_after: None }
    }

    /// Adds the time that the authority asked to wait in its last answer.
    pub(crate) fn with_retry_after(mut self, asked: &RetryAfter) -> Self {
        self.retry_after = asked.take();
        self
    }

    /// The authority's words about a challenge, a name or an order that it rejects.
    pub(crate) fn rejected(problem: &Problem) -> Self {
        Self::new(outcome_of(problem), ca_says(problem))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(problem) => Self::rejected(&problem),
            Error::Timeout(_) => {
                Self::new(OrderOutcome::Unavailable, "the CA has not finished the order in time")
            }
            Error::Json(error) => Self::new(
                OrderOutcome::Unavailable,
                format_args!("the CA's answer is not that of ACME: {error}"),
            ),
            Error::Other(other) => match other.downcast::<CaError>() {
                Ok(error) => Self::new(OrderOutcome::Unavailable, error),
                Err(other) => Self::new(OrderOutcome::Unavailable, other),
            },
            Error::Unsupported(_) | Error::Str(_) => {
                Self::new(OrderOutcome::Unavailable, format_args!("the CA: {error}"))
            }
            error => Self::new(OrderOutcome::Local, error),
        }
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        let outcome = if error.is_of_store() { OrderOutcome::Unavailable } else { OrderOutcome::Local };
        Self::new(outcome, error)
    }
}

impl From<rcgen::Error> for Failure {
    fn from(error: rcgen::Error) -> Self {
        Self::new(OrderOutcome::Local, error)
    }
}

/// Whether the authority does not know the account any more.
pub(crate) fn is_unknown_account(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if kind(problem) == "accountDoesNotExist")
}

/// Whether the authority refuses the nonce of a request, again after the library has tried newer ones.
pub(crate) fn is_bad_nonce(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if kind(problem) == "badNonce")
}

/// The last part of the type of a problem, such as `rateLimited` (RFC 8555 section 6.7).
fn kind(problem: &Problem) -> &str {
    problem.r#type.as_deref().and_then(|kind| kind.rsplit(':').next()).unwrap_or_default()
}

fn outcome_of(problem: &Problem) -> OrderOutcome {
    match kind(problem) {
        "rateLimited" => OrderOutcome::RateLimited,
        "serverInternal" | "badNonce" => OrderOutcome::Unavailable,
        _ if problem.status.is_some_and(|status| status >= 500) => OrderOutcome::Unavailable,
        _ => OrderOutcome::Rejected,
    }
}

fn ca_says(problem: &Problem) -> String {
    let mut said = format!("the CA says: {}", problem.detail.as_deref().unwrap_or("no details"));
    if !kind(problem).is_empty() {
        said.push_str(&format!(" ({})", kind(problem)));
    }
    for one in &problem.subproblems {
        said.push_str(&format!("; {}", one.detail.as_deref().unwrap_or_default()));
    }
    said
}

/// The text without control characters, cut to a bounded length.
pub(crate) fn one_line(text: &str) -> String {
    let shown = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    shown.take(limits::ACME_WORDS_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: &str, detail: &str, status: u16) -> Problem {
        Problem {
            r#type: Some(format!("urn:ietf:params:acme:error:{kind}")),
            detail: Some(detail.to_owned()),
            status: Some(status),
            subproblems: Vec::new(),
        }
    }

    #[test]
    fn problems_keep_the_words_of_the_authority() {
        let failure = Failure::from(Error::Api(problem("unauthorized", "wrong\nanswer", 403)));
        assert_eq!(failure.outcome, OrderOutcome::Rejected);
        assert_eq!(failure.words, "the CA says: wrong answer (unauthorized)");
        let limited = Failure::from(Error::Api(problem("rateLimited", "too many", 429)));
        assert_eq!(limited.outcome, OrderOutcome::RateLimited);
        let busy = Failure::from(Error::Api(problem("malformed", "busy", 503)));
        assert_eq!(busy.outcome, OrderOutcome::Unavailable);
        assert!(is_unknown_account(&Error::Api(problem("accountDoesNotExist", "", 400))));
    }

    #[test]
    fn words_are_bounded() {
        let failure = Failure::from(Error::Api(problem("malformed", &"x".repeat(1 << 20), 400)));
        assert_eq!(failure.words.len(), limits::ACME_WORDS_CHARACTERS);
    }
}
