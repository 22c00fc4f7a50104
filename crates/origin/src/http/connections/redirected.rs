//! Following redirections.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, timeout_at};

use super::Connections;
use crate::http::body::Outgoing;
use crate::http::dial::dial;
use crate::http::error::OriginError;
use crate::http::exchange::{fault_of_head, send};
use crate::http::fetch::{self, Fetch};
use crate::http::origin::HttpOrigin;
use crate::http::redirect::{Hops, Location, is_redirection};
use crate::http::response::{OriginResponse, ResponseConnection};
use crate::http::server::Server;
use crate::http::trace::Upstream;
use crate::http::validators::{self, UrlMark};

/// The body of a redirection that is read so that its connection can be used again.
const BODY_BYTES_MAX: usize = 16 * 1024;

impl Connections {
    /// Follows redirections as often as the origin allows, to the hosts that it allows. Authorization and Cookie reach
    /// no other server than the first, and a condition reaches no other URL than that of its tag. Returns other responses as
    /// they are.
    pub(super) async fn follow_redirects<'c>(
        &'c self,
        origin: &Arc<HttpOrigin>,
        fetch: &Fetch,
        mut response: OriginResponse<'c>,
    ) -> Result<OriginResponse<'c>, OriginError> {
        let mut left = origin.limits().redirects;
        let (mut fetch, known) = (fetch.clone(), fetch.known.as_ref());
        let Some(first) = response.answered_by().and_then(|id| origin.server(id.index)) else {
            return Ok(response);
        };
        let first = &first.url;
        let (mut hops, mut behind) = (Hops::default(), None);
        let mut here =
            Location { target: format!("{}{}", first.base(), fetch.target), server: first.at_root() };
        while is_redirection(response.status()) {
            if left == 0 {
                return Err(OriginError::Redirects);
            }
            left -= 1;
            let next = response.field("location").and_then(|location| here.resolve(location));
            let next = next.filter(|next| origin.follows_to(&next.server)).ok_or(OriginError::Redirects)?;
            if !next.server.is_same_server(&here.server) {
                fetch.remove_credentials();
            }
            let mark = UrlMark::of(&next);
            fetch.remove_conditions();
            fetch.known = validators::condition_at(Some(&mark), known);
            fetch.target.clone_from(&next.target);
            here = next;
            hops.add(response.status(), response.fields(), SystemTime::now());
            discard(response).await;
            response = fetch_at(origin, &here, &fetch).await?;
            behind = Some(mark);
        }
        if let Some(mark) = behind {
            response.follow(&hops, &mark, SystemTime::now());
        }
        Ok(response)
    }
}

/// Sends the request to the server that a redirection names, on a connection for this request only.
async fn fetch_at(
    origin: &Arc<HttpOrigin>,
    location: &Location,
    fetch: &Fetch,
) -> Result<OriginResponse<'static>, OriginError> {
    let limits = origin.limits();
    let server = Server::of_redirect(&location.server, &origin.settings, origin.lookups_of(&location.server));
    // It is asked by its own name, unless it is one of the servers that are asked by another.
    let host = if origin.has(&location.server) { origin.host(&server) } else { server.url.authority() };
    let head = fetch::head(&server.url, host, fetch)?;
    let noted = fetch.trace.as_ref().map(|trace| (trace, trace.begin(server.url.to_string())));
    let note = |step: fn(&mut Upstream, Duration), since: Instant| {
        if let Some((trace, attempt)) = noted {
            trace.note(attempt, |seen| step(seen, since.elapsed()));
        }
    };
    let began = Instant::now();
    let dialled = timeout_at(began + limits.connect, dial(origin, &server, None, None, limits.connect)).await;
    let mut sender = dialled.map_err(|_| OriginError::Timeout)??;
    note(|seen, after| seen.connect = Some(after), began);
    let request = fetch::with_body(&head, Outgoing::Nothing, None);
    let asked = Instant::now();
    let sent = send(&mut sender, request, None, limits).await;
    let mut response = sent.map_err(|failed| failed.error)?;
    note(|seen, after| seen.first_byte = Some(after), asked);
    if let Some(fault) = fault_of_head(&response, fetch, limits.head_bytes) {
        server.set_fault(fault.to_owned());
        return Err(OriginError::Malformed);
    }
    origin.hide(response.headers_mut());
    let secure = server.url.is_secure();
    Ok(OriginResponse::new(response, ResponseConnection::Own(sender), secure, limits))
}

async fn discard(mut response: OriginResponse<'_>) {
    let mut read = 0;
    while let Ok(Some(piece)) = response.next().await {
        read += piece.len();
        if read > BODY_BYTES_MAX {
            return;
        }
    }
}
