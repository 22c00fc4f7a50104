//! The fuzz target of the index search.

use super::{FETCHES_MAX, INDEX_BYTES_MAX, IndexSearch, SUBSEGMENTS_MAX, SearchStep};

/// The body of the fuzz target `load_index`: one byte of choices and a file. For every file the search ends after a bounded
/// number of requests, each request is bounded, and subsegments are ordered.
///
/// # Panics
/// If one of these does not hold.
pub fn fuzz_index(input: &[u8]) {
    let Some((&choices, file)) = input.split_first() else { return };
    let split = u64::from(choices >> 1);
    let mut search = match choices & 1 {
        0 => IndexSearch::new(None, Some(split)),
        _ => IndexSearch::new(Some((split, split + 255)), None),
    };
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(file.len());
    for _ in 0..=2 * FETCHES_MAX {
        match search.go_on() {
            SearchStep::NotFound => return,
            SearchStep::Fetch(first, last) => {
                assert!(first <= last && last - first < INDEX_BYTES_MAX, "{first}-{last}");
                search.take(&file[place(first)..place(last.saturating_add(1))]);
            }
            SearchStep::Done(pieces) => {
                assert!(!pieces.is_empty() && pieces.len() <= SUBSEGMENTS_MAX, "{} pieces", pieces.len());
                assert!(pieces.iter().all(|piece| piece.first <= piece.last));
                return;
            }
        }
    }
    panic!("the search goes on after {FETCHES_MAX} requests");
}
