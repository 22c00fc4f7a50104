//! Health checks of servers, independent of requests.

use std::sync::Arc;
use std::time::Instant;

use tokio::task::spawn_local;
use tokio::time::timeout;

use super::body::Outgoing;
use super::dial::dial;
use super::fetch::{self, Fetch};
use super::origin::HttpOrigin;

impl HttpOrigin {
    /// Starts tasks that check the servers that are due. To be called about once a second by any number of workers,
    /// within a `LocalSet`.
    pub fn check_health(self: &Arc<Self>, now: Instant) {
        let Some(check) = &self.settings.health_check else { return };
        for index in self.claim_due_checks(now, check.interval) {
            let origin = Arc::clone(self);
            spawn_local(async move {
                let fault = origin.check(index).await.err();
                origin.report_check(index, fault);
            });
        }
    }

    /// Checks a server on a new connection, which proves more than an open one.
    async fn check(&self, index: usize) -> Result<(), String> {
        let (Some(server), Some(check)) = (self.server(index), &self.settings.health_check) else {
            return Ok(());
        };
        let fetch = Fetch::get(&check.path);
        let asked = async {
            let head =
                fetch::head(&server.url, self.host(server), &fetch).map_err(|error| error.to_string())?;
            let within = self.limits().connect.min(check.interval);
            let dialled = dial(self, server, None, None, within).await;
            let mut sender = dialled.map_err(|_| server.fault())?;
            sender.progress.begin(2 * self.limits().read_bytes);
            let sent = sender.requests.send_request(fetch::with_body(&head, Outgoing::Nothing, None)).await;
            let response = sent.map_err(|error| format!("{}: {error}", check.path))?;
            let status = response.status();
            if let Some(field) = check.note.and_then(|name| response.headers().get(name)) {
                server.set_note(field.to_str().unwrap_or_default());
            }
            let well = status.is_success() || status.is_redirection();
            if well { Ok(()) } else { Err(format!("{} is answered with {}", check.path, status.as_u16())) }
        };
        match timeout(check.interval, asked).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("{} is not answered within {:?}", check.path, check.interval)),
        }
    }
}
