//! Purging: `POST /cache/purge?url=…`, or the method PURGE with the URL itself as other caches have it.

use std::sync::Arc;

use hyper::{Method, Request, Response, StatusCode};
use penstock_cache::purge::{PurgeOrder, PurgeTarget};

use crate::backend::Backend;
use crate::guard::{refuse_other_pages, refuse_web_page};
use crate::order::{self, decoded};
use crate::response::{method_not_allowed, plain};

/// Where POST purges.
pub(crate) const PATH: &str = "/cache/purge";

const HOW: &str = "write /cache/purge?url=URL, ?prefix=URL, ?tag=TAG or ?everything=1, with &soft=1 to make it only \
                   stale and &fleet=1 to wait for the other edges; a URL with & or % in it has to be percent-encoded\n";

/// `POST /cache/purge?url=https://video.example.com/a.mp4`
pub(crate) async fn by_query<B>(request: &Request<B>, backend: Arc<dyn Backend>) -> Response<String> {
    if request.method() != Method::POST {
        return method_not_allowed("POST", "only POST\n");
    }
    match parse(request.uri().query().unwrap_or_default()) {
        Some((order, confirm)) => match refuse_other_pages(request) {
            Some(refusal) => refusal,
            None => carry_out(backend, order, confirm).await,
        },
        None => plain(StatusCode::BAD_REQUEST, HOW),
    }
}

/// `PURGE /a.mp4` with Host, or with the whole URL. A field `Soft-Purge: 1` makes it only stale.
pub(crate) async fn by_method<B>(request: &Request<B>, backend: Arc<dyn Backend>) -> Response<String> {
    let field = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let host = request.uri().authority().map(|authority| authority.as_str()).or_else(|| field("host"));
    let Some(host) = host.filter(|host| !host.is_empty()) else {
        return plain(StatusCode::BAD_REQUEST, "a PURGE needs a Host: that of the site\n");
    };
    let soft = field("soft-purge").is_some_and(|value| value != "0");
    let target = PurgeTarget::Url(format!("http://{host}{target}"));
    match refuse_web_page(request) {
        Some(refusal) => refusal,
        None => carry_out(backend, PurgeOrder { target, soft }, false).await,
    }
}

/// Reads the query: the order, and whether to wait for the other edges of the fleet. `None` unless it names exactly one target.
fn parse(query: &str) -> Option<(PurgeOrder, bool)> {
    let (mut target, mut soft, mut confirm) = (None, false, false);
    for parameter in query.split('&').filter(|one| !one.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = decoded(value)?;
        if name == "soft" {
            soft = value != "0";
            continue;
        }
        if name == "fleet" {
            confirm = value != "0";
            continue;
        }
        let named = PurgeTarget::new(name, value.into_owned())?;
        if named != PurgeTarget::Everything && named.text().is_empty() {
            return None;
        }
        if target.replace(named).is_some() {
            return None;
        }
    }
    target.map(|target| (PurgeOrder { target, soft }, confirm))
}

async fn carry_out(backend: Arc<dyn Backend>, order: PurgeOrder, confirm: bool) -> Response<String> {
    order::carry_out("the purge", move || backend.purge(&order, confirm)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_one_target() {
        let purge = |target, soft, confirm| Some((PurgeOrder { target, soft }, confirm));
        let url = |value: &str| PurgeTarget::Url(value.to_owned());
        assert_eq!(parse("url=/a%26b"), purge(url("/a&b"), false, false));
        assert_eq!(parse("soft=1&url=/a"), purge(url("/a"), true, false));
        assert_eq!(parse("url=/a&fleet=1"), purge(url("/a"), false, true));
        assert_eq!(parse("everything"), purge(PurgeTarget::Everything, false, false));
        for wrong in ["", "url=", "url=/a&tag=b", "everything=1&everything=1", "url=%zz", "url=%ff", "uri=/a"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
