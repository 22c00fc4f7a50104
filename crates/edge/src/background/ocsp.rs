//! Where each certificate's staple comes from, and when it is looked for.

use std::collections::HashMap;
use std::future;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use penstock_config::{Config, Ocsp, limits};
use penstock_sys::lock::Unpoisoned;
use penstock_sys::small_file;
use penstock_tls::ocsp::schedule::{self, RefreshLimits};
use penstock_tls::ocsp::{self, Fingerprint, StapleFault, Stapled, Staples};
use tokio::task::JoinSet;

use super::fetch::{self, FetchError};
use crate::metrics::{BackgroundCounters, StapleOutcome, StapleSource};
use crate::worker::labels::staple_fault;

const LIMITS: RefreshLimits = RefreshLimits {
    pause_min: Duration::from_secs(limits::OCSP_PAUSE_SECONDS_MIN),
    pause_max: Duration::from_secs(limits::OCSP_PAUSE_SECONDS_MAX),
};

/// The configuration of staples.
#[derive(Debug)]
pub(super) struct Sources {
    /// For certificates that say something themselves.
    own: HashMap<Fingerprint, Ocsp>,
    all_others: Ocsp,
}

impl Sources {
    pub(super) fn of(config: &Config, staples: &Staples) -> Self {
        let own = config
            .tls
            .certificates
            .iter()
            .filter_map(|one| Some((staples.of(&one.certificate).fingerprint, one.ocsp.clone()?)));
        Self { own: own.collect(), all_others: config.tls.ocsp.clone() }
    }

    fn of_certificate(&self, fingerprint: &Fingerprint) -> &Ocsp {
        self.own.get(fingerprint).unwrap_or(&self.all_others)
    }
}

/// Staples that come from files.
pub(super) struct Files {
    staples: Arc<Staples>,
    counters: Arc<BackgroundCounters>,
    /// Each file as it was when it was read last.
    seen: Mutex<HashMap<Fingerprint, Seen>>,
}

/// A file, whether it stands for other certificates too, and its stamp.
type Seen = (PathBuf, bool, Option<Stamp>);

/// Changes with each replacement of a file, and with most ways of writing into it.
type Stamp = (u64, u64, i64, i64);

impl Files {
    pub(super) fn new(staples: Arc<Staples>, counters: Arc<BackgroundCounters>) -> Self {
        Self { staples, counters, seen: Mutex::default() }
    }

    /// Takes up files that have changed, and takes away staples that are not wanted any more.
    pub(super) fn read(&self, sources: &Sources, now: SystemTime) {
        let all = self.staples.all();
        let mut seen = self.seen.lock().unpoisoned();
        seen.retain(|known, _| all.iter().any(|stapled| stapled.fingerprint == *known));
        for stapled in all {
            match sources.of_certificate(&stapled.fingerprint) {
                Ocsp::File(path) => {
                    let others_may_fit = !sources.own.contains_key(&stapled.fingerprint);
                    let found = (path.clone(), others_may_fit, stamp_of(path));
                    if seen.get(&stapled.fingerprint) != Some(&found) {
                        seen.insert(stapled.fingerprint, found);
                        read_file(path, &stapled, others_may_fit, now, &self.counters);
                    }
                }
                Ocsp::Off => stapled.replace(None),
                Ocsp::Auto => drop(seen.remove(&stapled.fingerprint)),
            }
        }
    }
}

/// Staples that come from responders.
pub(super) struct Questions {
    staples: Arc<Staples>,
    counters: Arc<BackgroundCounters>,
    states: HashMap<Fingerprint, ResponderState>,
    asked: JoinSet<Answered>,
}

type Answered = (Arc<Stapled>, Result<Vec<u8>, FetchError>);

/// The state of the responder of one certificate.
#[derive(Debug, Default)]
struct ResponderState {
    /// When it is asked next; `None` as soon as possible.
    next: Option<Instant>,
    asking: bool,
    failures: u32,
}

impl Questions {
    pub(super) fn new(staples: Arc<Staples>, counters: Arc<BackgroundCounters>) -> Self {
        Self { staples, counters, states: HashMap::new(), asked: JoinSet::new() }
    }

    /// Asks the responders whose turn it is, a few at a time.
    pub(super) fn ask(&mut self, sources: &Sources, now: SystemTime) {
        let moment = Instant::now();
        let all = self.staples.all();
        self.states.retain(|known, _| all.iter().any(|stapled| stapled.fingerprint == *known));
        for stapled in all {
            if self.asked.len() >= limits::OCSP_FETCHES {
                return;
            }
            let state = self.states.entry(stapled.fingerprint).or_default();
            let due = state.next.is_none_or(|next| next <= moment) && !state.asking;
            if !due || *sources.of_certificate(&stapled.fingerprint) != Ocsp::Auto {
                continue;
            }
            let Some((responder, question)) = question_of(&stapled) else { continue };
            if state.next.is_none() && state.failures == 0 {
                // After a reload of the program's settings it may still be good for long.
                if let Some(staple) = stapled.current(now) {
                    let random = penstock_tls::random_number();
                    state.next = Some(moment + schedule::pause(Some(&staple), 0, now, random, &LIMITS));
                    continue;
                }
            }
            state.asking = true;
            self.asked.spawn(async move {
                let answer = fetch::ask(&responder, &question).await;
                (stapled, answer)
            });
        }
    }

    /// Waits for an answer and puts it to use; for ever if none is awaited.
    pub(super) async fn take_answer(&mut self) {
        match self.asked.join_next().await {
            Some(Ok((stapled, answer))) => self.take(&stapled, answer, SystemTime::now()),
            Some(Err(error)) => tracing::error!(%error, "a question to an OCSP responder was lost"),
            None => future::pending().await,
        }
    }

    fn take(&mut self, stapled: &Stapled, answer: Result<Vec<u8>, FetchError>, now: SystemTime) {
        let Ok(identity) = &stapled.identity else { return };
        let state = self.states.entry(stapled.fingerprint).or_default();
        state.asking = false;
        let checked = answer
            .map_err(|error| (StapleOutcome::from(&error), error.to_string()))
            .and_then(|response| ocsp::check(&response, identity, now).map_err(described));
        let outcome = checked.as_ref().map_or_else(|(outcome, _)| *outcome, |_| StapleOutcome::Ok);
        self.counters.staple(StapleSource::Responder, outcome);
        let next_update = match checked {
            Ok(staple) => {
                if state.failures > 0 {
                    tracing::info!(name = stapled.name, "the OCSP responder answers again");
                }
                state.failures = 0;
                let next_update = Some(staple.clone());
                stapled.replace(Some(staple));
                next_update
            }
            Err((outcome, why)) => {
                state.failures = state.failures.saturating_add(1);
                if outcome == StapleOutcome::Revoked {
                    // What is stapled still says the opposite.
                    stapled.replace(None);
                    tracing::error!(name = stapled.name, "this certificate is revoked: replace it");
                } else if state.failures == 1 {
                    tracing::warn!(name = stapled.name, "no new OCSP response for this certificate: {why}");
                } else {
                    tracing::debug!(
                        name = stapled.name,
                        failures = state.failures,
                        "no OCSP response: {why}"
                    );
                }
                None
            }
        };
        let random = penstock_tls::random_number();
        let pause = schedule::pause(next_update.as_ref(), state.failures, now, random, &LIMITS);
        state.next = Some(Instant::now() + pause);
    }
}

/// The responder's URL and the request; `None` without a responder or if a response could not be verified.
fn question_of(stapled: &Stapled) -> Option<(String, Vec<u8>)> {
    let identity = stapled.identity.as_ref().ok()?;
    Some((identity.responder.clone()?, identity.request()?))
}

fn described(fault: StapleFault) -> (StapleOutcome, String) {
    (staple_fault(fault), fault.to_string())
}

/// Staples the response in a file. An unusable response removes the staple, because the operator replaced the file.
fn read_file(
    path: &Path,
    stapled: &Stapled,
    others_may_fit: bool,
    now: SystemTime,
    counters: &BackgroundCounters,
) {
    let Ok(identity) = &stapled.identity else { return };
    let checked = small_file::read(path, limits::OCSP_RESPONSE_BYTES)
        .map_err(|error| (StapleOutcome::Unreadable, error.to_string()))
        .and_then(|response| ocsp::check(&response, identity, now).map_err(described));
    match checked {
        Ok(staple) => {
            counters.staple(StapleSource::File, StapleOutcome::Ok);
            stapled.replace(Some(staple));
        }
        // One file for all: it speaks of one of them.
        Err((StapleOutcome::WrongCertificate, _)) if others_may_fit => stapled.replace(None),
        Err((outcome, why)) => {
            counters.staple(StapleSource::File, outcome);
            stapled.replace(None);
            let (file, name) = (path.display(), &stapled.name);
            tracing::warn!(name, "the OCSP response in {file} is not stapled: {why}");
        }
    }
}

fn stamp_of(path: &Path) -> Option<Stamp> {
    let found = path.metadata().ok()?;
    Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}
