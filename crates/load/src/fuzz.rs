//! Fuzz targets: what a server may send.

use std::time::Duration;

use crate::failure::LoadFailure;
use crate::player::hls::HlsPlaylist;
use crate::player::manifest::ParsedManifest;
use crate::player::segments::{MediaSegment, SegmentList};
use crate::response::ResponseReader;
use crate::target::TargetUrl;

/// Status, body, whether the connection is kept, and the bytes that belong to the response.
type ReceivedResponse = Result<(u16, Vec<u8>, bool, usize), LoadFailure>;

/// The body of the fuzz target `load_response`: one byte of choices and a response. Every way to cut the bytes gives the same
/// result.
///
/// # Panics
/// If it does not.
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

fn receive(bytes: &[u8], for_head: bool, piece: usize) -> ReceivedResponse {
    let mut receiver = ResponseReader::default();
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

/// The body of the fuzz target `load_manifest`: an HLS playlist or a DASH description, whose segments are listed. Times and
/// numbers of any size are handled.
///
/// # Panics
/// If one is not.
pub fn fuzz_manifest(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let place: TargetUrl = "https://a.example/live/index.mpd?x=1".parse().expect("it is a URL");
    let now = Duration::from_secs(1_800_000_000);
    match ParsedManifest::parse(text, &place) {
        None => {}
        Some(ParsedManifest::Hls(HlsPlaylist::Multivariant(variants, _))) => {
            variants.iter().for_each(|variant| fetched(&place, &variant.uri));
        }
        Some(ParsedManifest::Hls(HlsPlaylist::Media(segments))) => {
            taken(&place, &segments);
            // As a delta update of itself without the skip.
            let before = SegmentList { skipped: 0, ..(*segments).clone() };
            if let Some(merged) = segments.after(&before) {
                taken(&place, &merged);
            }
        }
        Some(ParsedManifest::Dash(presentation)) => {
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

fn taken(place: &TargetUrl, segments: &SegmentList) {
    assert!(segments.list.len() <= 200_000, "{} segments", segments.list.len());
    let edges = segments.list.iter().take(3).chain(segments.list.iter().rev().take(3));
    for MediaSegment { uri, before, .. } in edges {
        fetched(place, uri);
        before.iter().for_each(|companion| fetched(place, &companion.uri));
    }
}

/// A resolved reference is a URL that parses to itself.
fn fetched(place: &TargetUrl, reference: &str) {
    let Ok(target) = place.join(reference) else { return };
    assert_eq!(target.to_string().parse().as_ref(), Ok(&target), "{reference}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_of_the_fuzz_targets_hold() {
        for (folder, target) in [
            ("load_manifest", fuzz_manifest as fn(&[u8])),
            ("load_response", fuzz_response),
            ("load_index", crate::player::dash::fuzz_index),
        ] {
            let folder = format!("{}/../../fuzz/seeds/{folder}", env!("CARGO_MANIFEST_DIR"));
            let seeds: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
            assert!(!seeds.is_empty());
            for seed in seeds {
                let bytes = std::fs::read(seed.unwrap().path()).unwrap();
                target(&bytes);
                // Every cut, and every byte changed.
                for place in (0..bytes.len()).step_by(bytes.len() / 200 + 1) {
                    target(&bytes[..place]);
                    let mut changed = bytes.clone();
                    changed[place] ^= 0x15;
                    target(&changed);
                }
            }
        }
    }
}
