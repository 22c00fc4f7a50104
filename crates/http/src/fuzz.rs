//! Bodies of the fuzz targets for request heads, field values, queries and URLs, and manifests.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::body::BodyDecoder;
use crate::caching::{DefaultLifetimes, Directives, Response, Storage, normalised};
use crate::cmcd::{Cmcd, LIST_BYTES_MAX};
use crate::conditional::{Validators, evaluate};
use crate::manifest::{Delivery, Manifest, Playlist, Position, Reach, resolve};
use crate::multipart::{Boundary, Multipart};
use crate::query::{Counting, Name, QueryRules, decoded, take};
use crate::range::{Ranges, select};
use crate::request::{Request, head_length};
use crate::{Encoding, HeadLimits, OriginUrl, encoding};

/// The body of the fuzz target `request_head`: no input may panic, and a head fed in two pieces must
/// be judged as it is when fed at once.
pub fn fuzz_request_head(input: &[u8]) {
    let limits = HeadLimits { head_bytes: 1024, fields: 16, target_bytes: 256 };
    let Some((&cut, bytes)) = input.split_first() else { return };
    let whole = head_length(bytes, 0, &limits);
    let cut = usize::from(cut).min(bytes.len());
    let in_two = match head_length(&bytes[..cut], 0, &limits) {
        Ok(None) => head_length(bytes, cut, &limits),
        decided => decided,
    };
    assert_eq!(whole, in_two);
    let Ok(Some(length)) = whole else { return };
    let Ok(request) = Request::parse(&bytes[..length], &limits) else { return };
    if let Ok(path) = request.file_path() {
        path.assert_safe();
    }
    if let Ok(path) = request.url_path() {
        assert!(path.starts_with('/') && path.split('/').all(|segment| !matches!(segment, "." | "..")));
    }
    if let Some(said) = Cmcd::of(&request, true) {
        let object = said.next.and_then(|next| next.object).map(|object| object.len());
        assert!(object.is_none_or(|length| (1..=LIST_BYTES_MAX).contains(&length)));
        let names = [&said.session, &said.content].into_iter().flatten();
        assert!(names.map(|name| name.len()).all(|length| length <= 64) && said.bitrate != Some(0));
    }
    let now = UNIX_EPOCH;
    evaluate(&request, &Validators { etag: "\"1\"", modified: now, is_date_strong: true });
    select(request.range(), u64::from(bytes[0]), 16);
    encoding::negotiate(request.accept_encoding(), &[Encoding::Brotli, Encoding::Gzip]);
    let mut skipper = BodyDecoder::new(request.body(), 1 << 16);
    if let Ok(skipped) = skipper.skip(&bytes[length..]) {
        assert!(skipped.done || skipped.consumed == bytes.len() - length);
    }
}

/// The body of the fuzz target `fields`: values of fields, one in each line, behind two bytes for a length and a
/// status. None may panic, and their meanings must be consistent.
pub fn fuzz_fields(input: &[u8]) {
    let Some((&[size, status], lines)) = input.split_first_chunk::<2>() else { return };
    // Small lengths, and lengths near the limit of 64 bits.
    let length = if size < 128 { u64::from(size) } else { u64::MAX >> (size - 128).min(63) };
    let lines: Vec<&[u8]> = lines.split(|byte| *byte == b'\n').collect();
    let line = |place: usize| lines.get(place).copied().unwrap_or_default();
    let text = |place: usize| str::from_utf8(line(place)).ok();
    ranges(text(0), length);
    directives([line(1), line(2)]);
    let response = Response {
        status: [200, 206, 302, 304, 404, 425, 500][usize::from(status) % 7],
        directives: Directives::parse_targeted([line(2)].into_iter())
            .unwrap_or_else(|| Directives::parse([line(1)].into_iter())),
        sets_cookie: false,
        varies_by_everything: false,
        expires: text(3),
        date: text(4),
        age: text(5),
    };
    storage(&response);
    accepted(text(6), line(7));
}

fn ranges(field: Option<&str>, length: u64) {
    let selected = select(field, length, 16);
    let is_inside = |range: &Range<u64>| range.start < range.end && range.end <= length;
    match &selected {
        Ranges::Whole | Ranges::Unsatisfiable => {}
        Ranges::One(range) => assert!(is_inside(range), "{range:?} of {length}"),
        Ranges::Many(ranges) => {
            assert!((2..=16).contains(&ranges.len()) && ranges.iter().all(is_inside), "{ranges:?}");
            for (place, one) in ranges.iter().enumerate() {
                let others = ranges[place + 1..].iter();
                assert!(others.clone().all(|other| one.end < other.start || other.end < one.start));
            }
            multipart(ranges, length);
        }
    }
    // A lone range is read without a list; the list has to say the same.
    if let Some(field) = field.filter(|field| field.contains('=') && selected != Ranges::Whole) {
        assert_eq!(select(Some(&format!("{field},")), length, 17), selected, "{field}");
    }
}

/// The written body is as long as announced.
fn multipart(ranges: &[Range<u64>], length: u64) {
    let multipart = Multipart::new(Boundary::new(7), "video/mp4", length, ranges);
    let mut out = Vec::new();
    (0..ranges.len()).for_each(|part| multipart.write_part_head(&mut out, part));
    multipart.write_closing(&mut out);
    let bodies = ranges.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
    assert_eq!(multipart.content_length(), bodies.saturating_add(out.len() as u64));
}

fn directives(lines: [&[u8]; 2]) {
    let joined = lines.join(&b", "[..]);
    // A quote that is still open would take the comma in.
    if !has_open_quote(lines[0]) {
        assert_eq!(Directives::parse(lines.into_iter()), Directives::parse([&*joined].into_iter()));
        let targeted = Directives::parse_targeted(lines.into_iter());
        assert_eq!(targeted, Directives::parse_targeted([&*joined].into_iter()));
    }
}

fn has_open_quote(line: &[u8]) -> bool {
    let (mut is_open, mut bytes) = (false, line.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_open = !is_open,
            b'\\' if is_open => drop(bytes.next()),
            _ => {}
        }
    }
    is_open
}

fn storage(response: &Response<'_>) {
    const HOUR: Duration = Duration::from_secs(3600);
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let default = DefaultLifetimes {
        found: HOUR,
        missing: HOUR / 60,
        stale_if_error: HOUR,
        ..DefaultLifetimes::default()
    };
    let said = &response.directives;
    let is_forbidden = said.private || (said.no_store && !said.must_understand);
    match response.storage(now, default) {
        Storage::Private => assert!(is_forbidden || said.must_understand || response.status == 425),
        Storage::Passing => assert!(!is_forbidden),
        Storage::Shared(lifetime) => {
            assert!(!is_forbidden && ![206, 304].contains(&response.status));
            assert!(!said.no_cache || lifetime.fresh.is_zero());
            assert!(lifetime.age <= Duration::from_secs(1 << 31));
            let told = said.s_maxage.or(said.max_age);
            assert!(
                told.is_none_or(|told| lifetime.fresh.saturating_add(lifetime.age) <= told.max(lifetime.age))
            );
            assert!(SystemTime::now().checked_add(lifetime.fresh).is_some());
        }
    }
}

fn accepted(codings: Option<&str>, other: &[u8]) {
    let offered = [Encoding::Brotli, Encoding::Gzip];
    let chosen = encoding::negotiate(codings, &offered);
    assert!(chosen == Encoding::Identity || codings.is_some());
    for (name, value) in [
        ("accept-encoding", codings.unwrap_or_default().as_bytes()),
        ("accept-language", other),
        ("x", other),
    ] {
        if let Some(once) = normalised(name, [value].into_iter()) {
            let twice = normalised(name, [once.as_bytes()].into_iter());
            assert_eq!(twice.as_ref(), Some(&once), "{name} of one meaning has two spellings");
        }
    }
}

/// The body of the fuzz target `url`: a query, names of parameters, a URL and a reference, one in each line. None may
/// panic; removed parameters are gone, and each operation is idempotent.
pub fn fuzz_url(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (query, names, url, reference) = (line(), line(), line(), line());
    let names: Vec<Name> = names.split(' ').filter_map(Name::parse).collect();
    for counting in [Counting::All, Counting::Nothing, Counting::Except(names.clone()), Counting::Only(names)]
    {
        for sorted in [false, true] {
            let rules = QueryRules { counting: counting.clone(), sorted };
            let once = rules.apply(url, Some(query));
            assert_eq!(rules.apply(url, once.as_deref()), once, "{rules:?}");
        }
    }
    if let Some(taken) = take(query, "token") {
        assert!(query.contains(taken.value));
        assert!(taken.rest.is_none_or(|rest| take(&rest, "token").is_none()));
    }
    if let Some(once) = decoded(query) {
        assert!(once.len() <= query.len());
    }
    if let Ok((delivery, rest)) = Delivery::take(query) {
        let again = delivery.query(&rest);
        assert_eq!(Delivery::take(&again), Ok((delivery, rest)), "{again}");
    }
    if let Ok(origin) = OriginUrl::parse(url) {
        assert_eq!(OriginUrl::parse(&origin.to_string()).as_ref(), Ok(&origin));
        assert!(!origin.base().ends_with('/') && origin.port() > 0);
    }
    resolved("/live/a/index.m3u8?token=1", reference);
    resolved(url, reference);
}

/// A resolved reference can stand in a request line and has no dot segments.
fn resolved(base: &str, reference: &str) {
    let is_target = base.starts_with('/') && base.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let Some(target) = resolve(base, reference).filter(|_| is_target) else { return };
    assert!(target.len() <= base.len() + 3 * reference.len() + 1);
    assert!(target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'), "{target}");
    let path = target.split('?').next().unwrap_or_default();
    assert!(path.starts_with('/'), "{target}");
    if !reference.starts_with('?') {
        assert!(!path.split('/').any(|segment| matches!(segment, "." | "..")), "{target}");
    }
}

/// The body of the fuzz target `manifest`: any bytes as an HLS playlist or a DASH description. Nothing comes out that
/// did not go in, and its times are within bounds.
pub fn fuzz_manifest(input: &[u8]) {
    let Some(manifest) = Manifest::parse(input) else { return };
    for cut in 0..=input.len().min(64) {
        assert!(Manifest::may_begin_with(&input[..cut]), "not after {cut} bytes");
    }
    if let Some(fresh) = manifest.fresh() {
        assert!(
            manifest.is_live() && (Duration::from_millis(250)..=Duration::from_secs(300)).contains(&fresh)
        );
    }
    let Some(playlist) = manifest.media() else { return };
    let uris = playlist.segments.iter();
    assert!(uris.clone().map(String::len).sum::<usize>() <= input.len());
    uris.for_each(|uri| resolved("/live/index.m3u8", uri));
    assert!(playlist.longest_hold() <= Duration::from_secs(180));
    reaches(playlist);
    if !input.contains(&b'\r') {
        let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
        assert_eq!(Manifest::parse(&lines.join(&b"\r\n"[..])), Some(manifest), "with the other line ends");
    }
}

/// A later position is never nearer.
fn reaches(playlist: &Playlist) {
    let distance = |segment: u64, part: Option<u64>| match playlist.reach(Position { segment, part }) {
        Reach::Within => 0,
        Reach::Next => 1,
        Reach::TooFar => 2,
    };
    let first = playlist.open_segment.saturating_sub(3);
    let positions = (first..=playlist.open_segment.saturating_add(2)).flat_map(|segment| {
        let parts = (0..4).chain([playlist.open_parts, playlist.open_parts.saturating_add(400)]);
        parts.map(move |part| (segment, part))
    });
    let mut positions: Vec<(u64, u64)> = positions.collect();
    positions.sort_unstable();
    for pair in positions.windows(2) {
        let [near, far] = [pair[0], pair[1]].map(|(segment, part)| distance(segment, Some(part)));
        // The last parts of a whole segment are the first of the next.
        assert!(near <= far || pair[0].0 < pair[1].0, "{pair:?}");
    }
    let whole: Vec<u8> =
        (first..=playlist.open_segment.saturating_add(2)).map(|segment| distance(segment, None)).collect();
    assert!(whole.is_sorted(), "{whole:?}");
}
