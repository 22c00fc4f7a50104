//! Whether the CPU is short, and what the server does without while it is: one policy for all parts, slow to change its mind.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use penstock_config::{HandshakeRateLimit, limits};
use penstock_sys::lock::Unpoisoned;

use crate::metrics::{GivenUp, Sacrifice};

/// When the mind changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PressureLimits {
    /// Above this busy share the CPU is short,
    pub(crate) high: f64,
    /// once it has been above for so long.
    pub(crate) high_for: Duration,
    /// Below this share there is time again,
    pub(crate) low: f64,
    /// once it has been below for so long.
    pub(crate) low_for: Duration,
}

/// Remembers what was decided, and since when the share speaks against it.
#[derive(Clone, Debug)]
pub(crate) struct Pressure {
    limits: PressureLimits,
    is_short: bool,
    against_since: Option<Instant>,
}

impl Pressure {
    /// There is time to begin with.
    pub(crate) fn new(limits: PressureLimits) -> Self {
        Self { limits, is_short: false, against_since: None }
    }

    /// Whether the CPU is short.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Takes in the share of the time before `now` that the workers were busy, from 0 to 1.
    pub(crate) fn observe(&mut self, now: Instant, busy: f64) {
        let (against, patience) = if self.is_short {
            (busy < self.limits.low, self.limits.low_for)
        } else {
            (busy > self.limits.high, self.limits.high_for)
        };
        if !against {
            self.against_since = None;
            return;
        }
        let since = *self.against_since.get_or_insert(now);
        if now.saturating_duration_since(since) >= patience {
            self.is_short = !self.is_short;
            self.against_since = None;
        }
    }
}

/// When each is given up and taken back.
const fn limits_of(what: Sacrifice) -> PressureLimits {
    let (high_seconds, low_seconds) = match what {
        Sacrifice::Handshakes => (limits::BUSY_HANDSHAKES_SECONDS, limits::BUSY_HANDSHAKES_LOW_SECONDS),
        Sacrifice::Prefetch | Sacrifice::Compression => {
            (limits::BUSY_EXTRAS_SECONDS, limits::BUSY_LOW_SECONDS)
        }
        Sacrifice::ChaCha20 => (limits::BUSY_HIGH_SECONDS, limits::BUSY_LOW_SECONDS),
    };
    PressureLimits {
        high: limits::BUSY_PERCENT_HIGH as f64 / 100.0,
        high_for: Duration::from_secs(high_seconds),
        low: limits::BUSY_PERCENT_LOW as f64 / 100.0,
        low_for: Duration::from_secs(low_seconds),
    }
}

/// The workers observe together once in so much time.
const BETWEEN_OBSERVATIONS: Duration = Duration::from_millis(900);

/// How busy the workers were, and what they did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    /// The share of the last second, from 0 to 1.
    pub(crate) busy: f64,
    /// Full handshakes since the start.
    pub(crate) full_handshakes: u64,
}

/// Decides for all parts, and tells them through [`GivenUp`].
#[derive(Debug)]
pub(crate) struct PressurePolicy {
    given_up: Arc<GivenUp>,
    state: Mutex<PolicyState>,
}

#[derive(Debug)]
struct PolicyState {
    pressures: [Pressure; Sacrifice::ALL.len()],
    handshakes: HandshakeRateLimit,
    /// By which busy shares are multiplied, so that the configured one becomes [`limits::BUSY_PERCENT_HIGH`].
    scale: f64,
    /// While `handshakes` is automatic and limited.
    rate: Option<f64>,
    seen: Option<(Instant, u64)>,
}

impl PressurePolicy {
    pub(crate) fn new(given_up: Arc<GivenUp>) -> Self {
        let pressures = std::array::from_fn(|place| Pressure::new(limits_of(Sacrifice::ALL[place])));
        let (handshakes, rate, seen) = (HandshakeRateLimit::None, None, None);
        let state = PolicyState { pressures, handshakes, scale: 1.0, rate, seen };
        Self { given_up, state: Mutex::new(state) }
    }

    /// Takes the limit of full handshakes, and the busy share above which the CPU is short, from a configuration that comes into
    /// force.
    pub(crate) fn configure(&self, handshakes: HandshakeRateLimit, busy_percent: u32) {
        let mut state = self.state.lock().unpoisoned();
        state.scale = f64::from(limits::BUSY_PERCENT_HIGH) / f64::from(busy_percent.max(1));
        state.handshakes = handshakes;
        if handshakes != HandshakeRateLimit::Auto {
            state.rate = None;
            self.given_up.set(Sacrifice::Handshakes, None);
        }
        self.given_up.set_handshake_rate(state.limit());
    }

    /// Takes in how busy the workers are on average. Returns whether the CPU is short for ChaCha20-Poly1305, once in about a
    /// second. Any worker may call it as often as it likes; it never waits.
    pub(crate) fn observe(&self, now: Instant, observed: impl FnOnce() -> Observed) -> Option<bool> {
        let mut state = self.state.try_lock().ok()?;
        let since = state.seen.map(|(at, _)| now.saturating_duration_since(at));
        if since.is_some_and(|since| since < BETWEEN_OBSERVATIONS) {
            return None;
        }
        let Observed { busy, full_handshakes } = observed();
        let scaled = busy * state.scale;
        state.pressures.iter_mut().for_each(|pressure| pressure.observe(now, scaled));
        let before = state.seen.replace((now, full_handshakes));
        let made = before.map_or(0, |(_, before)| full_handshakes.saturating_sub(before)) as f64
            / since.map_or(1.0, |since| since.as_secs_f64());
        if state.handshakes == HandshakeRateLimit::Auto {
            let is_short = state.is_short(Sacrifice::Handshakes);
            state.rate = is_short.then(|| next_rate(state.rate, made, scaled));
            self.tell(Sacrifice::Handshakes, is_short, busy);
        }
        self.given_up.set_handshake_rate(state.limit());
        for what in [Sacrifice::Prefetch, Sacrifice::Compression] {
            self.tell(what, state.is_short(what), busy);
        }
        Some(state.is_short(Sacrifice::ChaCha20))
    }

    fn tell(&self, what: Sacrifice, is_short: bool, busy: f64) {
        if self.given_up.set(what, is_short.then(SystemTime::now)) {
            let does = if is_short { "given up" } else { "taken back" };
            tracing::info!("pressure: {} {does}, the workers are {:.0} % busy", what.label(), 100.0 * busy);
        }
    }
}

impl PolicyState {
    fn is_short(&self, what: Sacrifice) -> bool {
        self.pressures[what as usize].is_short()
    }

    fn limit(&self) -> Option<f64> {
        match self.handshakes {
            HandshakeRateLimit::None => None,
            HandshakeRateLimit::PerSecond(rate) => Some(f64::from(rate.get())),
            HandshakeRateLimit::Auto => self.rate,
        }
    }
}

/// Full handshakes in the next second, behind a second with `made` of them under the limit `rate`: fewer while hardly any time is
/// left for those who are served, more while there is some.
fn next_rate(rate: Option<f64>, made: f64, busy: f64) -> f64 {
    let rate = match rate {
        None => made / 2.0,
        Some(rate) if busy > limits::BUSY_PERCENT_FULL as f64 / 100.0 => rate * 0.7,
        Some(rate) if busy < limits::BUSY_PERCENT_HIGH as f64 / 100.0 => rate * 1.25,
        Some(rate) => rate,
    };
    rate.clamp(limits::HANDSHAKE_RATE_AUTO_MIN, limits::HANDSHAKE_RATE_AUTO_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PressureLimits = PressureLimits {
        high: 0.85,
        high_for: Duration::from_secs(10),
        low: 0.6,
        low_for: Duration::from_secs(60),
    };

    /// The busy share from second to second, and the seconds at which the mind changed.
    fn changes(shares: impl IntoIterator<Item = f64>) -> Vec<(usize, bool)> {
        let start = Instant::now();
        let mut pressure = Pressure::new(LIMITS);
        let mut changes = Vec::new();
        for (second, share) in shares.into_iter().enumerate() {
            let before = pressure.is_short();
            pressure.observe(start + Duration::from_secs(second as u64), share);
            if pressure.is_short() != before {
                changes.push((second, pressure.is_short()));
            }
        }
        changes
    }

    fn runs(runs: &[(usize, f64)]) -> Vec<f64> {
        runs.iter().flat_map(|(seconds, share)| std::iter::repeat_n(*share, *seconds)).collect()
    }

    #[test]
    fn the_mind_changes_late_and_only_once_for_each_crossing() {
        for (what, shares, wanted) in [
            ("an idle server", runs(&[(600, 0.1)]), vec![]),
            ("a busy one that has time left", runs(&[(600, 0.85)]), vec![]),
            ("a peak that is too short", runs(&[(60, 0.5), (10, 1.0), (60, 0.5)]), vec![]),
            ("a peak that lasts", runs(&[(60, 0.5), (11, 0.9)]), vec![(70, true)]),
            ("peaks with a pause each", runs(&[(8, 1.0), (1, 0.8), (8, 1.0), (1, 0.8), (8, 1.0)]), vec![]),
            ("between the thresholds nothing comes back", runs(&[(11, 1.0), (600, 0.7)]), vec![(10, true)]),
            ("a short rest", runs(&[(11, 1.0), (60, 0.1), (30, 0.7), (60, 0.1)]), vec![(10, true)]),
            ("a long rest", runs(&[(11, 1.0), (61, 0.1)]), vec![(10, true), (71, false)]),
            (
                "and over again",
                runs(&[(11, 1.0), (61, 0.1), (11, 1.0)]),
                vec![(10, true), (71, false), (82, true)],
            ),
        ] {
            assert_eq!(changes(shares), wanted, "{what}");
        }
    }

    #[test]
    fn a_share_that_is_no_number_changes_nothing() {
        assert_eq!(changes(runs(&[(60, f64::NAN)])), []);
    }

    #[test]
    fn a_clock_that_stands_still_changes_nothing() {
        let now = Instant::now();
        let mut pressure = Pressure::new(LIMITS);
        (0..1000).for_each(|_| pressure.observe(now, 1.0));
        assert!(!pressure.is_short());
    }

    /// A policy, its time, and the full handshakes of its workers so far.
    struct Scene {
        policy: PressurePolicy,
        now: Instant,
        full_handshakes: u64,
    }

    impl Scene {
        fn of(handshakes: HandshakeRateLimit) -> Self {
            let policy = PressurePolicy::new(Arc::default());
            policy.configure(handshakes, 85);
            Self { policy, now: Instant::now(), full_handshakes: 0 }
        }

        /// Seconds with a busy share and so many full handshakes each. Returns what is given up then.
        fn spend(&mut self, seconds: u64, busy: f64, made: u64) -> Vec<&'static str> {
            for _ in 0..seconds {
                self.now += Duration::from_secs(1);
                self.full_handshakes += made;
                let full_handshakes = self.full_handshakes;
                self.policy.observe(self.now, || Observed { busy, full_handshakes });
            }
            let given_up = Sacrifice::ALL.iter().filter(|what| self.policy.given_up.is(**what));
            given_up.map(|what| what.label()).collect()
        }

        fn rate(&self) -> Option<f64> {
            self.policy.given_up.handshake_rate()
        }
    }

    #[test]
    fn what_costs_least_is_given_up_and_taken_back_in_order() {
        let mut scene = Scene::of(HandshakeRateLimit::Auto);
        assert_eq!(scene.spend(60, 0.8, 100), [""; 0]);
        assert_eq!(scene.spend(limits::BUSY_HANDSHAKES_SECONDS + 1, 0.95, 100), ["handshakes"]);
        assert_eq!(scene.spend(6, 0.95, 100), ["handshakes", "prefetch", "compression"]);
        assert_eq!(scene.spend(limits::BUSY_HANDSHAKES_LOW_SECONDS + 1, 0.5, 0), ["prefetch", "compression"]);
        assert_eq!(scene.rate(), None);
        assert_eq!(scene.spend(60, 0.5, 0), [""; 0]);
    }

    #[test]
    fn an_automatic_rate_falls_while_no_time_is_left_and_grows_with_the_time_that_is() {
        let mut scene = Scene::of(HandshakeRateLimit::Auto);
        scene.spend(2, 1.0, 4_000);
        assert_eq!(scene.rate(), None, "a peak of two seconds is none");
        scene.spend(1, 1.0, 4_000);
        assert_eq!(scene.rate(), Some(2_000.0));
        scene.spend(2, 0.99, 2_000);
        let held = scene.rate().unwrap();
        assert!((900.0..1_000.0).contains(&held), "{held}");
        scene.spend(10, 0.9, 1_000);
        assert_eq!(scene.rate(), Some(held), "in between it stays");
        scene.spend(3, 0.7, 1_000);
        assert!(scene.rate().unwrap() > 1.8 * held);
        scene.spend(60, 1.0, 1_000);
        assert_eq!(scene.rate(), Some(limits::HANDSHAKE_RATE_AUTO_MIN), "new viewers always get in");
    }

    #[test]
    fn a_number_is_the_rate_at_any_load_and_without_one_there_is_none() {
        let number = std::num::NonZeroU32::new(50).unwrap();
        let mut scene = Scene::of(HandshakeRateLimit::PerSecond(number));
        assert_eq!(scene.spend(30, 1.0, 4_000), ["prefetch", "compression"]);
        assert_eq!(scene.rate(), Some(50.0));
        let mut scene = Scene::of(HandshakeRateLimit::None);
        scene.spend(30, 1.0, 4_000);
        assert_eq!(scene.rate(), None);
    }

    #[test]
    fn a_reload_ends_what_the_one_before_asked_for() {
        let mut scene = Scene::of(HandshakeRateLimit::Auto);
        scene.spend(30, 1.0, 4_000);
        assert!(scene.rate().is_some());
        scene.policy.configure(HandshakeRateLimit::None, 85);
        assert_eq!((scene.rate(), scene.spend(1, 1.0, 0)), (None, vec!["prefetch", "compression"]));
    }

    #[test]
    fn a_lower_share_scales_all_thresholds() {
        let mut scene = Scene::of(HandshakeRateLimit::Auto);
        scene.policy.configure(HandshakeRateLimit::Auto, 17);
        assert_eq!(scene.spend(60, 0.16, 100), [""; 0]);
        assert_eq!(scene.spend(limits::BUSY_HANDSHAKES_SECONDS + 1, 0.18, 100), ["handshakes"]);
        let held = scene.rate();
        assert_eq!((scene.spend(1, 0.18, 100), scene.rate()), (vec!["handshakes"], held));
        assert_eq!(scene.spend(limits::BUSY_HANDSHAKES_LOW_SECONDS + 1, 0.13, 0), ["handshakes"]);
        assert_eq!(scene.spend(limits::BUSY_HANDSHAKES_LOW_SECONDS + 1, 0.11, 0), [""; 0]);
    }

    #[test]
    fn workers_that_observe_together_count_as_one() {
        let policy = PressurePolicy::new(Arc::default());
        let (now, mut asked) = (Instant::now(), 0);
        for millisecond in 0..1000 {
            policy.observe(now + Duration::from_millis(millisecond), || {
                asked += 1;
                Observed { busy: 1.0, full_handshakes: 0 }
            });
        }
        assert_eq!(asked, 2);
    }
}
