//! The thread that orders and renews certificates.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use instant_acme::Account;
use penstock_config::{Acme as Settings, limits};
use penstock_fleet::SharedFiles;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::account;
use crate::client::{CaClient, RetryAfter};
use crate::clock::{CaClock, ClockFault, OwnTime};
use crate::failure::{Failure, is_bad_nonce, is_unknown_account, one_line};
use crate::last_failure::{CUT_SHORT, LastFailure, fingerprint};
use crate::last_order::{LastOrder, rest};
use crate::order::{OrderError, order};
use crate::schedule::{Window, is_wanted_early, pause, random, renewal};
use crate::shared::SharedStorage;
use crate::status::{AcmeStatus, NameState, OrderOutcome};
use crate::storage::{OrderLock, Storage, StorageError, Stored};

/// Orders and renews the certificates of a configuration until it is dropped.
#[derive(Debug)]
pub struct Acme {
    settings: Settings,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Acme {
    /// Starts the thread. `shared`: where edges share what the settings say is shared.
    ///
    /// # Errors
    /// When the system has no space for a thread.
    pub fn start(
        settings: Settings,
        status: Arc<AcmeStatus>,
        shared: Option<SharedFiles>,
    ) -> io::Result<Self> {
        let storage = Storage::open(&settings).map_err(io::Error::other)?;
        let storage = SharedStorage::new(storage, shared.filter(|_| settings.shared));
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        status.reset(&settings.names);
        let orders = Orders::new(settings.clone(), storage.clone(), status);
        let thread = std::thread::Builder::new().name("acme".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    // A dropped sender ends it too.
                    _ = stopped => {}
                    () = orders.run() => {}
                    () = storage.mirror() => {}
                }
            });
            // Looking up the authority's name may last.
            runtime.shutdown_background();
        })?;
        Ok(Self { settings, stop: Some(stop), thread: Some(thread) })
    }

    /// Whether these are the settings it was started with.
    pub fn is_for(&self, settings: &Settings) -> bool {
        self.settings == *settings
    }
}

impl Drop for Acme {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A command for DNS may just be starting, so the server does not wait for the end of the thread.
        drop(self.thread.take());
    }
}

struct Orders {
    settings: Settings,
    storage: SharedStorage,
    status: Arc<AcmeStatus>,
    client: CaClient,
    retry_after: RetryAfter,
    clock: CaClock,
    /// The fault of this machine's clock that the log has.
    reported: Option<ClockFault>,
    /// Opened when it is needed first.
    account: Option<Account>,
    names: Vec<Name>,
}

/// The certificate of one name.
struct Name {
    name: String,
    /// When it is looked at again.
    next: Instant,
    /// Failed orders in a row.
    failures: u32,
    /// The last failed order that the storage has.
    kept: Option<LastFailure>,
    window: Option<Window>,
    /// The certificate that the window is for: its issuer's key and its serial number.
    window_for: Option<(Vec<u8>, Vec<u8>)>,
    /// A page that says why the authority wants this window.
    explanation: Option<String>,
    /// When the authority is asked for its window again.
    window_due: Instant,
    /// The last order of this process.
    last: Option<LastOrder>,
    /// Until when it is not followed by another one of this process.
    rests: Option<Instant>,
    /// Whether the last look failed for want of the authority, so that another one costs no order.
    is_cut_off: bool,
}

type Suggestion = (SystemTime, SystemTime, Duration, Option<String>);

impl Orders {
    fn new(settings: Settings, storage: SharedStorage, status: Arc<AcmeStatus>) -> Self {
        let retry_after = RetryAfter::default();
        let clock = CaClock::default();
        status.follow(clock.clone());
        let client = CaClient::new(settings.authorities.clone(), retry_after.clone(), clock.clone());
        let now = Instant::now();
        let name = |name: &String| Name {
            name: name.clone(),
            next: now,
            failures: 0,
            kept: None,
            window: None,
            window_for: None,
            explanation: None,
            window_due: now,
            last: None,
            rests: None,
            is_cut_off: false,
        };
        let names = settings.names.iter().map(name).collect();
        let (reported, account) = (None, None);
        Self { settings, storage, status, client, retry_after, clock, reported, account, names }
    }

    async fn run(mut self) {
        let mut seen = OwnTime::now();
        while let Some(place) = (0..self.names.len()).min_by_key(|place| self.names[*place].next) {
            let left = self.names[place].next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.attend(place).await;
            } else {
                sleep(left.min(Duration::from_secs(limits::ACME_CLOCK_LOOK_SECONDS))).await;
            }
            if seen.was_set_since() {
                self.clock_was_set();
            }
            seen = OwnTime::now();
            self.report_clock();
        }
    }

    /// Looks at each certificate again. An order that the authority has rejected waits for its time.
    fn clock_was_set(&mut self) {
        tracing::info!("acme: the clock of this machine was set; looking at the certificates again");
        // The clock by which the authority's time is continued stands still while the machine does.
        self.clock.forget();
        let now = Instant::now();
        for name in &mut self.names {
            name.window_due = now;
            if name.failures == 0 || name.is_cut_off {
                name.next = now;
            }
        }
    }

    fn report_clock(&mut self) {
        let fault = self.clock.fault();
        match (self.reported, fault) {
            (Some(reported), Some(fault)) if reported.is_like(fault) => return,
            (None, None) => return,
            (_, Some(fault)) => tracing::warn!("acme: {fault}"),
            (Some(_), None) => tracing::info!("acme: the clock of this machine agrees with the CA's"),
        }
        self.reported = fault;
    }

    /// Looks at the certificate of a name, and orders one if it is due.
    async fn attend(&mut self, place: usize) {
        let name = self.names[place].name.clone();
        if let Err(error) = self.storage.exchange(&name).await {
            return self.failed(place, &error.into());
        }
        let stored = self.storage.own.certificate(&name);
        if let Some(stored) = &stored {
            self.forget_other_window(place, stored);
            self.ask_for_window(place, stored).await;
        }
        if let Some(due) = self.not_due(place, stored.as_ref()) {
            return self.wait_for_renewal(place, stored.as_ref(), due);
        }
        let lock = match self.storage.lock().await {
            Ok(Some(lock)) => lock,
            Ok(None) => {
                let pause = Duration::from_secs(limits::ACME_LOCK_SECONDS).mul_f64(1.0 + random());
                self.show(place, NameState::Waiting, pause);
                return;
            }
            Err(error) => return self.failed(place, &error.into()),
        };
        // Without the right to order, what is kept may be of an order that is under way.
        if let Some(rest) = self.rest_after_failure(place, stored.as_ref()) {
            self.storage.unlock(lock).await;
            return self.show(place, NameState::Failing, rest);
        }
        // Another process may have ordered it just before, or another edge.
        let prepared = self.prepare(&name).await;
        let stored = self.storage.own.certificate(&name);
        stored.iter().for_each(|stored| self.forget_other_window(place, stored));
        if let Some(due) = self.not_due(place, stored.as_ref()) {
            self.storage.unlock(lock).await;
            return self.wait_for_renewal(place, stored.as_ref(), due);
        }
        if let Err(failure) = prepared {
            self.storage.unlock(lock).await;
            return self.failed(place, &failure.with_retry_after(&self.retry_after));
        }
        if let Some(words) = self.early_wish(place) {
            tracing::info!("acme: {name}: {words}");
        }
        self.status.change(&name, |status| status.state = NameState::Ordering);
        self.storage.own.sweep_answers(SystemTime::now());
        let limit = Duration::from_secs(limits::ACME_ORDER_SECONDS_MAX);
        let this = self.next_order(place, stored.as_ref());
        let ended = match self.keep_order(place, this) {
            Ok(()) => timeout(limit, self.order(&name, stored.as_ref(), this, &lock)).await,
            Err(error) => Ok(Err(error.into())),
        };
        let ended = ended.unwrap_or_else(|_| {
            Err(Failure::new(OrderOutcome::Unavailable, "the CA has not finished the order in time"))
        });
        // The others find the certificate before they may order.
        let ended = match (ended, self.storage.exchange(&name).await) {
            (Ok(()), exchanged) => exchanged.map_err(Failure::from),
            (failed, _) => failed,
        };
        self.storage.unlock(lock).await;
        match ended {
            Ok(()) => self.issued(place, this),
            Err(failure) => self.failed(place, &failure.with_retry_after(&self.retry_after)),
        }
    }

    /// Takes over what other edges have, and opens the account. From then on the authority's clock is known.
    async fn prepare(&mut self, name: &str) -> Result<(), Failure> {
        self.storage.exchange(name).await?;
        if self.account.is_none() {
            self.account = Some(account::open(&self.settings, &self.storage.own, &self.client).await?);
        }
        Ok(())
    }

    /// That the authority wants the certificate to be replaced before its time, and where it says why.
    fn early_wish(&self, place: usize) -> Option<String> {
        let name = &self.names[place];
        let stored = self.storage.own.certificate(&name.name)?;
        is_wanted_early(&stored, name.window, self.clock.now()).then(|| {
            let explanation = name.explanation.iter().map(|url| format!(" ({url})"));
            let words = "the CA wants the certificate to be replaced at once; it may have revoked it";
            format!("{words}{}", explanation.collect::<String>())
        })
    }

    /// When the certificate is renewed, if that is not now.
    fn not_due(&self, place: usize, stored: Option<&Stored>) -> Option<SystemTime> {
        let now = self.clock.now();
        let name = &self.names[place];
        let rested = name.rests.map_or(now, |until| now + until.saturating_duration_since(Instant::now()));
        let of_all = stored.and_then(|stored| stored.order?.rests_until(stored.life(), now));
        let rested = of_all.map_or(rested, |until| until.max(rested));
        // A certificate that cannot be read again rests too.
        let due = stored.map_or(rested, |stored| renewal(stored, name.window, now).max(rested));
        Some(due).filter(|due| *due > now)
    }

    /// The order that begins now, and how many there are in a row with it.
    fn next_order(&self, place: usize, stored: Option<&Stored>) -> LastOrder {
        let (now, name) = (self.clock.now(), &self.names[place]);
        let last = stored.and_then(|stored| stored.order).or(name.last);
        // One that cannot be read is due since ever.
        let due = stored.map_or(SystemTime::UNIX_EPOCH, |stored| renewal(stored, name.window, now));
        LastOrder::next(last, due, stored.map(Stored::life).unwrap_or_default(), now)
    }

    /// How long no order follows the last failure, which may be that of an earlier process; `None` if one may.
    fn rest_after_failure(&mut self, place: usize, stored: Option<&Stored>) -> Option<Duration> {
        let now = self.clock.now();
        let name = &mut self.names[place];
        let kept = self.storage.own.failure(&name.name)?;
        let has_succeeded = stored.and_then(|stored| stored.order).is_some_and(|order| order.at >= kept.at);
        if has_succeeded || !kept.counts(fingerprint(&self.settings), now) {
            return None;
        }
        name.failures = name.failures.max(kept.in_a_row);
        let rest = kept.rests_until(now).and_then(|end| end.duration_since(now).ok());
        if let Some(rest) = rest {
            let (words, seconds) = (&kept.words, rest.as_secs());
            tracing::warn!(
                "acme: no certificate for {}: the last order failed: {words}; the next attempt is in {seconds} s",
                name.name,
            );
            self.status.change(&name.name, |status| status.error = Some(words.clone()));
        }
        name.kept = Some(kept);
        rest
    }

    /// Keeps that an order begins: one that is cut short by the end of this process may have failed.
    fn keep_order(&self, place: usize, this: LastOrder) -> Result<(), StorageError> {
        let name = &self.names[place];
        let failure = Failure::new(OrderOutcome::Rejected, CUT_SHORT);
        let in_a_row = name.failures.saturating_add(1);
        let pause = pause(in_a_row, &failure, random());
        let settings = fingerprint(&self.settings);
        let begun = LastFailure { in_a_row, at: this.at, pause, settings, words: failure.words };
        self.storage.own.keep_failure(&name.name, &begun)
    }

    fn wait_for_renewal(&mut self, place: usize, stored: Option<&Stored>, due: SystemTime) {
        let now = self.clock.now();
        let name = &mut self.names[place];
        (name.failures, name.is_cut_off, name.kept) = (0, false, None);
        if let Some(stored) = stored
            && renewal(stored, name.window, now) <= now
        {
            tracing::warn!(
                "acme: the certificate for {} is due again just after its order; the next order is in {} s",
                name.name,
                due.duration_since(now).unwrap_or_default().as_secs()
            );
        }
        let until_due = due.duration_since(now).unwrap_or_default();
        // The system's clock may be set meanwhile.
        let longest = Duration::from_secs(limits::ACME_CHECK_SECONDS);
        let until_window = name.window_due.saturating_duration_since(Instant::now());
        name.next = Instant::now() + until_due.min(longest).min(until_window.max(Duration::from_secs(1)));
        let not_after = stored.map(|stored| stored.facts.not_after);
        let lost = || (NameState::Failing, Some("the last certificate cannot be read any more".to_owned()));
        let (state, error) = stored.map_or_else(lost, |_| (NameState::Valid, None));
        self.status.change(&name.name, |status| {
            (status.state, status.error) = (state, error);
            (status.not_after, status.next) = (not_after, Some(due));
        });
    }

    /// Forgets the window of a certificate that another process or edge has replaced meanwhile.
    fn forget_other_window(&mut self, place: usize, stored: &Stored) {
        let name = &mut self.names[place];
        if name.window_for != stored.facts.identifier {
            name.window_for.clone_from(&stored.facts.identifier);
            (name.window, name.explanation, name.window_due) = (None, None, Instant::now());
        }
    }

    /// Asks the authority when it wants the certificate to be renewed, if that is due. Without an answer the window stays.
    async fn ask_for_window(&mut self, place: usize, stored: &Stored) {
        if self.names[place].window_due > Instant::now() {
            return;
        }
        let asked = self.window(stored).await;
        let name = &mut self.names[place];
        let pause = match asked {
            Ok(Some((start, end, pause, explanation))) => {
                name.explanation = explanation;
                if !name.window.is_some_and(|known| known.is(start, end)) {
                    name.window = Some(Window::choose(start, end, random()));
                }
                let longest = Duration::from_secs(limits::ACME_WINDOW_SECONDS_MAX);
                pause.clamp(Duration::from_secs(limits::ACME_WINDOW_SECONDS_MIN), longest)
            }
            Ok(None) => Duration::from_secs(limits::ACME_WINDOW_SECONDS_MAX),
            Err(failure) => {
                tracing::debug!("acme: no renewal information for {}: {}", name.name, failure.words);
                Duration::from_secs(limits::ACME_WINDOW_SECONDS)
            }
        };
        name.window_due = Instant::now() + pause;
    }

    /// The window of a certificate, when to ask again, and a page that explains it; `None` if the authority or the certificate has none.
    async fn window(&mut self, stored: &Stored) -> Result<Option<Suggestion>, Failure> {
        if self.account.is_none() {
            self.account = account::stored(&self.storage.own, &self.client).await?;
        }
        let Some(account) = &self.account else { return Ok(None) };
        let Some(identifier) = account::identifier(&stored.facts) else {
            self.account = None;
            return Ok(None);
        };
        match account.renewal_info(&identifier).await {
            Ok((info, pause)) => {
                let window = info.suggested_window;
                let explanation = info.explanation_url.as_deref().map(one_line);
                Ok(Some((window.start.into(), window.end.into(), pause, explanation)))
            }
            Err(instant_acme::Error::Unsupported(_)) => {
                // The next question reads the authority's directory again, and with it the time.
                self.account = None;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn order(
        &mut self,
        name: &str,
        stored: Option<&Stored>,
        this: LastOrder,
        _lock: &OrderLock,
    ) -> Result<(), Failure> {
        tracing::info!("acme: ordering a certificate for {name} from {}", self.settings.directory);
        let replaces = || stored.and_then(|stored| account::identifier(&stored.facts));
        let account = match self.account.take() {
            Some(account) => account,
            None => account::open(&self.settings, &self.storage.own, &self.client).await?,
        };
        let (settings, storage) = (&self.settings, &self.storage);
        let mut ended = order(&account, settings, storage, name, replaces(), this).await;
        for _ in 0..limits::ACME_NONCE_ATTEMPTS {
            match &ended {
                Err(OrderError::Library(error)) if is_bad_nonce(error) => {
                    ended = order(&account, settings, storage, name, replaces(), this).await;
                }
                _ => break,
            }
        }
        let account = match &ended {
            Err(OrderError::Library(error)) if is_unknown_account(error) => {
                tracing::info!("acme: {} does not know the stored account any more", settings.directory);
                storage.own.forget_account()?;
                let account = account::open(settings, &storage.own, &self.client).await?;
                order(&account, settings, storage, name, None, this).await?;
                account
            }
            _ => {
                ended?;
                account
            }
        };
        // After a failure it is opened again, with the authority's current addresses.
        self.account = Some(account);
        Ok(())
    }

    fn issued(&mut self, place: usize, order: LastOrder) {
        let name = &mut self.names[place];
        let now = Instant::now();
        let stored = self.storage.own.certificate(&name.name);
        let life = stored.as_ref().map(Stored::life).unwrap_or_default();
        name.last = Some(order);
        name.rests = Some(now + rest(order.in_a_row, life));
        (name.failures, name.is_cut_off, name.kept, name.window) = (0, false, None, None);
        // One that stays is older than the certificate, so it counts no more.
        let _removed = self.storage.own.forget_failure(&name.name);
        (name.next, name.window_due) = (now, now);
        self.status.count(OrderOutcome::Issued);
        let now = SystemTime::now();
        if stored.is_some_and(|stored| stored.facts.not_before > now || stored.facts.not_after < now) {
            tracing::warn!(
                "acme: the new certificate for {} is not valid now; set the clock of this machine",
                name.name
            );
        }
        tracing::info!("acme: there is a new certificate for {}", name.name);
    }

    fn failed(&mut self, place: usize, failure: &Failure) {
        let wish = self.early_wish(place).map(|wish| format!("; {wish}")).unwrap_or_default();
        let words = format!("{}{wish}", failure.words);
        let name = &mut self.names[place];
        name.failures = name.failures.saturating_add(1);
        name.is_cut_off = failure.outcome == OrderOutcome::Unavailable;
        let pause = pause(name.failures, failure, random());
        if !name.is_cut_off {
            let (in_a_row, at, settings) = (name.failures, self.clock.now(), fingerprint(&self.settings));
            name.kept = Some(LastFailure { in_a_row, at, pause, settings, words: failure.words.clone() });
        }
        // An attempt that costs no order leaves what was there before.
        let kept = match &name.kept {
            Some(kept) => self.storage.own.keep_failure(&name.name, kept),
            None => self.storage.own.forget_failure(&name.name),
        };
        if let Err(error) = kept {
            tracing::debug!("{error}");
        }
        self.status.count(failure.outcome);
        self.status.change(&name.name, |status| status.error = Some(words.clone()));
        tracing::warn!(
            "acme: no certificate for {}: {words}; the next attempt is in {} s",
            name.name,
            pause.as_secs()
        );
        self.show(place, NameState::Failing, pause);
    }

    /// Shows a state that lasts until the next look after `pause`.
    fn show(&mut self, place: usize, state: NameState, pause: Duration) {
        let name = &mut self.names[place];
        name.next = Instant::now() + pause;
        self.status.change(&name.name, |status| {
            (status.state, status.next) = (state, Some(SystemTime::now() + pause));
        });
    }
}
