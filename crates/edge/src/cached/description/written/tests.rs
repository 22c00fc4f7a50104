use penstock_config::{HttpOrigin, SiteCache};
use penstock_http::OriginUrl;

use super::*;
use crate::cached::audience::Audience;
use crate::cached::description::Quality;

const MINUTE: Duration = Duration::from_secs(60);

fn site() -> Arc<HttpSite> {
    site_of("http://127.0.0.1:9/v")
}

fn site_of(url: &str) -> Arc<HttpSite> {
    let origin = HttpOrigin::new(vec![(OriginUrl::parse(url).unwrap(), 1)]);
    HttpSite::new(&origin, &SiteCache::default(), [].into_iter())
}

fn description(site: &Arc<HttpSite>, since: Instant) -> Description {
    let lifetime = Lifetime {
        fresh: MINUTE,
        age: Duration::from_secs(5),
        stale_while_revalidate: MINUTE,
        stale_if_error: 2 * MINUTE,
    };
    let asked_with = [("accept-language".to_owned(), "de".to_owned())].into();
    Description {
        status: 200,
        ranges: true,
        stored: true,
        is_manifest: false,
        texts: Texts::new([
            (Text::Fields, b"x-custom: kept\r\n"),
            (Text::Target, b"/a?b"),
            (Text::Tags, b"film news"),
            (Text::ContentType, b"video/mp4"),
            (Text::Etag, b"\"v1\""),
            (Text::Modified, b"Sun, 06 Nov 1994 08:49:37 GMT"),
        ]),
        modified: 784_111_777_000,
        received: 1_000_000_000_000,
        site: Arc::clone(site),
        judged: AtomicU64::new(7),
        audience: Audience::default(),
        freshness: Mutex::new(Freshness::new(since, &lifetime)),
        rare: Rare { asked_with, ..Rare::default() }.kept(),
    }
}

fn written(site: &Arc<HttpSite>, now: (Instant, SystemTime)) -> Vec<u8> {
    let mut bytes = Vec::new();
    description(site, now.0).encode_at(&mut bytes, now);
    bytes
}

#[test]
fn what_is_written_is_read_again_and_time_has_gone_on() {
    let site = site();
    let now = (Instant::now(), SystemTime::now());
    let bytes = written(&site, now);
    let later = (now.0, now.1 + MINUTE / 2);
    let read = Description::decode(&bytes, &site, later).unwrap();
    assert_eq!((read.status, read.etag(), read.ranges), (200, "\"v1\"", true));
    assert_eq!((read.fields(), read.content_type()), (&b"x-custom: kept\r\n"[..], "video/mp4"));
    assert_eq!((read.target(), read.tags()), ("/a?b", "film news"));
    assert_eq!(read.asked_with(), [("accept-language".to_owned(), "de".to_owned())]);
    assert_eq!(read.modified_text(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_eq!(read.date(), UNIX_EPOCH + Duration::from_secs(784_111_777));
    assert_eq!(read.received(), UNIX_EPOCH + Duration::from_secs(1_000_000_000));
    assert!((34..=36).contains(&read.age(now.0)), "5 s and half a minute: {}", read.age(now.0));
    assert_eq!(read.quality(now.0), Quality::Fresh);
    assert_eq!(read.quality(now.0 + MINUTE), Quality::Stale);
    assert_eq!(read.quality(now.0 + 2 * MINUTE), Quality::Old);
    assert!(read.may_replace_an_error(now.0 + 2 * MINUTE));
    assert!(!read.may_replace_an_error(now.0 + 3 * MINUTE));
}

#[test]
fn what_became_stale_meanwhile_is_stale() {
    let site = site();
    let now = (Instant::now(), SystemTime::now());
    let bytes = written(&site, now);
    let quality = |later| Description::decode(&bytes, &site, (now.0, now.1 + later)).unwrap().quality(now.0);
    assert_eq!(quality(MINUTE + MINUTE / 2), Quality::Stale);
    assert_eq!(quality(3 * MINUTE), Quality::Old);
    assert_eq!(quality(Duration::from_secs(400 * 24 * 3600)), Quality::Old);
}

#[test]
fn after_a_clock_went_back_nothing_is_believed_to_be_fresh() {
    let site = site();
    let now = (Instant::now(), SystemTime::now());
    let bytes = written(&site, now);
    let read = Description::decode(&bytes, &site, (now.0, now.1 - 10 * MINUTE)).unwrap();
    assert_ne!(read.quality(now.0), Quality::Fresh);
}

#[test]
fn fields_of_a_later_version_are_passed_over_and_other_forms_are_refused() {
    let site = site();
    let now = (Instant::now(), SystemTime::now());
    let mut bytes = written(&site, now);
    put(&mut bytes, 200, b"from the future");
    assert!(Description::decode(&bytes, &site, now).is_some());
    bytes[0] = FORM + 1;
    assert!(Description::decode(&bytes, &site, now).is_none());
}

#[test]
fn what_is_cut_off_or_of_another_site_is_refused() {
    let site = site();
    let now = (Instant::now(), SystemTime::now());
    let bytes = written(&site, now);
    for length in 0..bytes.len() {
        assert!(Description::decode(&bytes[..length], &site, now).is_none(), "{length} bytes");
    }
    let other = site_of("http://127.0.0.1:10/v");
    assert!(Description::decode(&bytes, &other, now).is_none());
}

#[test]
fn a_summary_says_what_an_operator_asks() {
    let site = site();
    let now = (Instant::now(), UNIX_EPOCH + Duration::from_secs(2_000_000_000));
    let summary = WrittenObject::decode(&written(&site, now)).unwrap();
    assert_eq!((summary.target.as_str(), summary.status), ("/a?b", 200));
    assert_eq!(summary.fresh_until, now.1 + MINUTE);
    assert!(summary.site.contains("127.0.0.1:9"), "{}", summary.site);
}
