//! Asking for responses that are relayed without the cache.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use super::{Connections, is_gateway_error};
use crate::http::balance::{ServerOrder, TriedServers};
use crate::http::error::OriginError;
use crate::http::exchange::head_for;
use crate::http::fetch::Fetch;
use crate::http::origin::HttpOrigin;
use crate::http::pool::connection;
use crate::http::relay::{ActiveRequest, NoHead, RelayedResponse, ask, bytes_of};
use crate::http::server::Server;

/// A request that one server did not answer.
struct Failed {
    error: OriginError,
    /// Whether the server cannot have seen anything of the request.
    is_unsent: bool,
}

impl Connections {
    /// Asks the first server of `order`, or else the next in turn, for a response to be relayed, and others if that does not
    /// answer. To be called within a `LocalSet`.
    ///
    /// # Errors
    /// See [`OriginError`].
    pub async fn relay(
        &self,
        origin: &Arc<HttpOrigin>,
        fetch: &Fetch,
        order: Option<&ServerOrder<'_>>,
    ) -> Result<RelayedResponse, OriginError> {
        let mut retries = if fetch.is_repeatable() { origin.limits().retries } else { 0 };
        let (mut tried, mut again) = (TriedServers::default(), false);
        let (mut declined, mut error) = (None, OriginError::Unreachable);
        let choose = |now, tried| match order {
            Some(order) => origin.choose_by(order, now, tried),
            None => origin.choose(now, tried),
        };
        loop {
            let now = Instant::now();
            let next = choose(now, tried);
            // A connection that just ended says little about its server: without another server it is asked once more.
            let next = next.or_else(|| choose(now, TriedServers::default()).filter(|_| again));
            let Some(index) = next else { break };
            again = false;
            if tried != TriedServers::default() {
                self.retries.set(self.retries.get() + 1);
            }
            tried.add(index);
            match self.relay_from(origin, index, fetch).await {
                Ok(response) if !is_gateway_error(response.status()) => {
                    origin.report_response(index, fetch);
                    return Ok(response);
                }
                Ok(response) => {
                    origin.report_refusal(index, fetch, response.status());
                    if retries == 0 {
                        return Ok(response);
                    }
                    declined = Some(response);
                }
                Err(failed) => {
                    error = failed.error;
                    origin.report_failure(index, fetch, failed.is_unsent, error);
                    if failed.is_unsent {
                        continue;
                    }
                    if retries == 0 {
                        break;
                    }
                    again = error == OriginError::CutShort;
                }
            }
            retries -= 1;
        }
        declined.ok_or(error)
    }

    async fn relay_from(
        &self,
        origin: &Arc<HttpOrigin>,
        index: usize,
        fetch: &Fetch,
    ) -> Result<RelayedResponse, Failed> {
        let unsent = |error| Failed { error, is_unsent: true };
        let Some(server) = origin.server(index) else { return Err(unsent(OriginError::Unreachable)) };
        let sent = |error| Failed { error, is_unsent: false };
        let request = bytes_of(&head_for(origin, server, fetch).map_err(sent)?);
        let limits = origin.limits();
        let mut active = ActiveRequest::new(origin, index, fetch);
        loop {
            let opened = connection(Rc::clone(&self.streams), origin, (index, server), fetch.client).await;
            let mut pooled = opened.map_err(unsent)?;
            active.connected(pooled.connect_time());
            let asked = Instant::now();
            match ask(&mut pooled, &request, fetch, limits).await {
                Ok((mut head, read)) => {
                    active.answered(asked);
                    origin.hide(&mut head.fields);
                    return Ok(RelayedResponse::new(head, read, pooled, limits, active));
                }
                // The other side may have closed an idle connection meanwhile: then another one is tried.
                Err(NoHead::Closed) if pooled.used && fetch.is_repeatable() => {}
                Err(why) => return Err(sent(note(server, why))),
            }
        }
    }
}

fn note(server: &Server, why: NoHead) -> OriginError {
    let (error, fault) = match why {
        NoHead::Closed => (OriginError::CutShort, OriginError::CutShort.to_string()),
        NoHead::Failed(error) => (error, error.to_string()),
        NoHead::Malformed(fault) => (OriginError::Malformed, fault.to_owned()),
    };
    server.set_fault(fault);
    error
}
