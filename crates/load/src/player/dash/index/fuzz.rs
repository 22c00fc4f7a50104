//! What a fuzzer calls: a file in which an index is looked for.

use super::{FETCHES_MAX, INDEX_BYTES_MAX, PIECES_MAX, Progress, Search};

/// The body of the fuzz target `load_index`: one byte of choices and a file. Whatever the file says, the search ends after
/// so many requests, asks for no more than an index can be, and what it finds lies in order.
///
/// # Panics
/// When that does not hold.
pub fn fuzz_index(input: &[u8]) {
    let Some((&choices, file)) = input.split_first() else { return };
    let split = u64::from(choices >> 1);
    let mut search = match choices & 1 {
        0 => Search::new(None, Some(split)),
        _ => Search::new(Some((split, split + 255)), None),
    };
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(file.len());
    for _ in 0..=2 * FETCHES_MAX {
        match search.go_on() {
            Progress::Nothing => return,
            Progress::Fetch(first, last) => {
                assert!(first <= last && last - first < INDEX_BYTES_MAX, "{first}-{last}");
                search.take(&file[place(first)..place(last.saturating_add(1))]);
            }
            Progress::Done(pieces) => {
                assert!(!pieces.is_empty() && pieces.len() <= PIECES_MAX, "{} pieces", pieces.len());
                assert!(pieces.iter().all(|piece| piece.first <= piece.last));
                return;
            }
        }
    }
    panic!("the search goes on after {FETCHES_MAX} requests");
}
