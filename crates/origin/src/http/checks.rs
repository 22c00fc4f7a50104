//! Asking targets how they are, whether anybody wants something of them or not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::spawn_local;
use tokio::time::timeout;

use super::body::Outgoing;
use super::dial::dial;
use super::fetch::{self, Fetch};
use super::target::HttpOrigin;

/// What targets are asked to find out how they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Path and query of a GET that is answered with 2xx or 3xx by a target that is well.
    pub path: String,
    /// From the begin of one to the begin of the next, and how long one may take.
    pub interval: Duration,
}

impl HttpOrigin {
    /// Checks the targets whose turn it is, behind the back of the caller. To be called about once a second by any
    /// number of workers, within a `LocalSet`.
    pub fn check_health(self: &Arc<Self>, now: Instant) {
        let Some(checks) = &self.settings.checks else { return };
        for place in self.due_checks(now, checks.interval) {
            let origin = Arc::clone(self);
            spawn_local(async move {
                let wrong = origin.check(place).await.err();
                origin.report_check(place, wrong);
            });
        }
    }

    /// Asks a target. On a connection of its own, which tells more than one that is open already.
    async fn check(&self, place: usize) -> Result<(), String> {
        let (Some(target), Some(checks)) = (self.target(place), &self.settings.checks) else { return Ok(()) };
        let fetch = Fetch::get(&checks.path);
        let asked = async {
            let head =
                fetch::head(&target.url, self.host(target), &fetch).map_err(|error| error.to_string())?;
            let mut sender = dial(self, target, None).await.map_err(|_| target.fault())?;
            let sent = sender.send_request(fetch::with_body(&head, Outgoing::Nothing)).await;
            let status = sent.map_err(|error| format!("{}: {error}", checks.path))?.status();
            let well = status.is_success() || status.is_redirection();
            if well { Ok(()) } else { Err(format!("{} is answered with {}", checks.path, status.as_u16())) }
        };
        match timeout(checks.interval, asked).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("{} is not answered within {:?}", checks.path, checks.interval)),
        }
    }
}
