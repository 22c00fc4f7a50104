use penstock_config::{CachePolicy, FieldRules, HttpOrigin};
use penstock_http::OriginUrl;

use super::*;
use crate::lifetime::Freshness;
use crate::object::readers::ReaderThrottle;

const MINUTE: Duration = Duration::from_secs(60);

fn site() -> Arc<HttpSite> {
    site_of("http://127.0.0.1:9/v")
}

fn site_of(url: &str) -> Arc<HttpSite> {
    let origin = HttpOrigin::new(vec![(OriginUrl::parse(url).unwrap(), 1)]);
    HttpSite::new(
        &origin,
        &CachePolicy::default(),
        &[],
        [].into_iter(),
        None,
        &FieldRules::default(),
        ("", &[]),
    )
}

fn metadata(site: &Arc<HttpSite>, since: Instant) -> ObjectMetadata {
    let lifetime = Lifetime {
        fresh: MINUTE,
        age: Duration::from_secs(5),
        stale_while_revalidate: MINUTE,
        stale_if_error: 2 * MINUTE,
    };
    let request_fields = [("accept-language".to_owned(), "de".to_owned())].into();
    ObjectMetadata {
        status: 200,
        traits: Traits::RANGES.with(Traits::STORED, true),
        server: 0,
        texts: Texts::new(&TextParts {
            fields: &Fields::from_lines(b"x-custom: kept\r\n").unwrap(),
            target: "/a?b",
            tags: "film news",
            content_type: "video/mp4",
            etag: "\"v1\"",
            modified: "Sun, 06 Nov 1994 08:49:37 GMT",
            received: 1_000_000_000,
        }),
        site: Arc::clone(site),
        judged: AtomicU64::new(7),
        readers: ReaderThrottle::default(),
        lifetime: SharedLifetime::new(&StoredLifetime::new(since, &lifetime)),
        rare: Rare { request_fields, ..Rare::default() }.kept(),
    }
}

fn written(site: &Arc<HttpSite>, now: (Instant, SystemTime)) -> Vec<u8> {
    let mut bytes = Vec::new();
    metadata(site, now.0).encode_at(&mut bytes, now);
    bytes
}

#[test]
fn what_is_written_is_read_again_and_time_has_gone_on() {
    let site = site();
    let now = (Instant::now(), SystemTime::now());
    let bytes = written(&site, now);
    let later = (now.0, now.1 + MINUTE / 2);
    let read = ObjectMetadata::decode(&bytes, &site, later).unwrap();
    assert_eq!((read.status, read.etag(), read.traits), (200, "\"v1\"", metadata(&site, now.0).traits));
    assert_eq!(
        (&*read.fields().unpacked().to_lines(), read.content_type()),
        (&b"x-custom: kept\r\n"[..], "video/mp4")
    );
    assert_eq!((read.target(), read.tags()), ("/a?b", "film news"));
    assert_eq!(read.request_fields(), [("accept-language".to_owned(), "de".to_owned())]);
    assert_eq!(read.modified_text().as_deref(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_eq!(read.date(), UNIX_EPOCH + Duration::from_secs(784_111_777));
    assert_eq!(read.received(), UNIX_EPOCH + Duration::from_secs(1_000_000_000));
    assert!(
        (34..=36).contains(&read.lifetime().age_seconds(now.0)),
        "5 s and half a minute: {}",
        read.lifetime().age_seconds(now.0)
    );
    assert_eq!(read.freshness(now.0), Freshness::Fresh);
    assert_eq!(read.freshness(now.0 + MINUTE), Freshness::Stale);
    assert_eq!(read.freshness(now.0 + 2 * MINUTE), Freshness::Expired);
    assert!(read.may_replace_an_error(now.0 + 2 * MINUTE));
    assert!(!read.may_replace_an_error(now.0 + 3 * MINUTE));
}

#[test]
fn an_object_becomes_stale_between_two_processes() {
    let site = site();
    let now = (Instant::now(), SystemTime::now());
    let bytes = written(&site, now);
    let quality =
        |later| ObjectMetadata::decode(&bytes, &site, (now.0, now.1 + later)).unwrap().freshness(now.0);
    assert_eq!(quality(MINUTE + MINUTE / 2), Freshness::Stale);
    assert_eq!(quality(3 * MINUTE), Freshness::Expired);
    assert_eq!(quality(Duration::from_secs(400 * 24 * 3600)), Freshness::Expired);
}

#[test]
fn after_a_clock_was_set_back_no_object_is_fresh() {
    let site = site();
    let now = (Instant::now(), SystemTime::now());
    let bytes = written(&site, now);
    let read = ObjectMetadata::decode(&bytes, &site, (now.0, now.1 - 10 * MINUTE)).unwrap();
    assert_ne!(read.freshness(now.0), Freshness::Fresh);
}

#[test]
fn unknown_fields_are_skipped_and_other_versions_are_refused() {
    let site = site();
    let now = (Instant::now(), SystemTime::now());
    let mut bytes = written(&site, now);
    put(&mut bytes, 200, b"from the future");
    assert!(ObjectMetadata::decode(&bytes, &site, now).is_some());
    bytes[0] = FORM + 1;
    assert!(ObjectMetadata::decode(&bytes, &site, now).is_none());
}

#[test]
fn truncated_metadata_and_those_of_another_site_are_refused() {
    let site = site();
    let now = (Instant::now(), SystemTime::now());
    let bytes = written(&site, now);
    for length in 0..bytes.len() {
        assert!(ObjectMetadata::decode(&bytes[..length], &site, now).is_none(), "{length} bytes");
    }
    let other = site_of("http://127.0.0.1:10/v");
    assert!(ObjectMetadata::decode(&bytes, &other, now).is_none());
}

#[test]
fn a_summary_has_target_status_and_freshness() {
    let site = site();
    let now = (Instant::now(), UNIX_EPOCH + Duration::from_secs(2_000_000_000));
    let summary = StoredObject::decode(&written(&site, now)).unwrap();
    assert_eq!((summary.target.as_str(), summary.status), ("/a?b", 200));
    // A lifetime begins at a whole millisecond after the first use of the clock.
    let early = (now.1 + MINUTE).duration_since(summary.fresh_until).unwrap();
    assert!(early <= Duration::from_millis(1), "{early:?}");
    assert!(summary.site.contains("127.0.0.1:9"), "{}", summary.site);
}
