//! Requests to origins: the choice of a server and of a connection, retries, redirections.

mod redirected;
mod relayed;

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::balance::TriedServers;
use super::body::{BodyWatch, Outgoing, RequestBody};
use super::dial::Sender;
use super::error::OriginError;
use super::exchange::{self, Failed};
use super::fetch::{self, Fetch};
use super::origin::HttpOrigin;
use super::pool::{Pools, connection};
use super::relay::{ActiveRequest, Stream};
use super::response::{OriginResponse, ResponseConnection};
use super::validators;

/// The most further servers that are asked for a version before one that has another is believed.
const CHANGE_DOUBTS: usize = 3;

/// The connections of one worker to origins.
#[derive(Default)]
pub struct Connections {
    pools: Pools<Sender>,
    /// Connections whose bodies this program does not read; see [`Self::relay`].
    streams: Rc<Pools<Stream>>,
    retries: Cell<u64>,
}

impl Connections {
    /// Asks one server, and others if that does not answer. To be called within a `LocalSet`.
    ///
    /// # Errors
    /// See [`OriginError`].
    pub async fn fetch(
        &self,
        origin: &Arc<HttpOrigin>,
        fetch: &Fetch,
    ) -> Result<OriginResponse<'_>, OriginError> {
        if origin.limits().redirects == 0 || !fetch.is_repeatable() {
            return self.any_server(origin, fetch, Outgoing::Nothing).await;
        }
        let first = Fetch { known: validators::condition_at(None, fetch.known.as_ref()), ..fetch.clone() };
        let response = self.any_server(origin, &first, Outgoing::Nothing).await?;
        self.follow_redirects(origin, fetch, response).await
    }

    /// Passes a request with a body to one server. Another server is asked only if the first cannot have seen any of
    /// the request, since a request that is sent twice could take effect twice (RFC 9110 §9.2.2). Pieces have to be
    /// put into the body while this waits.
    ///
    /// # Errors
    /// See [`OriginError`].
    pub async fn pass(
        &self,
        origin: &Arc<HttpOrigin>,
        fetch: &Fetch,
        body: RequestBody,
    ) -> Result<OriginResponse<'_>, OriginError> {
        self.any_server(origin, fetch, Outgoing::Stream(body)).await
    }

    /// Closes connections that have been idle for `idle`, and those that keep other workers from opening one.
    pub fn close_idle(&self, now: Instant, idle: Duration) {
        self.pools.close_idle(now, idle);
        self.streams.close_idle(now, idle);
    }

    /// Number of idle connections.
    pub fn idle(&self) -> usize {
        self.pools.idle() + self.streams.idle()
    }

    /// How many requests were sent once more.
    pub fn retries(&self) -> u64 {
        self.retries.get()
    }

    async fn any_server(
        &self,
        origin: &Arc<HttpOrigin>,
        fetch: &Fetch,
        mut body: Outgoing,
    ) -> Result<OriginResponse<'_>, OriginError> {
        let watch = body.watch();
        let repeatable = fetch.is_repeatable() && watch.is_none();
        let mut retries = if repeatable { origin.limits().retries } else { 0 };
        let (mut tried, mut again) = (TriedServers::default(), false);
        let (mut declined, mut error) = (None, OriginError::Unreachable);
        let (mut changed, mut doubts) = (None, CHANGE_DOUBTS);
        loop {
            let now = Instant::now();
            let next = origin.choose_preferring(fetch.preferred, now, tried);
            // A connection that just ended says little about its server: without another server it is asked once more.
            let next = next.or_else(|| origin.choose(now, TriedServers::default()).filter(|_| again));
            // The version is asked for again only where an answer is likely.
            let next = next.filter(|index| changed.is_none() || origin.has_in(*index));
            let Some(index) = next else { break };
            again = false;
            if tried != TriedServers::default() {
                self.retries.set(self.retries.get() + 1);
            }
            tried.add(index);
            match self.ask(origin, index, fetch, body, watch.as_ref()).await {
                Ok(response) if !is_gateway_error(response.status()) => {
                    origin.report_response(index, fetch);
                    if !repeatable || !fetch.is_declined_as_changed(response.status(), response.fields()) {
                        return Ok(response);
                    }
                    // A server may have another version, or another tag for the same one: the others are asked first.
                    changed.get_or_insert(response);
                    body = Outgoing::Nothing;
                    match doubts.checked_sub(1) {
                        Some(left) => doubts = left,
                        None => break,
                    }
                    continue;
                }
                Ok(response) => {
                    origin.report_refusal(index, fetch, response.status());
                    declined = Some(response);
                    if retries == 0 {
                        break;
                    }
                    body = Outgoing::Nothing;
                }
                Err(failed) => {
                    error = failed.error;
                    origin.report_failure(index, fetch, failed.unsent.is_some(), error);
                    match failed.unsent {
                        Some(unsent) => {
                            body = unsent;
                            continue;
                        }
                        None if retries == 0 => break,
                        None => body = Outgoing::Nothing,
                    }
                    again = error == OriginError::CutShort;
                }
            }
            retries -= 1;
        }
        changed.or(declined).ok_or(error)
    }

    async fn ask(
        &self,
        origin: &Arc<HttpOrigin>,
        index: usize,
        fetch: &Fetch,
        mut body: Outgoing,
        watch: Option<&BodyWatch>,
    ) -> Result<OriginResponse<'_>, Failed> {
        let Some(server) = origin.server(index) else {
            return Err(Failed::unsent(OriginError::Unreachable, body));
        };
        let head = exchange::head_for(origin, server, fetch).map_err(Failed::new)?;
        let limits = origin.limits();
        let mut active = ActiveRequest::new(origin, index, fetch);
        loop {
            let mut pooled = match connection(&self.pools, origin, (index, server), fetch.client).await {
                Ok(pooled) => pooled,
                Err(error) => return Err(Failed::unsent(error, body)),
            };
            let used = pooled.used;
            active.connected(pooled.connect_time());
            let request = fetch::with_body(&head, body, fetch.interim.as_ref());
            let asked = Instant::now();
            let sent = exchange::send(&mut pooled.connection, request, watch, limits).await;
            let failed = match sent {
                Ok(mut response) => match exchange::fault_of_head(&response, fetch, limits.head_bytes) {
                    Some(fault) => {
                        server.set_fault(fault.to_owned());
                        return Err(Failed::new(OriginError::Malformed));
                    }
                    None => {
                        active.answered(asked);
                        origin.hide(response.headers_mut());
                        let connection = ResponseConnection::Pooled(pooled, active);
                        let secure = server.url.is_secure();
                        return Ok(OriginResponse::new(response, connection, secure, limits));
                    }
                },
                Err(failed) => failed,
            };
            // The other side may have closed an idle connection meanwhile: then another one is tried.
            body = match failed {
                Failed { unsent: Some(unsent), .. } if used => unsent,
                Failed { closed: true, .. } if used && watch.is_none() && fetch.is_repeatable() => {
                    Outgoing::Nothing
                }
                failed => {
                    server.set_fault(failed.error.to_string());
                    return Err(failed);
                }
            };
        }
    }
}

/// Whether the server says with this status that it cannot answer now, and another one might.
fn is_gateway_error(status: u16) -> bool {
    matches!(status, 502..=504)
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("idle", &self.idle()).finish()
    }
}
