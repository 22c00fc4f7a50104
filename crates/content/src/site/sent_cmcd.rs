//! What players say of themselves in a request (CMCD, CTA-5004): no part of a key, and for the origin only if it asks for it.

use std::borrow::Cow;
use std::sync::Arc;

use penstock_http::Request;
use penstock_http::cmcd::{FIELDS, PARAMETER};
use penstock_http::query::take;
use penstock_origin::http::Fetch;

use crate::site::UnsignedTarget;

/// What a request says of its player, as it was sent.
#[derive(Debug)]
pub(crate) struct SentCmcd {
    /// The value of the parameter of the query.
    argument: Option<String>,
    /// Names and values of the fields.
    fields: Vec<(&'static str, Vec<u8>)>,
}

impl SentCmcd {
    /// Takes it from a request; `None` if there is none.
    pub(crate) fn of(request: &Request<'_>) -> Option<Arc<Self>> {
        let argument = request.query().and_then(|query| take(query, PARAMETER));
        if argument.is_none() && !request.has_cmcd_field() {
            return None;
        }
        let argument = argument.map(|taken| taken.value.to_owned());
        let field = |name| request.values(name).map(move |value| (name, value.to_vec()));
        let fields = FIELDS.into_iter().flat_map(field).collect();
        Some(Arc::new(Self { argument, fields }))
    }

    /// Adds it to a request for an origin.
    pub(crate) fn add_to(&self, fetch: &mut Fetch) {
        if let Some(argument) = &self.argument {
            let before = if fetch.target.contains('?') { '&' } else { '?' };
            fetch.target.push_str(&format!("{before}{PARAMETER}={argument}"));
        }
        for (name, value) in &self.fields {
            fetch.pass(name, value);
        }
    }
}

/// The target of a request without the parameter. `unsigned` is its target without a token, if it had one.
pub(crate) fn without_cmcd<'r>(
    request: &'r Request<'r>,
    unsigned: Option<UnsignedTarget<'r>>,
) -> Option<UnsignedTarget<'r>> {
    let query = match &unsigned {
        Some(target) => target.query.as_deref(),
        None => request.query(),
    };
    let Some(taken) = query.and_then(|query| take(query, PARAMETER)) else { return unsigned };
    let query = taken.rest.map(Cow::Owned);
    let path = unsigned.map_or_else(|| Cow::Borrowed(request.raw_path()), |target| target.path);
    Some(UnsignedTarget { path, query })
}
