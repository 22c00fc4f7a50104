//! What a fuzzer calls: what a server may send to a load generator.

use std::time::Duration;

use crate::Failure;
use crate::player::Manifest;
use crate::player::hls::Playlist;
use crate::player::{Segment, Segments};
use crate::response::Receiver;
use crate::target::Target;

/// What came of a response: status, body, whether and how it ended, and how many bytes were its own.
type Received = Result<(u16, Vec<u8>, bool, usize), Failure>;

/// The body of the fuzz target `load_response`: one byte of choices and a response. However it is cut, it means the
/// same.
///
/// # Panics
/// When it does not.
pub fn fuzz_response(input: &[u8]) {
    let Some((&choices, bytes)) = input.split_first() else { return };
    let for_head = choices & 1 != 0;
    let whole = receive(bytes, for_head, bytes.len().max(1));
    let piece = usize::from(choices >> 1) % 64 + 1;
    assert_eq!(receive(bytes, for_head, piece), whole, "in pieces of {piece}");
    if let Ok((_, body, _, used)) = whole {
        assert!(used <= bytes.len() && body.len() <= used && (body.is_empty() || !for_head));
    }
}

fn receive(bytes: &[u8], for_head: bool, piece: usize) -> Received {
    let mut receiver = Receiver::default();
    receiver.expect(for_head);
    let (mut body, mut used) = (Vec::new(), 0);
    for piece in bytes.chunks(piece) {
        used += receiver.feed(piece, |bytes| body.extend_from_slice(bytes))?;
        if receiver.is_done() {
            break;
        }
    }
    receiver.end()?;
    let head = receiver.head().expect("what has ended had a head");
    Ok((head.status, body, head.keeps_alive, used))
}

/// The body of the fuzz target `load_manifest`: an HLS playlist or a DASH description, of which all is fetched. No time
/// and no number in it may be too much.
///
/// # Panics
/// When one is.
pub fn fuzz_manifest(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let place: Target = "https://a.example/live/index.mpd?x=1".parse().expect("it is a URL");
    let now = Duration::from_secs(1_800_000_000);
    match Manifest::parse(text, &place) {
        None => {}
        Some(Manifest::Hls(Playlist::Master(variants))) => {
            variants.iter().for_each(|variant| fetched(&place, &variant.uri));
        }
        Some(Manifest::Hls(Playlist::Media(segments))) => taken(&place, &segments),
        Some(Manifest::Dash(presentation)) => {
            let levels = presentation.variants().len();
            assert!(levels > 0, "nothing to play");
            for (level, moment) in [(0, now), (levels - 1, Duration::ZERO), (levels - 1, now * 2)] {
                let segments = presentation.segments(level, moment);
                taken(&place, &segments);
                if let Some(last) = segments.list.last() {
                    let due = presentation.due_after(last);
                    assert!(due.is_none() || presentation.is_by_clock());
                }
            }
        }
    }
}

fn taken(place: &Target, segments: &Segments) {
    assert!(segments.list.len() <= 200_000, "{} segments", segments.list.len());
    let edges = segments.list.iter().take(3).chain(segments.list.iter().rev().take(3));
    for Segment { uri, before, .. } in edges {
        fetched(place, uri);
        before.iter().for_each(|companion| fetched(place, &companion.uri));
    }
}

/// Where a reference leads is a URL again, and one that means itself.
fn fetched(place: &Target, reference: &str) {
    let Ok(target) = place.join(reference) else { return };
    if target.path.bytes().all(|byte| byte.is_ascii_graphic()) && !target.path.contains('#') {
        assert_eq!(target.to_string().parse().as_ref(), Ok(&target), "{reference}");
    }
}
