//! The connection of a request: a kept one, one that other requests share, or a new one.

use std::net::SocketAddr;
use std::rc::Rc;

use tokio::sync::Mutex;

use super::ask::{BodyHandling, ask};
use crate::failure::LoadFailure;
use crate::net::{ConnectReport, HttpConnection, ResponseSummary};
use crate::target::TargetUrl;
use crate::worker::LoadThread;
use crate::workload::PreparedRequest;

/// An open connection and the address of its server.
pub(super) struct OpenConnection {
    connection: HttpConnection,
    address: SocketAddr,
}

/// How requests reach a server.
pub(super) enum Route {
    /// One after the other, on a connection that is kept if possible.
    Alone(Option<OpenConnection>),
    /// Beside other requests.
    Shared(Rc<SharedConnection>),
}

/// A connection that several requests use at a time. It is opened by the first of them.
#[derive(Default)]
pub(super) struct SharedConnection(Mutex<Option<OpenConnection>>);

impl SharedConnection {
    /// Makes the next request open another connection; requests under way go on.
    fn forget(&self, used: &OpenConnection) {
        // While a request opens a connection, there is none to forget.
        if let Ok(mut current) = self.0.try_lock()
            && current.as_ref().is_some_and(|current| current.is_same(used))
        {
            *current = None;
        }
    }
}

impl OpenConnection {
    /// Another handle of a connection that requests may share.
    fn share(&self) -> Option<Self> {
        match &self.connection {
            HttpConnection::Http2(shared) if shared.is_open() => {
                Some(Self { connection: HttpConnection::Http2(shared.clone()), address: self.address })
            }
            HttpConnection::Http3(shared) if shared.is_open() => {
                Some(Self { connection: HttpConnection::Http3(shared.clone()), address: self.address })
            }
            _ => None,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (&self.connection, &other.connection) {
            (HttpConnection::Http2(one), HttpConnection::Http2(other)) => one.is_same(other),
            (HttpConnection::Http3(one), HttpConnection::Http3(other)) => one.is_same(other),
            _ => false,
        }
    }

    async fn open(
        worker: &LoadThread,
        elsewhere: Option<&TargetUrl>,
    ) -> Result<(Self, ConnectReport), LoadFailure> {
        let address = match elsewhere {
            None => worker.next_address(),
            Some(target) => worker.look_up(target).await?,
        };
        let (connection, report) = worker.connect_to(elsewhere, address).await?;
        Ok((Self { connection, address }, report))
    }
}

impl Route {
    /// Takes the connection that is left, unless others may still use it.
    pub(super) fn into_connection(self) -> Option<HttpConnection> {
        let kept = match self {
            Self::Alone(kept) => kept,
            Self::Shared(shared) => Rc::into_inner(shared)?.0.into_inner(),
        };
        kept.map(|kept| kept.connection)
    }

    /// A connection that has carried requests, if there is one.
    async fn take_used(&mut self) -> Option<OpenConnection> {
        match self {
            Self::Alone(kept) => kept.take(),
            Self::Shared(shared) => shared.0.lock().await.as_ref().and_then(OpenConnection::share),
        }
    }

    /// A new connection. Of several requests that need one, the first opens it and the others use it: they get no report.
    async fn open(
        &mut self,
        worker: &LoadThread,
        elsewhere: Option<&TargetUrl>,
    ) -> Result<(OpenConnection, Option<ConnectReport>), LoadFailure> {
        let opened = match self {
            Self::Alone(_) => OpenConnection::open(worker, elsewhere).await?,
            Self::Shared(shared) => {
                let mut current = shared.0.lock().await;
                if let Some(open) = current.as_ref().and_then(OpenConnection::share) {
                    return Ok((open, None));
                }
                let (opened, report) = OpenConnection::open(worker, elsewhere).await?;
                *current = opened.share();
                (opened, report)
            }
        };
        Ok((opened.0, Some(opened.1)))
    }

    /// Keeps the connection if possible and wanted; otherwise ends it.
    async fn settle(&mut self, worker: &LoadThread, used: OpenConnection, outcome: &RequestOutcome) {
        let each = worker.plan.workload.connection_each;
        match (self, outcome) {
            (Self::Shared(_), Ok(Some(_))) if !each => {}
            // A stream that was given up leaves its connection in order.
            (Self::Shared(_), Ok(None) | Err(LoadFailure::StreamReset(_) | LoadFailure::BodyTimeout)) => {}
            (Self::Shared(shared), outcome) => {
                shared.forget(&used);
                if outcome.is_ok() {
                    worker.end_connection(used.connection).await;
                }
            }
            (Self::Alone(kept), Ok(Some(answer))) if answer.keeps_alive && !each => *kept = Some(used),
            (Self::Alone(_), Ok(Some(_))) => worker.end_connection(used.connection).await,
            // The response was given up: the connection cannot be ended in an orderly way.
            (Self::Alone(_), Ok(None) | Err(_)) => drop(used),
        }
    }
}

/// A whole response, or `None` if the run ended within it.
pub(super) type RequestOutcome = Result<Option<ResponseSummary>, LoadFailure>;

/// Sends one request and reads the response. `elsewhere` is the server if it is not the plan's.
pub(super) async fn once(
    worker: &LoadThread,
    route: &mut Route,
    elsewhere: Option<&TargetUrl>,
    request: &PreparedRequest,
    reading: &BodyHandling<'_>,
) -> RequestOutcome {
    if let Some(mut used) = route.take_used().await {
        match ask(worker, (&mut used.connection, used.address), request, reading).await {
            // The server may have ended the idle connection before it saw the request.
            Err(failure) if may_be_sent_again(request, failure) => {
                let mut tally = worker.tally();
                tally.retried += 1;
                tally.retried_resets += u64::from(failure == LoadFailure::ResetBeforeResponse);
                drop(tally);
                if let Route::Shared(shared) = route {
                    shared.forget(&used);
                }
            }
            outcome => return finish(worker, route, used, request, outcome).await,
        }
    }
    let (mut open, report) = route.open(worker, elsewhere).await?;
    let outcome = ask(worker, (&mut open.connection, open.address), request, reading).await;
    if let Some(report) = report
        && report.early_data
        && !open.connection.is_in_early_data()
    {
        worker.note_handshake(open.address, open.connection.facts(), &report);
    }
    finish(worker, route, open, request, outcome).await
}

/// Whether a request that a kept connection did not answer may be sent again: if it was not sent completely, or if its
/// method allows it (RFC 9110 §9.2.2, RFC 9112 §9.3.1, RFC 9113 §8.7). The server may have acted upon any other one.
fn may_be_sent_again(request: &PreparedRequest, failure: LoadFailure) -> bool {
    match failure {
        LoadFailure::RequestNotSent => true,
        LoadFailure::ClosedBeforeResponse | LoadFailure::ResetBeforeResponse => request.is_idempotent(),
        _ => false,
    }
}

async fn finish(
    worker: &LoadThread,
    route: &mut Route,
    used: OpenConnection,
    request: &PreparedRequest,
    outcome: RequestOutcome,
) -> RequestOutcome {
    if let Err(failure) = outcome {
        worker.blame(used.address, &used.connection, request, failure);
    }
    route.settle(worker, used, &outcome).await;
    outcome
}
