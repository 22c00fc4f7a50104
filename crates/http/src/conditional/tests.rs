use super::{Precondition, Validators, evaluate};
use crate::{HeadLimits, Request};
use std::time::{Duration, UNIX_EPOCH};

const LIMITS: HeadLimits = HeadLimits { head_bytes: 16 << 10, fields: 100, target_bytes: 8 << 10 };
const SERVE: Precondition = Precondition::Serve { ranges_allowed: true };
const SERVE_WHOLE: Precondition = Precondition::Serve { ranges_allowed: false };

// The representation was changed at 08:49:37.
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

fn outcome(method: &str, etag: &str, fields: &str) -> Precondition {
    outcome_of(method, etag, true, fields)
}

fn outcome_of(method: &str, etag: &str, is_date_strong: bool, fields: &str) -> Precondition {
    let head = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let request = Request::parse(head.as_bytes(), &LIMITS).unwrap();
    // Last-Modified has whole seconds only, so the fraction must not count.
    let modified = UNIX_EPOCH + Duration::new(784_111_777, 900_000_000);
    evaluate(&request, &Validators { etag, modified, is_date_strong })
}

fn check(method: &str, fields: &str, expected: Precondition) {
    assert_eq!(outcome(method, "\"abc\"", fields), expected, "{method} {fields}");
}

#[test]
fn without_conditions_the_file_is_served() {
    check("GET", "", SERVE);
    check("GET", "Range: bytes=0-1\r\n", SERVE);
    check("HEAD", "", SERVE_WHOLE);
}

#[test]
fn if_none_match_compares_weakly() {
    for (value, expected) in [
        ("\"abc\"", Precondition::NotModified),
        ("W/\"abc\"", Precondition::NotModified),
        ("*", Precondition::NotModified),
        ("\"x\", \"abc\"", Precondition::NotModified),
        ("\"x\",W/\"y\" ,\t\"abc\"", Precondition::NotModified),
        (",, \"abc\"", Precondition::NotModified),
        ("\"a,b\", \"abc\"", Precondition::NotModified),
        ("\"x\"", SERVE),
        ("\"ABC\"", SERVE),
        ("\"x,\"abc\"", SERVE),
        ("abc", SERVE),
        ("\"abc", SERVE),
        ("w/\"abc\"", SERVE),
        ("", SERVE),
    ] {
        check("GET", &format!("If-None-Match: {value}\r\n"), expected);
    }
    check("HEAD", "If-None-Match: \"abc\"\r\n", Precondition::NotModified);
    check("PUT", "If-None-Match: *\r\n", Precondition::Failed);
    check("GET", "If-None-Match: \"x\"\r\nIf-None-Match: \"abc\"\r\n", Precondition::NotModified);
    assert_eq!(outcome("GET", "W/\"abc\"", "If-None-Match: \"abc\"\r\n"), Precondition::NotModified);
}

#[test]
fn if_match_compares_strongly() {
    for (value, expected) in [
        ("\"abc\"", SERVE),
        ("\"x\", \"abc\"", SERVE),
        ("*", SERVE),
        ("W/\"abc\"", Precondition::Failed),
        ("\"x\"", Precondition::Failed),
        ("", Precondition::Failed),
    ] {
        check("GET", &format!("If-Match: {value}\r\n"), expected);
    }
    check("GET", "If-Match: \"x\"\r\nIf-Match: \"abc\"\r\n", SERVE);
    assert_eq!(outcome("GET", "W/\"abc\"", "If-Match: W/\"abc\"\r\n"), Precondition::Failed);
}

#[test]
fn dates_count_in_whole_seconds() {
    for (date, since, unmodified) in [
        (BEFORE, SERVE, Precondition::Failed),
        (SAME, Precondition::NotModified, SERVE),
        (AFTER, Precondition::NotModified, SERVE),
        ("Sunday, 06-Nov-94 08:49:37 GMT", Precondition::NotModified, SERVE),
        ("Sun Nov  6 08:49:37 1994", Precondition::NotModified, SERVE),
        ("yesterday", SERVE, SERVE),
        ("", SERVE, SERVE),
        ("Sun, 06 Nov 1994 08:49:99 GMT", SERVE, SERVE),
    ] {
        check("GET", &format!("If-Modified-Since: {date}\r\n"), since);
        check("GET", &format!("If-Unmodified-Since: {date}\r\n"), unmodified);
    }
    check("PUT", &format!("If-Modified-Since: {AFTER}\r\n"), SERVE_WHOLE);
}

#[test]
fn entity_tags_win_over_dates() {
    check("GET", &format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {AFTER}\r\n"), SERVE);
    check("GET", &format!("If-Match: \"abc\"\r\nIf-Unmodified-Since: {BEFORE}\r\n"), SERVE);
}

#[test]
fn a_failed_precondition_comes_before_not_modified() {
    check("GET", "If-Match: \"x\"\r\nIf-None-Match: \"abc\"\r\n", Precondition::Failed);
    check("GET", "If-Match: \"abc\"\r\nIf-None-Match: \"abc\"\r\n", Precondition::NotModified);
}

#[test]
fn if_range_lets_ranges_count_only_for_the_same_state() {
    for (value, expected) in [
        ("\"abc\"", SERVE),
        (SAME, SERVE),
        ("W/\"abc\"", SERVE_WHOLE),
        ("\"x\"", SERVE_WHOLE),
        (BEFORE, SERVE_WHOLE),
        (AFTER, SERVE_WHOLE),
        ("abc", SERVE_WHOLE),
        ("*", SERVE_WHOLE),
        ("", SERVE_WHOLE),
        ("\"abc\", \"x\"", SERVE_WHOLE),
    ] {
        check("GET", &format!("Range: bytes=0-1\r\nIf-Range: {value}\r\n"), expected);
    }
    assert_eq!(outcome("GET", "W/\"abc\"", "If-Range: W/\"abc\"\r\n"), SERVE_WHOLE);
    check("HEAD", "Range: bytes=0-1\r\nIf-Range: \"abc\"\r\n", SERVE_WHOLE);
}

#[test]
fn a_date_that_is_not_strong_lets_no_range_count_and_confirms_a_copy_all_the_same() {
    let weak = |fields: &str| outcome_of("GET", "\"abc\"", false, fields);
    assert_eq!(weak(&format!("If-Range: {SAME}\r\n")), SERVE_WHOLE);
    assert_eq!(weak("If-Range: \"abc\"\r\n"), SERVE);
    assert_eq!(weak(&format!("If-Modified-Since: {SAME}\r\n")), Precondition::NotModified);
}

#[test]
fn options_has_no_conditions() {
    check("OPTIONS", "If-Match: \"x\"\r\nIf-None-Match: *\r\n", SERVE_WHOLE);
}
