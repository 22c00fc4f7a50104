use super::*;
use crate::Fields;

const DEFAULT: DefaultLifetimes = DefaultLifetimes {
    found: Duration::from_secs(60),
    missing: Duration::from_secs(1),
    stale_if_error: Duration::ZERO,
};

fn directives(value: &str) -> Directives {
    Directives::parse(std::iter::once(value.as_bytes()))
}

fn fields(lines: &str) -> Fields {
    Fields::from_lines(lines.replace('\n', "\r\n").as_bytes()).unwrap()
}

fn response(status: u16, cache_control: &str) -> Response<'static> {
    Response {
        status,
        directives: directives(cache_control),
        sets_cookie: false,
        varies_by_everything: false,
        expires: None,
        date: None,
        age: None,
    }
}

fn fresh(response: &Response<'_>) -> Option<u64> {
    match response.storage(SystemTime::UNIX_EPOCH, DEFAULT) {
        Storage::Shared(lifetime) => Some(lifetime.fresh.as_secs()),
        Storage::Private | Storage::Passing => None,
    }
}

#[test]
fn a_shared_cache_goes_by_s_maxage_then_max_age_then_expires_then_its_default() {
    assert_eq!(fresh(&response(200, "max-age=5, s-maxage=7")), Some(7));
    assert_eq!(fresh(&response(200, "MAX-AGE=\"5\"")), Some(5));
    let date = Some("Thu, 01 Jan 1970 00:00:10 GMT");
    let expires = Some("Thu, 01 Jan 1970 00:00:40 GMT");
    assert_eq!(fresh(&Response { date, expires, ..response(200, "") }), Some(30));
    assert_eq!(fresh(&Response { date, expires, ..response(200, "max-age=1") }), Some(1));
    assert_eq!(fresh(&response(200, "")), Some(60));
    assert_eq!(fresh(&response(404, "")), Some(1));
}

#[test]
fn an_expires_that_is_no_date_is_in_the_past() {
    assert_eq!(fresh(&Response { expires: Some("0"), ..response(200, "") }), Some(0));
}

#[test]
fn a_response_for_one_client_is_never_shared() {
    for value in ["private", "no-store", "max-age=60, private=\"set-cookie, x\"", "public, no-store"] {
        assert_eq!(
            response(200, value).storage(SystemTime::UNIX_EPOCH, DEFAULT),
            Storage::Private,
            "{value}"
        );
    }
    let too_early = response(425, "max-age=60").storage(SystemTime::UNIX_EPOCH, DEFAULT);
    assert_eq!(too_early, Storage::Private);
    let cookie = Response { sets_cookie: true, ..response(200, "max-age=60") };
    assert_eq!(cookie.storage(SystemTime::UNIX_EPOCH, DEFAULT), Storage::Private);
}

#[test]
fn statuses_that_may_be_stored_without_a_lifetime_get_the_default_one() {
    for (status, seconds) in [(200, 60), (203, 60), (204, 60), (300, 60), (301, 60), (308, 60)] {
        assert_eq!(fresh(&response(status, "")), Some(seconds), "{status}");
    }
    for status in [404, 405, 410, 414, 501] {
        assert_eq!(fresh(&response(status, "")), Some(1), "{status}");
    }
    assert_eq!(fresh(&response(599, "public")), None);
}

#[test]
fn a_response_that_must_be_understood_is_for_one_client_if_its_status_is_unknown() {
    let unknown = response(599, "max-age=60, must-understand").storage(SystemTime::UNIX_EPOCH, DEFAULT);
    assert_eq!(unknown, Storage::Private);
    assert_eq!(fresh(&response(599, "max-age=60")), Some(60));
    assert_eq!(fresh(&response(404, "max-age=60, Must-Understand")), Some(60));
}

#[test]
fn errors_are_for_waiting_requests_unless_their_origin_gives_a_lifetime() {
    assert_eq!(response(502, "").storage(SystemTime::UNIX_EPOCH, DEFAULT), Storage::Passing);
    assert_eq!(response(302, "").storage(SystemTime::UNIX_EPOCH, DEFAULT), Storage::Passing);
    assert_eq!(fresh(&response(302, "max-age=9")), Some(9));
}

#[test]
fn age_is_taken_off() {
    assert_eq!(fresh(&Response { age: Some("20"), ..response(200, "max-age=30") }), Some(10));
    assert_eq!(fresh(&Response { age: Some("99"), ..response(200, "max-age=30") }), Some(0));
    assert_eq!(fresh(&Response { age: Some("20, 0"), ..response(200, "max-age=30") }), Some(10));
    assert_eq!(fresh(&Response { age: Some("later"), ..response(200, "max-age=30") }), Some(30));
}

#[test]
fn no_cache_is_kept_and_validated_each_time() {
    assert_eq!(fresh(&response(200, "no-cache, max-age=60")), Some(0));
}

#[test]
fn stale_use_is_what_the_origin_allows() {
    let told = response(200, "max-age=1, stale-while-revalidate=5, stale-if-error=600");
    let Storage::Shared(lifetime) = told.storage(SystemTime::UNIX_EPOCH, DEFAULT) else { panic!("shared") };
    assert_eq!((lifetime.stale_while_revalidate.as_secs(), lifetime.stale_if_error.as_secs()), (5, 600));
    let default = DefaultLifetimes { stale_if_error: Duration::from_secs(9), ..DEFAULT };
    for (value, seconds) in [("max-age=1", 9), ("s-maxage=1", 0), ("s-maxage=1, stale-if-error=4", 4)] {
        let Storage::Shared(lifetime) = response(200, value).storage(SystemTime::UNIX_EPOCH, default) else {
            panic!("shared")
        };
        assert_eq!(lifetime.stale_if_error.as_secs(), seconds, "{value}");
    }
    let strict = response(200, "max-age=1, stale-if-error=600, must-revalidate");
    let Storage::Shared(lifetime) = strict.storage(SystemTime::UNIX_EPOCH, DEFAULT) else { panic!("shared") };
    assert_eq!(lifetime.stale_if_error, Duration::ZERO);
}

#[test]
fn rubbish_times_make_it_stale_and_rubbish_directives_nothing() {
    assert_eq!(fresh(&response(200, "max-age=soon")), Some(0));
    assert_eq!(fresh(&response(200, "max-age=99999999999999999999")), Some(1 << 31));
    assert_eq!(fresh(&response(200, ",,=,x=\"no-store,\",  ")), Some(60));
}

#[test]
fn quoted_text_is_no_directive_and_hides_none_behind_it() {
    for value in [
        r#"ext="\"", no-store"#,
        r#"a="b\\", private"#,
        r#"ext="x, no-store"#,
        r#"max-age=60, a="\", no-store"#,
    ] {
        let storage = response(200, value).storage(SystemTime::UNIX_EPOCH, DEFAULT);
        assert_eq!(storage, Storage::Private, "{value}");
    }
    for value in [r#"ext="a, no-store, b", max-age=5"#, r#"ext="\", no-store, \"", max-age=5"#] {
        assert_eq!(fresh(&response(200, value)), Some(5), "{value}");
    }
}

#[test]
fn dates_of_an_origin_are_read_in_any_case_and_with_any_day_of_the_week() {
    let expires = |expires| fresh(&Response { expires: Some(expires), ..response(200, "") });
    assert_eq!(expires("thu, 01 jan 1970 00:00:40 gmt"), Some(40));
    assert_eq!(expires("Mon, 01 Jan 1970 00:00:40 GMT"), Some(40));
    assert_eq!(expires("Thu, 01 Jan 1970 00:00:40 UTC"), Some(0));
}

#[test]
fn codings_that_a_client_refuses_are_in_no_normal_form() {
    let form = |values: &[&str]| normalised("accept-encoding", values.iter().map(|value| value.as_bytes()));
    for refused in
        ["gzip;Q=0", "gzip;q=\"0\"", "gzip;q\t=\t0", "gzip ; q=0.000", "gzip;q=2", "*;q=0", "x-gzip;q=0", ""]
    {
        assert_eq!(form(&[refused]), None, "{refused}");
    }
    assert_eq!(form(&["X-GZIP"]).as_deref(), Some("gzip"));
    assert_eq!(form(&["gzip;q=0.1", "br"]).as_deref(), Some("br, gzip"));
    assert_eq!(form(&["*, br;q=0"]).as_deref(), Some("gzip, zstd"));
}

#[test]
fn a_targeted_field_counts_only_if_it_is_well_formed() {
    let read = |value: &str| Directives::parse_targeted([value.as_bytes()].into_iter());
    assert_eq!(read("max-age=60, no-store;x=1").unwrap().max_age, Some(Duration::from_secs(60)));
    assert!(read("no-store").unwrap().no_store);
    assert!(!read("max-age=1, no-store=?0").unwrap().no_store);
    assert!(read("max-age=60, ext=\"a b\"").is_some());
    assert!(!read(r#"max-age=60, ext="a, \", no-store; b""#).unwrap().no_store);
    for wrong in
        ["max-age", "max-age=x", "max-age=\"60\"", "Max-Age=60", "max-age=60,", "", "=1", "a=\"b", "a=\""]
    {
        assert_eq!(read(wrong), None, "{wrong}");
    }
    assert_eq!(Directives::parse_targeted([].into_iter()), None);
}

fn read(status: u16, lines: &str) -> Storage {
    Response::read(status, fields(lines).iter()).storage(SystemTime::UNIX_EPOCH, DEFAULT)
}

fn fresh_seconds(storage: Storage) -> Option<u64> {
    match storage {
        Storage::Shared(lifetime) => Some(lifetime.fresh.as_secs()),
        Storage::Private | Storage::Passing => None,
    }
}

#[test]
fn an_age_that_is_a_list_or_repeated_counts_with_its_first_member() {
    assert_eq!(fresh_seconds(read(200, "cache-control: max-age=9000\nage: 7200, 0\n")), Some(1800));
    assert_eq!(fresh_seconds(read(200, "cache-control: max-age=9000\nAge: 7200\nAge: 0\n")), Some(1800));
}

#[test]
fn a_response_that_varies_by_everything_is_for_one_client() {
    for vary in ["*", "Foo, *", "*, Foo", "Foo,*", "a\nvary: *", " , * ,"] {
        assert_eq!(
            read(200, &format!("cache-control: max-age=60\nvary: {vary}\n")),
            Storage::Private,
            "{vary}"
        );
    }
    assert_eq!(fresh_seconds(read(200, "cache-control: max-age=60\nvary: a*, b\n")), Some(60));
}

#[test]
fn a_304_without_cache_control_keeps_the_stored_lifetime_and_one_with_it_replaces_it() {
    let stored = fields("cache-control: max-age=7, stale-if-error=3\ncontent-type: video/mp4\n");
    let lifetime = |not_modified: &str| {
        let updated = updated_fields(&stored, &fields(not_modified));
        fresh_seconds(Response::read(200, updated.iter()).storage(SystemTime::UNIX_EPOCH, DEFAULT))
    };
    assert_eq!(lifetime("x: y\n"), Some(7));
    assert_eq!(lifetime("cache-control: max-age=90\n"), Some(90));
}
