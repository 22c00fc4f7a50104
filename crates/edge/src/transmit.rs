//! Driving one response to its end: the only place that waits for a client to take bytes.

use std::rc::Rc;
use std::time::{Duration, Instant};

use penstock_config::{Limits, limits};
use penstock_egress::{SendError, Step, Transmission};
use penstock_origin::residency::{NotResident, Stream};
use tokio::time::sleep_until;

use crate::cached::{Following, Stretch};
use crate::connection::{Connection, Pulled};
use crate::metrics::ShortReason;
use crate::settings::Settings;

/// How a transmission went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Bytes handed to the socket, head included, before encryption.
    pub(crate) bytes: u64,
    /// When the first of them were.
    pub(crate) first_byte: Option<Instant>,
    /// Why it ended early, if it did. The connection is then only good for closing.
    pub(crate) short: Option<ShortReason>,
}

impl Connection {
    /// Sends all of `transmission`, or as much as client, file and deadlines allow.
    pub(crate) async fn transmit(&mut self, mut transmission: Transmission, settings: &Settings) -> Sent {
        let sent = self.drive(&mut transmission, settings).await;
        for file in transmission.into_files() {
            // Ours may be the last reference to a file that has been replaced, and closing it can take a while.
            self.worker.io.discard(file);
        }
        sent
    }

    async fn drive(&mut self, transmission: &mut Transmission, settings: &Settings) -> Sent {
        let started = Instant::now();
        let mut sent = Sent { bytes: 0, first_byte: None, short: None };
        let mut stream = Stream::default();
        self.way.before_response(&mut self.outlet, transmission, &settings.kernel);
        loop {
            let now = Instant::now();
            match self.outlet.advance(transmission, now) {
                Ok(Step::Done) => return sent,
                Ok(Step::Sent(count)) => {
                    sent.first_byte.get_or_insert(now);
                    sent.bytes += count as u64;
                    self.worker.shard.sent(self.outlet_kind(), count as u64);
                    if transmission.remaining() > 0 {
                        // Other viewers of this core get their turn between two batches.
                        tokio::task::yield_now().await;
                        if self.listens(settings) {
                            sent.short = self.hear();
                        }
                        // Whoever takes an answer this long to finish its handshake may be nobody's client.
                        if self.early_deadline().is_some_and(|deadline| now > deadline) {
                            sent.short = Some(ShortReason::TooSlow);
                        }
                    }
                }
                Ok(Step::Blocked) => {
                    let deadline = write_deadline(started, sent.bytes, &settings.limits);
                    let deadline = deadline.into_iter().chain(self.early_deadline()).min();
                    sent.short = self.wait_for_room(deadline, settings).await;
                }
                Ok(Step::Cold(rest)) => {
                    let window = rest.len.min(limits::RESIDENCE_WINDOW_BYTES);
                    let residency = &self.worker.residency;
                    match residency.ensure_resident(&mut stream, &rest, rest.offset, window, now).await {
                        Ok(()) => transmission.warmed(window),
                        Err(NotResident::Truncated) => sent.short = Some(ShortReason::Truncated),
                        Err(NotResident::Busy | NotResident::Failed(_)) => sent.short = Some(ShortReason::Io),
                    }
                }
                Ok(Step::Starved) => {
                    let deadline = Instant::now() + Duration::from_secs(limits::SOURCE_DEADLINE_SECONDS);
                    sent.short = self.wait_for_source(transmission, deadline, settings).await;
                }
                Err(error) => {
                    if let SendError::Kernel(reason) = error {
                        self.worker.shard.egress_ended(reason);
                    }
                    sent.short = Some(short_reason(&error));
                }
            }
            if sent.short.is_some() {
                return sent;
            }
        }
    }

    /// Waits until the socket takes more, listening to the client meanwhile.
    async fn wait_for_room(&mut self, deadline: Option<Instant>, settings: &Settings) -> Option<ShortReason> {
        let too_late = async {
            match deadline {
                Some(deadline) => sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ready = self.socket.writable() => ready.err().map(|_| ShortReason::ClientClosed),
            ready = self.socket.readable(), if self.listens(settings) => match ready {
                Ok(()) => self.hear(),
                Err(_) => Some(ShortReason::ClientClosed),
            },
            () = too_late => Some(ShortReason::TooSlow),
        }
    }

    /// Waits until the source of the body has more, listening to the client meanwhile.
    async fn wait_for_source(
        &mut self,
        transmission: &Transmission,
        deadline: Instant,
        settings: &Settings,
    ) -> Option<ShortReason> {
        let source = Rc::clone(transmission.source()?.socket());
        tokio::select! {
            biased;
            // An error of the source shows up again when it is read.
            _ = source.readable() => None,
            ready = self.socket.readable(), if self.listens(settings) => match ready {
                Ok(()) => self.hear(),
                Err(_) => Some(ShortReason::ClientClosed),
            },
            () = sleep_until(deadline.into()) => Some(ShortReason::Io),
        }
    }

    /// Waits for more of a body that is still coming, listening to the client meanwhile.
    pub(crate) async fn wait_for_stretch(
        &mut self,
        following: &mut Following,
        settings: &Settings,
    ) -> Result<Option<Stretch>, ShortReason> {
        let worker = Rc::clone(&self.worker);
        loop {
            let listens = self.listens(settings);
            tokio::select! {
                biased;
                next = following.next(&worker) => return next.map_err(|_| ShortReason::Origin),
                ready = self.socket.readable(), if listens => match ready {
                    Ok(()) => {
                        if let Some(why) = self.hear() {
                            return Err(why);
                        }
                    }
                    Err(_) => return Err(ShortReason::ClientClosed),
                },
            }
        }
    }

    /// Takes in what the client has to say during a response: pipelined requests, KeyUpdates, its end.
    fn hear(&mut self) -> Option<ShortReason> {
        match self.pull() {
            Pulled::Bytes | Pulled::Nothing => None,
            Pulled::Ended if self.inbound.end_means_gone() => Some(ShortReason::ClientClosed),
            Pulled::Ended => None,
            Pulled::Broken(alert) => {
                self.part_with(alert);
                Some(ShortReason::ClientClosed)
            }
        }
    }
}

/// When a client that has taken `sent` bytes since `started` counts as too slow; `None` without a minimum rate.
fn write_deadline(started: Instant, sent: u64, limits: &Limits) -> Option<Instant> {
    let earned = sent.checked_div(limits.minimum_rate)?;
    // A year is as good as never, and cannot overflow.
    let earned = Duration::from_secs(earned.min(365 * 24 * 3600));
    Some(started + limits.minimum_rate_grace + earned)
}

fn short_reason(error: &SendError) -> ShortReason {
    match error {
        SendError::Truncated => ShortReason::Truncated,
        SendError::Gone => ShortReason::ClientClosed,
        SendError::Io(_) | SendError::KeysWornOut | SendError::Internal | SendError::Kernel(_) => {
            ShortReason::Io
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_earns_a_second_for_each_minimum_rate_it_takes() {
        let limits =
            Limits { minimum_rate: 1024, minimum_rate_grace: Duration::from_secs(30), ..Limits::default() };
        let start = Instant::now();
        let deadline = |sent| write_deadline(start, sent, &limits).unwrap() - start;
        assert_eq!(deadline(0), Duration::from_secs(30));
        assert_eq!(deadline(10 * 1024), Duration::from_secs(40));
        assert!(deadline(u64::MAX) > Duration::from_secs(1_000_000));
    }

    #[test]
    fn without_a_minimum_rate_nobody_is_too_slow() {
        let limits = Limits { minimum_rate: 0, ..Limits::default() };
        assert_eq!(write_deadline(Instant::now(), 0, &limits), None);
    }
}
