//! What orders by a query have in common.

use std::borrow::Cow;

use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use crate::backend::OrderError;
use crate::response::json;

/// Carries an order out on a thread of its own, because it waits for a disk; health checks do not wait with it. `what` names it.
pub(crate) async fn carry_out(
    what: &str,
    order: impl FnOnce() -> Result<Value, OrderError> + Send + 'static,
) -> Response<String> {
    match tokio::task::spawn_blocking(order).await {
        Ok(Ok(result)) => json(StatusCode::OK, &result),
        Ok(Err(OrderError::Wrong(what))) => json(StatusCode::BAD_REQUEST, &json!({"error": what})),
        Ok(Err(OrderError::Failed(what))) => json(StatusCode::INTERNAL_SERVER_ERROR, &json!({"error": what})),
        Err(error) => {
            tracing::error!(%error, "{what} was not finished");
            let what = format!("{what} was not finished");
            json(StatusCode::INTERNAL_SERVER_ERROR, &json!({"error": what}))
        }
    }
}

/// Decodes percent-encoding once; `None` if it is malformed or does not decode to UTF-8.
pub(crate) fn decoded(value: &str) -> Option<Cow<'_, str>> {
    if !value.contains('%') {
        return Some(Cow::Borrowed(value));
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(letter) = rest.next() {
        if letter == '%' {
            let mut digit = || rest.next()?.to_digit(16);
            bytes.push(u8::try_from(digit()? << 4 | digit()?).ok()?);
        } else {
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}
