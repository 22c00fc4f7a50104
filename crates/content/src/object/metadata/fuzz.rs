//! Bodies of fuzz targets: metadata from an origin's response, and metadata from an earlier process.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_cache::Metadata;
use penstock_config::{CachePolicy, FieldRules, HttpOrigin};
use penstock_http::{Fields, OriginUrl, ResponseHead};

use penstock_http::caching::is_of_connection;

use super::head::NOT_PASSED_ON;
use super::{
    Arc, BodyKind, CacheRequest, Duration, Freshness, HttpSite, Instant, ObjectMetadata, OriginBody, Storage,
    StoredObject,
};

const KEY: [u8; 16] = [9; 16];

fn site() -> &'static Arc<HttpSite> {
    static SITE: OnceLock<Arc<HttpSite>> = OnceLock::new();
    SITE.get_or_init(|| {
        let url = OriginUrl::parse("http://127.0.0.1:9/v").expect("it is a URL");
        HttpSite::new(
            &HttpOrigin::new(vec![(url, 1)]),
            &CachePolicy::default(),
            &[],
            [].into_iter(),
            None,
            &FieldRules::default(),
            ("", &[]),
        )
    })
}

/// The body of the fuzz target `origin_response`: of any response only whole lines of fields that may
/// be forwarded are kept, and stored metadata are read back as they were.
///
/// # Panics
/// When that does not hold.
pub fn fuzz_origin_response(input: &[u8]) {
    penstock_origin::http::fuzz_response(input, |answer| take_in(answer));
}

fn take_in(answer: &dyn OriginBody) {
    let asked = CacheRequest {
        key: KEY,
        primary: KEY,
        fields: [].into(),
        forwarded: Arc::default(),
        stamp: 7,
        target: "/a?b".into(),
        early: false,
        is_manifest: false,
    };
    let now = (Instant::now(), UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    let (metadata, storage) = ObjectMetadata::read(answer, &asked, site(), BodyKind::Other, now);
    let fields = metadata.fields().unpacked();
    assert_eq!(Fields::from_lines(&fields.to_lines()).as_ref(), Some(&fields));
    let head = ResponseHead { status: metadata.status, fields }.into_http1(|_| {});
    let lines = head.strip_suffix(b"\r\n\r\n").expect("a head has an end");
    for line in lines.split(|byte| *byte == b'\n').skip(1) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = line.iter().position(|byte| *byte == b':').expect("a field has a name");
        let name = line[..colon].to_ascii_lowercase();
        let is_ours = NOT_PASSED_ON.iter().any(|known| known.as_bytes() == name) || is_of_connection(name);
        assert!(!is_ours && !line.contains(&b'\r') && !line.contains(&0), "{}", line.escape_ascii());
    }
    let tags = metadata.tags();
    assert!(tags.is_empty() || tags.split(' ').all(|tag| !tag.is_empty()));
    let kept = matches!(storage, Storage::Shared(_));
    assert!(kept || metadata.freshness(now.0) == Freshness::Expired);
    metadata.make_stale(now.0);
    let _ = (metadata.lifetime().ttl_seconds(now.0), metadata.may_replace_an_error(now.0));
    reread(&metadata, now);
}

/// The body of the fuzz target `metadata`: bytes that an earlier process may have stored.
///
/// # Panics
/// When the two readers disagree.
pub fn fuzz_description(input: &[u8]) {
    let now = (Instant::now(), UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    let shown = StoredObject::decode(input);
    let Some(read) = ObjectMetadata::decode(input, site(), now) else { return };
    assert!(shown.is_none_or(|shown| shown.target == read.target() && shown.status == read.status));
    let _ = (
        read.lifetime().age_seconds(now.0),
        read.lifetime().ttl_seconds(now.0),
        read.patience(now.0),
        read.condition(),
    );
    reread(&read, now);
    read.make_stale(now.0);
    assert_ne!(read.freshness(now.0), Freshness::Fresh);
}

/// Stores and reads metadata.
fn reread(metadata: &ObjectMetadata, now: (Instant, SystemTime)) {
    let mut bytes = Vec::new();
    metadata.encode_at(&mut bytes, now);
    let mut by_the_clock = Vec::new();
    metadata.encode(&mut by_the_clock);
    assert_eq!(bytes.len(), by_the_clock.len());
    let read = ObjectMetadata::decode(&bytes, site(), now).expect("what is written can be read");
    assert_eq!(
        (read.status, read.fields().unpacked(), read.etag(), read.tags()),
        (metadata.status, metadata.fields().unpacked(), metadata.etag(), metadata.tags())
    );
    assert_eq!((read.modified_text(), read.date()), (metadata.modified_text(), metadata.date()));
    assert_eq!(read.request_fields(), metadata.request_fields());
    let mut again = Vec::new();
    read.encode_at(&mut again, now);
    assert_eq!(bytes, again, "the second form differs");
}
