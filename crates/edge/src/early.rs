//! Requests that come before the client has finished its handshake (0-RTT, RFC 8470).
//!
//! We have said our last word of the handshake and may answer; the client's last word may be on its way, or never come,
//! because somebody else sends again what it once said. So only what does no harm a second time is answered at once;
//! all else waits for the end of the handshake.

use std::time::Instant;

use penstock_http::{Method, Request, RequestBody};
use penstock_tls::early_data::EarlyData;
use tokio::task::coop::consume_budget;

use crate::connection::{Connection, Pulled};
use crate::settings::Settings;

/// A handshake that the client has yet to finish.
#[derive(Debug)]
pub(crate) struct Early {
    /// By when it has to.
    deadline: Instant,
    /// How many bytes may still be acted upon before that.
    allowance: usize,
}

impl Early {
    /// The time after a handshake in which this became of the early data; `None` if the handshake is finished.
    pub(crate) fn after(outcome: EarlyData, settings: &Settings, deadline: Instant) -> Option<Self> {
        match outcome {
            EarlyData::None | EarlyData::Rejected(_) => None,
            EarlyData::Delayed(_) => Some(Self { deadline, allowance: 0 }),
            EarlyData::Accepted => Some(Self { deadline, allowance: settings.early_data_bytes }),
        }
    }
}

impl Connection {
    /// Whether this request counts as early, after waiting for the end of the handshake if it must not. `None` if that
    /// end never came.
    pub(crate) async fn judge_early(&mut self, request: &Request<'_>, head_bytes: usize) -> Option<bool> {
        let Some(early) = &mut self.early else { return Some(request.came_early()) };
        let harmless =
            matches!(request.method(), Method::Get | Method::Head) && request.body() == RequestBody::None;
        // What stands behind more than may be acted upon waits too: the order of answers is that of requests.
        if harmless && head_bytes <= early.allowance {
            early.allowance -= head_bytes;
            return Some(true);
        }
        early.allowance = 0;
        self.worker.shard.early_request("waited");
        self.finish_handshake().await.then(|| request.came_early())
    }

    /// Waits for the client's end of the handshake; false if it does not come in time.
    async fn finish_handshake(&mut self) -> bool {
        while let Some(deadline) = self.early_deadline() {
            match self.pull() {
                // Bounded: the library takes no more early data than its tickets announce.
                Pulled::Bytes => consume_budget().await,
                Pulled::Broken(alert) => {
                    self.part_with(alert);
                    return false;
                }
                Pulled::Ended => return false,
                Pulled::Nothing if self.early.is_none() => {}
                // The rest of what we have to say may be what the client waits for.
                Pulled::Nothing if self.outlet.flush().is_err() => return false,
                Pulled::Nothing => {
                    if !self.wait_for_bytes(deadline, false).await {
                        self.worker.shard.early_request("abandoned");
                        return false;
                    }
                }
            }
        }
        true
    }

    /// By when the client has to finish its handshake; `None` if it has.
    pub(crate) fn early_deadline(&self) -> Option<Instant> {
        self.early.as_ref().map(|early| early.deadline)
    }

    /// Takes note of the end of the handshake, once it has been read.
    pub(crate) fn notice_finished_handshake(&mut self) {
        if self.early.is_some() && !self.inbound.tls().is_some_and(penstock_tls::Receiver::in_early_data) {
            self.early = None;
        }
    }
}
