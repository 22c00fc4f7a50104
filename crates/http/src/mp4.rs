//! How long a film in MP4 lasts (ISO/IEC 14496-12), from the few of its bytes that say it.
//!
//! Input is untrusted: the search looks at a bounded number of boxes, and each of them is further behind than the one before.

use std::time::Duration;

/// Boxes that are looked at, in the file and in its `moov`.
const BOXES_MAX: usize = 32;
/// Bytes in front of the content of a box, at most.
const HEADER_BYTES: usize = 16;
/// Bytes of `mvhd` up to the end of its duration, in the longer of its two forms.
const DURATION_BYTES: usize = 32;

/// Where a search has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// The film lasts so long.
    Found(Duration),
    /// The bytes from here on are needed, and the reader has none of them. The search can go on there.
    Needs(u64),
    /// It is no MP4, or does not say how long it lasts, such as one that consists of fragments.
    Unknown,
}

/// Searches from the start of a box, such as the start of the file. `read` copies the bytes at an offset, and returns how many there
/// were space and bytes for; fewer than were asked for are the last ones.
pub fn duration(start: u64, mut read: impl FnMut(u64, &mut [u8]) -> usize) -> Search {
    let mut at = start;
    let mut end = u64::MAX;
    for _ in 0..2 * BOXES_MAX {
        if at >= end {
            return Search::Unknown;
        }
        let mut header = [0; HEADER_BYTES];
        let bytes = read(at, &mut header);
        let Some(found) = BoxHeader::of(header.get(..bytes).unwrap_or_default()) else {
            return if bytes == 0 { Search::Needs(at) } else { Search::Unknown };
        };
        match &found.kind {
            b"moov" => (at, end) = (at + found.header, at.saturating_add(found.length)),
            b"mvhd" if end < u64::MAX => return movie_duration(at + found.header, read),
            // What a film begins with, or what is in front of the header in `moov`.
            kind if kind.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') => {
                let Some(next) = at.checked_add(found.length) else { return Search::Unknown };
                at = next;
            }
            _ => return Search::Unknown,
        }
    }
    Search::Unknown
}

/// The start of a box.
struct BoxHeader {
    kind: [u8; 4],
    /// Bytes of the box, this start included.
    length: u64,
    /// Bytes of this start.
    header: u64,
}

impl BoxHeader {
    fn of(bytes: &[u8]) -> Option<Self> {
        let length = u32::from_be_bytes(*bytes.first_chunk()?);
        let kind = *bytes.get(4..8)?.first_chunk()?;
        let (length, header) = match length {
            // Up to the end of the file: nothing is behind it.
            0 => (u64::MAX, 8),
            1 => (u64::from_be_bytes(*bytes.get(8..16)?.first_chunk()?), 16),
            length => (length.into(), 8),
        };
        (length >= header).then_some(Self { kind, length, header })
    }
}

/// Reads the content of `mvhd`.
fn movie_duration(at: u64, mut read: impl FnMut(u64, &mut [u8]) -> usize) -> Search {
    let mut content = [0; DURATION_BYTES];
    let bytes = read(at, &mut content);
    let content = content.get(..bytes).unwrap_or_default();
    let number = |at: usize| Some(u32::from_be_bytes(*content.get(at..)?.first_chunk()?));
    let parts = match content.first() {
        Some(0) => number(12).zip(number(16).filter(|units| *units != u32::MAX).map(u64::from)),
        Some(1) => {
            let long = content.get(24..).and_then(|rest| rest.first_chunk());
            number(20).zip(long.map(|units| u64::from_be_bytes(*units)).filter(|units| *units != u64::MAX))
        }
        _ => None,
    };
    match parts {
        Some((scale @ 1.., units @ 1..)) => {
            let scale = u64::from(scale);
            let rest = (units % scale) * 1_000_000_000 / scale;
            Search::Found(Duration::from_secs(units / scale) + Duration::from_nanos(rest))
        }
        _ => Search::Unknown,
    }
}

/// The body of the fuzz target `mp4`: the search ends, and looks at a bounded number of places.
///
/// # Panics
/// When that does not hold.
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub fn fuzz_mp4(input: &[u8]) {
    let mut reads = 0;
    let found = duration(0, |at, out| {
        reads += 1;
        let rest = usize::try_from(at).ok().and_then(|at| input.get(at..)).unwrap_or_default();
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        count
    });
    assert!(reads <= 2 * BOXES_MAX + 1, "{reads} reads");
    if let Search::Found(time) = found {
        assert!(!time.is_zero() || input.len() >= 8 + 20);
    }
    if let Search::Needs(at) = found {
        assert!(at >= input.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A box of this kind and content.
    fn boxed(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(8 + content.len()).unwrap();
        [&length.to_be_bytes()[..], kind, content].concat()
    }

    fn mvhd(scale: u32, units: u32) -> Vec<u8> {
        let content = [&[0; 12][..], &scale.to_be_bytes(), &units.to_be_bytes(), &[0; 80]].concat();
        boxed(b"mvhd", &content)
    }

    fn long_mvhd(scale: u32, units: u64) -> Vec<u8> {
        let content =
            [&[1, 0, 0, 0][..], &[0; 16], &scale.to_be_bytes(), &units.to_be_bytes(), &[0; 80]].concat();
        boxed(b"mvhd", &content)
    }

    fn search(file: &[u8], from: usize, end: usize) -> Search {
        duration(from as u64, |at, out| {
            let rest = usize::try_from(at).ok().and_then(|at| file.get(at..end)).unwrap_or_default();
            let count = rest.len().min(out.len());
            out[..count].copy_from_slice(&rest[..count]);
            count
        })
    }

    #[test]
    fn a_film_says_how_long_it_lasts_in_front_of_its_bytes_or_behind_them() {
        let ftyp = boxed(b"ftyp", b"isom");
        let moov = boxed(b"moov", &mvhd(1000, 90_500));
        let mdat = boxed(b"mdat", &[7; 1000]);
        let found = Search::Found(Duration::from_millis(90_500));
        let front = [&ftyp[..], &boxed(b"free", b""), &moov, &mdat].concat();
        assert_eq!(search(&front, 0, front.len()), found);
        let behind = [&ftyp[..], &mdat, &moov].concat();
        assert_eq!(search(&behind, 0, behind.len()), found);
        let at = ftyp.len() + mdat.len();
        assert_eq!(search(&behind, 0, at), Search::Needs(at as u64));
        assert_eq!(search(&behind, at, behind.len()), found);
        let long = [boxed(b"uuid", b"1"), boxed(b"moov", &long_mvhd(90_000, 90_000 * 7200))].concat();
        assert_eq!(search(&long, 0, long.len()), Search::Found(Duration::from_secs(7200)));
        // A box with a length of eight bytes.
        let large = [&[0, 0, 0, 1][..], b"mdat", &20_u64.to_be_bytes(), &[7; 4], &moov].concat();
        assert_eq!(search(&large, 0, large.len()), found);
    }

    #[test]
    fn what_is_no_film_or_does_not_say_it_has_no_duration() {
        let in_moov = |content: &[u8]| boxed(b"moov", content);
        for (what, file) in [
            ("nothing in moov", in_moov(b"")),
            ("a duration of zero", in_moov(&mvhd(1000, 0))),
            ("no time scale", in_moov(&mvhd(0, 1000))),
            ("a duration that is not known", in_moov(&mvhd(1000, u32::MAX))),
            ("a version that does not exist", in_moov(&boxed(b"mvhd", &[2; 100]))),
            ("a header that is cut", in_moov(&mvhd(1000, 1000)[..20])),
            ("a text", b"WEBVTT\n\n00:00.000 --> 00:01.000\n".to_vec()),
            ("a box shorter than its start", [&4_u32.to_be_bytes()[..], b"free", &[0; 100]].concat()),
            ("boxes without end", boxed(b"free", b"").repeat(100)),
        ] {
            assert_eq!(search(&file, 0, file.len()), Search::Unknown, "{what}");
        }
        assert_eq!(search(b"", 0, 0), Search::Needs(0));
        let outside = mvhd(1000, 1000);
        assert_eq!(search(&outside, 0, outside.len()), Search::Needs(108), "a header outside of moov");
        // The last box of a file may have no length.
        let open = [&boxed(b"ftyp", b"isom")[..], &[0, 0, 0, 0], b"mdat", &[7; 100]].concat();
        assert_eq!(search(&open, 0, open.len()), Search::Unknown);
        fuzz_mp4(&open);
    }
}
