//! Requests that come before the client has finished its handshake (0-RTT, RFC 8470).
//!
//! The server has sent Finished; in a replay the client's Finished never arrives. So only requests that do no harm when
//! they are repeated are answered at once. All others wait for the end of the handshake.

use std::time::Instant;

use penstock_tls::early_data::EarlyDataOutcome;

use crate::settings::Settings;

/// A handshake that the client has yet to finish.
#[derive(Debug)]
pub(crate) struct UnfinishedHandshake {
    /// When the client has to have finished it.
    pub(crate) deadline: Instant,
    /// Bytes of requests that may still be answered before that.
    allowance: usize,
}

impl UnfinishedHandshake {
    /// The state after a handshake with this outcome of early data; `None` if the handshake is finished.
    pub(crate) fn after(outcome: EarlyDataOutcome, settings: &Settings, deadline: Instant) -> Option<Self> {
        match outcome {
            EarlyDataOutcome::None | EarlyDataOutcome::Rejected(_) => None,
            EarlyDataOutcome::Delayed(_) => Some(Self { deadline, allowance: 0 }),
            EarlyDataOutcome::Accepted => Some(Self { deadline, allowance: settings.early_data_bytes }),
        }
    }

    /// Whether a request with a head of this length, which is harmless if it is GET or HEAD without a body, may be answered before the end of the handshake. After the first one
    /// that may not, none may: responses keep the order of requests.
    pub(crate) fn admits(&mut self, is_harmless: bool, head_bytes: usize) -> bool {
        if is_harmless && head_bytes <= self.allowance {
            self.allowance -= head_bytes;
            return true;
        }
        self.allowance = 0;
        false
    }
}
