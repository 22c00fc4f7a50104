//! The strike register of the fleet: a ClientHello with early data is accepted by one edge once (RFC 8446 §8.2).
//!
//! The store remembers each ClientHello for as long as a copy of it can be accepted. One from before the register began,
//! as it does when the store was emptied, cannot be judged and counts as a replay.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::SystemTime;

use penstock_tls::early_data::SharedStrikes;
use penstock_tls::strikes::{SKEW_SECONDS, StrikeResult};
use redis::{Pipeline, Value};

use crate::counters::{Operation, Outcome};
use crate::link::{Fault, Link, RUN_DIGITS, text_of};
use crate::seal::Sealer;
use crate::store_facts::StoreFacts;
use crate::ticket_keys::seconds;

/// Percent of the store's memory from which on no session is stored: clients cause sessions, and what is left is for the rest.
const SESSIONS_PERCENT: u64 = 90;

/// The most that clocks of edges may differ.
const CLOCKS_SECONDS: u64 = 30;

/// How long a ClientHello is remembered: it is accepted within the skew before and after the time that it claims, by
/// edges whose clocks differ.
const KEPT_SECONDS: u64 = 2 * (SKEW_SECONDS + CLOCKS_SECONDS);

/// The register in the store.
pub(crate) struct FleetStrikes {
    pub(crate) link: Arc<Link>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) prefix: String,
    /// Whether the store keeps what it has when its memory is full, and so forgets no ClientHello.
    pub(crate) store_keeps: AtomicBool,
    /// Whether a store that forgets was mentioned in the log.
    pub(crate) is_said: AtomicBool,
}

impl FleetStrikes {
    /// The entry that says since when the register exists.
    fn begin_name(&self) -> String {
        format!("{}strikes", self.prefix)
    }

    /// The entry that says which process of the store the register began in.
    fn run_name(&self) -> String {
        format!("{}strikes:run", self.prefix)
    }

    /// Has early data wait until [`Self::keep`] has found the register complete, on a new connection.
    pub(crate) fn doubt(&self) {
        self.store_keeps.store(false, Relaxed);
    }

    /// Begins the register if the store has none, or may have lost strikes because it started from an older state. Finds
    /// out whether the store forgets. Called about once a second.
    ///
    /// # Errors
    /// The store does not answer, or takes no entries.
    pub(crate) async fn keep(&self) -> Result<(), Fault> {
        let now = seconds(SystemTime::now());
        let run = self.link.run();
        let mut commands = Pipeline::with_capacity(3);
        // There is no such entry; a replica refuses the command.
        commands.cmd("DEL").arg(format!("{}strikes:none", self.prefix));
        commands.cmd("GETRANGE").arg(self.begin_name()).arg(0).arg(TIME_DIGITS);
        commands.cmd("GETRANGE").arg(self.run_name()).arg(0).arg(RUN_DIGITS);
        let found = match self.link.ask_patiently(Operation::Strike, &commands).await {
            Ok(answers) => Register::of(answers.get(1..).unwrap_or_default(), run.as_deref(), now),
            Err(Fault::WrongType) => Register::Damaged,
            Err(fault) => return Err(fault),
        };
        if found != Register::Complete {
            if found == Register::Damaged {
                self.link.counters.count(Operation::Strike, Outcome::Forged);
            }
            commands.clear();
            // The time first: an edge that finds the new process must not find the old time.
            commands.cmd("SET").arg(self.begin_name()).arg(now);
            commands.cmd("SET").arg(self.run_name()).arg(run.unwrap_or_default());
            self.link.ask_patiently(Operation::Strike, &commands).await?;
        }
        commands.clear();
        commands.cmd("INFO").arg("memory");
        // A store that does not say so is believed to be configured as the documentation says.
        let answers = self.link.ask_patiently(Operation::Strike, &commands).await.unwrap_or_default();
        let facts = StoreFacts::of_info(answers.first().and_then(text_of).unwrap_or_default());
        self.link.is_nearly_full.store(facts.uses_more_than(SESSIONS_PERCENT), Relaxed);
        let forgets = facts.forgets();
        self.store_keeps.store(!forgets, Relaxed);
        if forgets && !self.is_said.swap(true, Relaxed) {
            tracing::warn!(
                "fleet: the store drops entries when its memory is full, so it cannot tell replays: early data waits \
                 for the end of each handshake; set maxmemory-policy noeviction"
            );
        }
        Ok(())
    }
}

/// What the store has of the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register {
    /// All strikes since its time.
    Complete,
    /// Nothing, or the strikes that another process of the store had persisted.
    Partial,
    /// Something that is no time in the past.
    Damaged,
}

impl Register {
    /// `answers` are the time when the register began, and the process of the store that it began in; `run` is the process
    /// that answers now. A store that does not say so is believed to be the same.
    fn of(answers: &[Value], run: Option<&str>, now: u64) -> Self {
        let [began, began_in] = answers else { return Self::Damaged };
        let is_same = run.is_none() || run == text_of(began_in);
        match (text_of(began), time_of(began)) {
            (Some(""), _) => Self::Partial,
            (_, Some(began)) if began <= now + CLOCKS_SECONDS => match is_same {
                true => Self::Complete,
                false => Self::Partial,
            },
            _ => Self::Damaged,
        }
    }
}

/// The last place of a time in decimal digits.
const TIME_DIGITS: usize = 20;

fn time_of(value: &Value) -> Option<u64> {
    text_of(value)?.parse().ok()
}

impl SharedStrikes for FleetStrikes {
    fn strike(
        self: Arc<Self>,
        client_random: &[u8],
        claimed: u64,
    ) -> Pin<Box<dyn Future<Output = StrikeResult> + Send>> {
        let name = format!("{}strike:{}", self.prefix, self.sealer.pseudonym("strike", &[client_random]));
        Box::pin(async move {
            if !self.store_keeps.load(Relaxed) || !self.link.may_ask(Operation::Strike) {
                return StrikeResult::NoAnswer;
            }
            let mut commands = Pipeline::with_capacity(2);
            commands.cmd("GETRANGE").arg(self.begin_name()).arg(0).arg(TIME_DIGITS);
            commands.cmd("SET").arg(name).arg(1).arg("NX").arg("EX").arg(KEPT_SECONDS);
            let Ok(answers) = self.link.ask_in_time(Operation::Strike, &commands).await else {
                return StrikeResult::NoAnswer;
            };
            let result = judge(&answers, claimed);
            let outcome = if result == StrikeResult::Replayed { Outcome::Miss } else { Outcome::Ok };
            self.link.counters.count(Operation::Strike, outcome);
            result
        })
    }
}

/// `answers` are the time when the register began, and whether the ClientHello was new.
fn judge(answers: &[Value], claimed: u64) -> StrikeResult {
    let [began, recorded] = answers else { return StrikeResult::NoAnswer };
    if !matches!(recorded, Value::Okay) {
        return StrikeResult::Replayed;
    }
    match time_of(began) {
        Some(began) if claimed >= began.saturating_add(SKEW_SECONDS + CLOCKS_SECONDS) => StrikeResult::Fresh,
        _ => StrikeResult::BeforeStart,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_of_another_process_of_the_store_is_not_complete() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        for (began, began_in, run, found) in [
            ("1000", "a", Some("a"), Register::Complete),
            ("1000", "a", Some("b"), Register::Partial),
            ("1000", "", Some("b"), Register::Partial),
            ("1000", "a", None, Register::Complete),
            ("", "", Some("a"), Register::Partial),
            ("1031", "a", Some("a"), Register::Damaged),
            ("x", "a", Some("a"), Register::Damaged),
        ] {
            assert_eq!(Register::of(&[text(began), text(began_in)], run, 1000), found, "{began} {began_in}");
        }
        assert_eq!(Register::of(&[], None, 1000), Register::Damaged);
    }

    #[test]
    fn a_hello_is_fresh_if_it_is_new_and_the_register_is_older_than_any_copy_of_it() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        for (began, recorded, claimed, result) in [
            (text("1000"), Value::Okay, 1090, StrikeResult::Fresh),
            (text("1000"), Value::Okay, 1089, StrikeResult::BeforeStart),
            (text("1000"), Value::Nil, 1090, StrikeResult::Replayed),
            // The store was emptied, or the entry is damaged.
            (text(""), Value::Okay, 1090, StrikeResult::BeforeStart),
            (text("x"), Value::Okay, 1090, StrikeResult::BeforeStart),
        ] {
            assert_eq!(judge(&[began, recorded], claimed), result);
        }
        assert_eq!(judge(&[], 1090), StrikeResult::NoAnswer);
    }
}
