//! Revoking tokens: `POST /tokens/revoke?id=…&expires=…`

use std::sync::Arc;

use hyper::{Method, Request, Response, StatusCode};

use crate::backend::Backend;
use crate::guard::refuse_other_pages;
use crate::order::{self, decoded};
use crate::response::{method_not_allowed, plain};

/// Where POST revokes.
pub(crate) const PATH: &str = "/tokens/revoke";

const HOW: &str = "write /tokens/revoke?id=ID&expires=TIME, with further &id=ID and with &fleet=1 to wait for the other \
                   edges; TIME is like 6h, or seconds since 1970; an id with & or % in it has to be percent-encoded\n";

/// `POST /tokens/revoke?id=viewer-7&expires=6h`
pub(crate) async fn by_query<B>(request: &Request<B>, backend: Arc<dyn Backend>) -> Response<String> {
    if request.method() != Method::POST {
        return method_not_allowed("POST", "only POST\n");
    }
    let Some(Revocation { ids, expires, confirm }) = parse(request.uri().query().unwrap_or_default()) else {
        return plain(StatusCode::BAD_REQUEST, HOW);
    };
    match refuse_other_pages(request) {
        Some(refusal) => refusal,
        None => order::carry_out("the revocation", move || backend.revoke(&ids, &expires, confirm)).await,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Revocation {
    ids: Vec<String>,
    expires: String,
    /// Whether to wait for the other edges of the fleet.
    confirm: bool,
}

/// Reads the query; `None` unless it has ids and one time.
fn parse(query: &str) -> Option<Revocation> {
    let (mut ids, mut expires, mut confirm) = (Vec::new(), None, false);
    for parameter in query.split('&').filter(|one| !one.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = decoded(value)?;
        match name {
            "id" if !value.is_empty() => ids.push(value.into_owned()),
            "expires" if expires.is_none() => expires = Some(value.into_owned()),
            "fleet" => confirm = value != "0",
            _ => return None,
        }
    }
    let expires = expires.filter(|_| !ids.is_empty())?;
    Some(Revocation { ids, expires, confirm })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_ids_and_one_time() {
        let revocation = |ids: &[&str], expires: &str, confirm| {
            let ids = ids.iter().map(|&id| id.to_owned()).collect();
            Some(Revocation { ids, expires: expires.to_owned(), confirm })
        };
        assert_eq!(parse("id=a%26b&expires=1h"), revocation(&["a&b"], "1h", false));
        assert_eq!(parse("fleet=1&id=b&id=a&expires=9"), revocation(&["b", "a"], "9", true));
        for wrong in [
            "",
            "id=a",
            "expires=1h",
            "id=&expires=1h",
            "id=a&expires=1h&expires=2h",
            "id=a&x=1",
            "id=%ff&expires=1h",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
