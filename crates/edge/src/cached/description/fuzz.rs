//! What a fuzzer calls: what an origin says of an object, and what an earlier process wrote about one.

use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use penstock_cache::Describe;
use penstock_config::{HttpOrigin, SiteCache};
use penstock_http::{HeadWriter, OriginUrl};

use super::head::NOT_PASSED_ON;
use super::{
    Answer, Arc, Asked, Description, Duration, HttpSite, Instant, Quality, Reading, Storage, SystemTime,
    WrittenObject,
};

const KEY: [u8; 16] = [9; 16];

fn site() -> &'static Arc<HttpSite> {
    static SITE: OnceLock<Arc<HttpSite>> = OnceLock::new();
    SITE.get_or_init(|| {
        let url = OriginUrl::parse("http://127.0.0.1:9/v").expect("it is a URL");
        HttpSite::new(&HttpOrigin::new(vec![(url, 1)]), &SiteCache::default(), [].into_iter())
    })
}

/// The body of the fuzz target `origin_response`: whatever an origin sends, only whole lines of harmless fields are
/// passed on, and what is kept is read again as it was.
///
/// # Panics
/// When that does not hold.
pub fn fuzz_origin_response(input: &[u8]) {
    penstock_origin::http::fuzz_answer(input, take_in);
}

fn take_in(answer: &Answer<'_>) {
    let asked = Asked {
        key: KEY,
        primary: KEY,
        fields: [].into(),
        passes: Arc::default(),
        moment: 7,
        target: "/a?b".to_owned(),
        early: false,
        is_manifest: false,
    };
    let now = (Instant::now(), UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    let (description, storage) = Description::read(answer, &asked, site(), Reading::Other, now);
    let mut head = Vec::new();
    let mut writer = HeadWriter::with_code(&mut head, description.status);
    writer.lines(description.fields());
    writer.finish();
    let lines = head.strip_suffix(b"\r\n\r\n").expect("a head has an end");
    for line in lines.split(|byte| *byte == b'\n').skip(1) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = line.iter().position(|byte| *byte == b':').expect("a field has a name");
        let name = line[..colon].to_ascii_lowercase();
        let is_ours = NOT_PASSED_ON.iter().any(|known| known.as_bytes() == name);
        assert!(!is_ours && !line.contains(&b'\r') && !line.contains(&0), "{}", line.escape_ascii());
    }
    let tags = description.tags();
    assert!(tags.is_empty() || tags.split(' ').all(|tag| !tag.is_empty()));
    let kept = matches!(storage, Storage::Shared(_));
    assert!(kept || description.quality(now.0) == Quality::Old);
    description.make_stale(now.0);
    let _ = (description.age(now.0), description.ttl(now.0), description.may_replace_an_error(now.0));
    reread(&description, now);
}

/// The body of the fuzz target `description`: bytes that an earlier process may have written beside an object.
///
/// # Panics
/// When they are read in two ways.
pub fn fuzz_description(input: &[u8]) {
    let now = (Instant::now(), UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    let shown = WrittenObject::decode(input);
    let Some(read) = Description::decode(input, site(), now) else { return };
    assert!(shown.is_none_or(|shown| shown.target == read.target() && shown.status == read.status));
    let _ = (read.age(now.0), read.ttl(now.0), read.patience(now.0), read.condition());
    reread(&read, now);
    read.make_stale(now.0);
    assert_ne!(read.quality(now.0), Quality::Fresh);
}

/// What is written is what is read.
fn reread(description: &Description, now: (Instant, SystemTime)) {
    let mut bytes = Vec::new();
    description.encode_at(&mut bytes, now);
    let mut by_the_clock = Vec::new();
    description.encode(&mut by_the_clock);
    assert_eq!(bytes.len(), by_the_clock.len());
    let read = Description::decode(&bytes, site(), now).expect("what is written can be read");
    assert_eq!(
        (read.status, read.fields(), read.etag(), read.tags()),
        (description.status, description.fields(), description.etag(), description.tags())
    );
    assert_eq!((read.modified_text(), read.modified), (description.modified_text(), description.modified));
    assert_eq!(read.asked_with(), description.asked_with());
    let mut again = Vec::new();
    read.encode_at(&mut again, now);
    assert_eq!(bytes, again, "written once more, it is something else");
}
