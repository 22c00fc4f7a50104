//! What is known about the orders, for metrics and the status page.

use std::sync::Mutex;
use std::time::SystemTime;

use penstock_sys::lock::Unpoisoned;

use crate::clock::{CaClock, ClockFault};

/// How an order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderOutcome {
    /// With a certificate.
    Issued,
    /// The authority rejected the name, the challenge or the account.
    Rejected,
    /// The authority asks for fewer requests.
    RateLimited,
    /// The authority could not be reached, or had a fault of its own; or the store of the fleet did not answer.
    Unavailable,
    /// A fault of this machine: storage, or the command for DNS.
    Local,
}

impl OrderOutcome {
    /// All of them, in the order of their counts.
    pub const ALL: [Self; 5] =
        [Self::Issued, Self::Rejected, Self::RateLimited, Self::Unavailable, Self::Local];

    /// The word used in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Rejected => "rejected",
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::Local => "local",
        }
    }
}

/// What is happening to the certificate of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameState {
    /// There is none yet.
    #[default]
    Missing,
    /// It is being ordered.
    Ordering,
    /// Another machine or process that shares the storage orders.
    Waiting,
    /// It is there, and not yet due.
    Valid,
    /// The last order failed.
    Failing,
}

impl NameState {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Missing, Self::Ordering, Self::Waiting, Self::Valid, Self::Failing];

    /// The word used in metrics and the status page.
    pub fn label(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Ordering => "ordering",
            Self::Waiting => "waiting",
            Self::Valid => "valid",
            Self::Failing => "failing",
        }
    }
}

/// The state of the certificate of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameStatus {
    /// The host name, or `*.` with a domain.
    pub name: String,
    /// What is happening to it.
    pub state: NameState,
    /// The end of the certificate in the storage; `None` if there is none.
    pub not_after: Option<SystemTime>,
    /// When it is looked at again; the renewal if the state is [`NameState::Valid`].
    pub next: Option<SystemTime>,
    /// Why the last order failed; `None` after a success.
    pub error: Option<String>,
}

/// The state of all names. Written by the thread of orders, read by scrapes.
#[derive(Debug, Default)]
pub struct AcmeStatus(Mutex<Statuses>);

#[derive(Debug, Default)]
struct Statuses {
    names: Vec<NameStatus>,
    outcomes: [u64; OrderOutcome::ALL.len()],
    clock: CaClock,
}

impl AcmeStatus {
    /// The names with a certificate of the authority, in the order of the configuration.
    pub fn names(&self) -> Vec<NameStatus> {
        self.0.lock().unpoisoned().names.clone()
    }

    /// Orders by their outcome, in the order of [`OrderOutcome::ALL`].
    pub fn outcomes(&self) -> [u64; OrderOutcome::ALL.len()] {
        self.0.lock().unpoisoned().outcomes
    }

    /// What is wrong with the clock of this machine now, to judge by the authority.
    pub fn clock_fault(&self) -> Option<ClockFault> {
        let clock = self.0.lock().unpoisoned().clock.clone();
        clock.fault()
    }

    /// Follows what is known of the authority's clock.
    pub(crate) fn follow(&self, clock: CaClock) {
        self.0.lock().unpoisoned().clock = clock;
    }

    /// Forgets all names, and takes these.
    pub fn reset(&self, names: &[String]) {
        let new = |name: &String| NameStatus { name: name.clone(), ..NameStatus::default() };
        self.0.lock().unpoisoned().names = names.iter().map(new).collect();
    }

    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut NameStatus)) {
        let mut state = self.0.lock().unpoisoned();
        if let Some(known) = state.names.iter_mut().find(|known| known.name == name) {
            change(known);
        }
    }

    pub(crate) fn count(&self, outcome: OrderOutcome) {
        self.0.lock().unpoisoned().outcomes[outcome as usize] += 1;
    }
}
