use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn limits() -> HealthLimits {
    HealthLimits {
        unhealthy_after: 3,
        healthy_after: 2,
        backoff: SECOND,
        backoff_max: 8 * SECOND,
        checked: false,
    }
}

/// Servers with these weights, none of them a backup.
fn all_in<const N: usize>(weights: [u32; N], limits: HealthLimits) -> Balance {
    Balance::new(weights.map(|weight| (weight, false)), limits)
}

fn chosen(balance: &mut Balance, now: Instant, times: usize) -> Vec<usize> {
    (0..times).map(|_| balance.choose(now, TriedServers::default()).unwrap()).collect()
}

fn fail(balance: &mut Balance, index: usize, now: Instant) -> Vec<Option<HealthChange>> {
    (0..3).map(|_| balance.report(index, false, now)).collect()
}

#[test]
fn turns_follow_the_weights_and_are_evenly_spread() {
    let mut balance = all_in([5, 1, 1], limits());
    let turns = chosen(&mut balance, Instant::now(), 14);
    assert_eq!(turns, [0, 0, 1, 0, 2, 0, 0, 0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn three_failures_in_a_row_take_a_server_out_and_a_good_answer_between_them_does_not() {
    let now = Instant::now();
    let mut balance = all_in([1, 1], limits());
    balance.report(0, false, now);
    balance.report(0, false, now);
    balance.report(0, true, now);
    assert_eq!(fail(&mut balance, 0, now), [None, None, Some(HealthChange::Down)]);
    assert!(!balance.is_up(0));
    assert_eq!(chosen(&mut balance, now, 4), [1, 1, 1, 1]);
}

#[test]
fn after_its_backoff_one_request_tries_it_and_decides() {
    let now = Instant::now();
    let mut balance = all_in([1, 1], limits());
    fail(&mut balance, 0, now);
    let later = now + SECOND;
    let turns = chosen(&mut balance, later, 6);
    assert_eq!(turns.iter().filter(|index| **index == 0).count(), 1, "{turns:?}");
    assert_eq!(balance.report(0, true, later), Some(HealthChange::Up));
    assert_eq!(chosen(&mut balance, later, 2).iter().sum::<usize>(), 1);
}

#[test]
fn the_backoff_doubles_up_to_its_bound() {
    let mut now = Instant::now();
    let mut balance = all_in([1, 1], limits());
    fail(&mut balance, 0, now);
    for seconds in [1, 2, 4, 8, 8] {
        let before = now + seconds * SECOND - Duration::from_millis(1);
        assert!(!chosen(&mut balance, before, 3).contains(&0), "{seconds}");
        now += seconds * SECOND;
        assert!(chosen(&mut balance, now, 3).contains(&0), "{seconds}");
        balance.report(0, false, now);
    }
}

#[test]
fn many_that_fail_together_count_once() {
    let now = Instant::now();
    let mut balance = all_in([1, 1], limits());
    fail(&mut balance, 0, now);
    for _ in 0..100 {
        assert_eq!(balance.report(0, false, now), None);
    }
    assert!(chosen(&mut balance, now + SECOND, 3).contains(&0));
}

#[test]
fn with_checks_only_checks_bring_a_server_in_again() {
    let now = Instant::now();
    let mut balance = all_in([1, 1], HealthLimits { checked: true, ..limits() });
    fail(&mut balance, 0, now);
    let much_later = now + 100 * SECOND;
    assert_eq!(chosen(&mut balance, much_later, 3), [1, 1, 1]);
    assert_eq!(balance.report(0, true, much_later), None);
    assert_eq!(balance.report_check(0, true, much_later), None);
    assert_eq!(balance.report_check(0, false, much_later), None);
    assert_eq!(balance.report_check(0, true, much_later), None);
    assert_eq!(balance.report_check(0, true, much_later), Some(HealthChange::Up));
    assert!(chosen(&mut balance, much_later, 2).contains(&0));
}

#[test]
fn when_all_are_out_the_one_that_is_due_first_is_asked_all_the_same() {
    let now = Instant::now();
    let mut balance = all_in([1, 1], limits());
    fail(&mut balance, 1, now);
    fail(&mut balance, 0, now + SECOND / 2);
    assert_eq!(balance.choose(now + SECOND / 2, TriedServers::default()), Some(1));
}

#[test]
fn a_server_that_was_tried_is_not_chosen_again() {
    let mut balance = all_in([1, 1], limits());
    let mut tried = TriedServers::default();
    tried.add(0);
    assert_eq!(balance.choose(Instant::now(), tried), Some(1));
    tried.add(1);
    assert_eq!(balance.choose(Instant::now(), tried), None);
}

#[test]
fn failures_of_one_path_count_once_and_those_of_several_take_a_server_out() {
    let now = Instant::now();
    let mut balance = all_in([1, 1], limits());
    for _ in 0..100 {
        assert_eq!(balance.report_path(0, "/broken", now), None);
    }
    assert!(balance.is_up(0));
    assert_eq!(balance.report_path(0, "/a", now), None);
    balance.report(0, true, now);
    assert_eq!(balance.report_path(0, "/broken", now), None, "a good answer ends the row");
    assert_eq!(balance.report_path(0, "/a", now), None);
    assert_eq!(balance.report_path(0, "/b", now), Some(HealthChange::Down));
    // It is tried again, and refuses again.
    let later = now + SECOND;
    assert!(chosen(&mut balance, later, 3).contains(&0));
    assert_eq!(balance.report_path(0, "/b", later), None);
    assert!(!chosen(&mut balance, later + SECOND, 3).contains(&0), "the backoff has doubled");
}

#[test]
fn a_backup_is_asked_only_while_no_other_server_can_be() {
    let now = Instant::now();
    let mut balance = Balance::new([(1, false), (1, true), (1, false), (1, true)], limits());
    assert_eq!(chosen(&mut balance, now, 4), [0, 2, 0, 2]);
    fail(&mut balance, 0, now);
    assert_eq!(chosen(&mut balance, now, 2), [2, 2]);
    // What a backup gave is asked of it again only while it is needed.
    assert_eq!(balance.choose_this(1, now, TriedServers::default()), None);
    fail(&mut balance, 2, now);
    assert_eq!(chosen(&mut balance, now, 4), [1, 3, 1, 3]);
    assert_eq!(balance.choose_this(1, now, TriedServers::default()), Some(1));
    fail(&mut balance, 1, now);
    assert_eq!(chosen(&mut balance, now, 2), [3, 3]);
    balance.report(0, true, now);
    assert_eq!(chosen(&mut balance, now, 2), [0, 0]);
    // Within one request a backup follows servers that were tried.
    let mut tried = TriedServers::default();
    tried.add(0);
    assert_eq!(balance.choose(now, tried), Some(3));
}

#[test]
fn the_server_with_the_fewest_requests_for_its_weight_is_asked() {
    let now = Instant::now();
    let least = |balance: &mut Balance, active: &[u64]| {
        balance.choose_least(active, now, TriedServers::default()).unwrap()
    };
    let mut balance = all_in([1, 1, 2], limits());
    assert_eq!(least(&mut balance, &[0, 0, 0]), 2);
    assert_eq!(least(&mut balance, &[1, 0, 2]), 1);
    assert_eq!(least(&mut balance, &[1, 2, 2]), 2);
    // Servers with the same load take turns.
    let mut turns: Vec<usize> = (0..4).map(|_| least(&mut balance, &[0, 0, 3])).collect();
    turns.sort_unstable();
    assert_eq!(turns, [0, 0, 1, 1]);
    fail(&mut balance, 2, now);
    assert_ne!(least(&mut balance, &[9, 9, 0]), 2);
}
