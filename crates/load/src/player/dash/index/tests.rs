use super::*;

/// A box.
fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 8).unwrap();
    [&length.to_be_bytes(), kind.as_slice(), body].concat()
}

/// An index with a timescale of seconds. An entry is whether it names an index, its size, and its duration.
fn index(version: u8, start: u32, gap: u32, named: &[(bool, u32, u32)]) -> Vec<u8> {
    let mut body = vec![version, 0, 0, 0, 0, 0, 0, 1];
    body.extend(1_u32.to_be_bytes());
    for number in [start, gap] {
        if version == 1 {
            body.extend([0; 4]);
        }
        body.extend(number.to_be_bytes());
    }
    body.extend([0, 0]);
    body.extend(u16::try_from(named.len()).unwrap().to_be_bytes());
    for (is_index, size, duration) in named {
        body.extend((size | u32::from(*is_index) << 31).to_be_bytes());
        body.extend(duration.to_be_bytes());
        body.extend(0x9000_0000_u32.to_be_bytes());
    }
    boxed(b"sidx", &body)
}

/// Searches a file. Returns the result and the fetched ranges.
fn search(file: &[u8], mut search: IndexSearch) -> (Option<Vec<Subsegment>>, Vec<(u64, u64)>) {
    let mut fetched = Vec::new();
    loop {
        match search.go_on() {
            SearchStep::Fetch(first, last) => {
                assert!(first <= last && last - first < INDEX_BYTES_MAX, "{first}-{last}");
                fetched.push((first, last));
                let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(file.len());
                search.take(&file[place(first)..place(last.saturating_add(1))]);
            }
            SearchStep::Done(pieces) => return (Some(pieces), fetched),
            SearchStep::NotFound => return (None, fetched),
        }
    }
}

fn shown(pieces: &[Subsegment]) -> Vec<(u64, u64, u64, u64)> {
    pieces.iter().map(|one| (one.first, one.last, one.start.as_secs(), one.duration.as_secs())).collect()
}

#[test]
fn both_versions_of_an_index_name_bytes_and_times() {
    for version in [0, 1] {
        let file = index(version, 10, 5, &[(false, 100, 2), (false, 50, 3)]);
        let end = file.len() as u64;
        let (pieces, fetched) = search(&file, IndexSearch::new(Some((0, end - 1)), None));
        assert_eq!(shown(&pieces.unwrap()), [(end + 5, end + 104, 10, 2), (end + 105, end + 154, 12, 3)]);
        assert_eq!(fetched, [(0, end - 1)], "the range as it was given");
    }
}

#[test]
fn an_index_without_a_range_is_found_behind_the_initialisation_or_in_it() {
    let head = [boxed(b"ftyp", &[0; 16]), boxed(b"moov", &[0; 9000])].concat();
    let index = index(1, 0, 0, &[(false, 8, 2)]);
    let file = [head.clone(), boxed(b"free", &[]), index, boxed(b"moof", &[])].concat();
    let behind = file.len() as u64 - 8;
    // With the end of the init segment, before or after the index, and without.
    for init_end in [None, Some(head.len() as u64), Some(behind)] {
        let (pieces, fetched) = search(&file, IndexSearch::new(None, init_end));
        assert_eq!(shown(&pieces.unwrap()), [(behind, behind + 7, 0, 2)], "{init_end:?}");
        assert_eq!(fetched[0].0, init_end.unwrap_or(0));
        assert!(fetched.len() <= 4, "{fetched:?}");
    }
}

#[test]
fn an_index_that_names_indexes_is_followed_in_the_order_of_the_film() {
    // Two further indexes, each before its media, with media between them.
    let (second, third) = (index(0, 0, 0, &[(false, 5, 2), (false, 6, 2)]), index(1, 6, 0, &[(false, 7, 4)]));
    let part = |index: &[u8], media: usize| (true, u32::try_from(index.len() + media).unwrap(), 4);
    let first = index(0, 0, 0, &[part(&second, 11), (false, 9, 2), part(&third, 7)]);
    let a = (first.len() + second.len()) as u64;
    let b = a + 11 + 9 + third.len() as u64;
    let file = [first.clone(), second, vec![0; 11 + 9], third, vec![0; 7]].concat();
    let (pieces, fetched) = search(&file, IndexSearch::new(Some((0, first.len() as u64 - 1)), None));
    let wanted = [(a, a + 4, 0, 2), (a + 5, a + 10, 2, 2), (a + 11, a + 19, 4, 2), (b, b + 6, 6, 4)];
    assert_eq!(shown(&pieces.unwrap()), wanted);
    assert_eq!(fetched.len(), 3, "{fetched:?}");
}

#[test]
fn indexes_without_an_end_are_given_up() {
    // Each names the next, more levels than allowed.
    let mut file = Vec::new();
    for _ in 0..6 {
        file.extend(index(0, 0, 0, &[(true, 1_000_000, 1)]));
    }
    assert_eq!(search(&file, IndexSearch::new(None, None)).0, None);
    // Every entry names an index: the requests are bounded.
    let wide = index(0, 0, 0, &vec![(true, 100_000, 1); 60_000]);
    let own = index(0, 0, 0, &[(false, 1, 1)]);
    let mut search_of_many = IndexSearch::new(Some((0, wide.len() as u64 - 1)), None);
    let mut fetches = 0;
    while let SearchStep::Fetch(first, _) = search_of_many.go_on() {
        search_of_many.take(if first == 0 { &wide } else { &own });
        fetches += 1;
    }
    assert_eq!(fetches, FETCHES_MAX);
    // Boxes without a length.
    assert_eq!(search(&boxed(b"free", &[]).repeat(10_000), IndexSearch::new(None, None)).0, None);
}

#[test]
fn an_index_that_lies_is_none() {
    let good = index(1, 0, 0, &[(false, 100, 2), (false, 100, 2)]);
    let whole = Some((0, good.len() as u64 - 1));
    let wrong = |place: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[place..place + bytes.len()].copy_from_slice(bytes);
        file
    };
    for (what, file) in [
        ("nothing at all", Vec::new()),
        ("half of it", good[..40].to_vec()),
        ("a box longer than the range", wrong(0, &[0, 1, 0, 0])),
        ("a box to the end of the file", wrong(0, &[0, 0, 0, 0])),
        ("a box shorter than its head", wrong(0, &[0, 0, 0, 7])),
        ("a length of 64 bits beyond the file", wrong(0, &[0, 0, 0, 1])),
        ("an unknown version", wrong(8, &[2])),
        ("a clock that stands still", wrong(16, &[0; 4])),
        ("an offset beyond all files", wrong(28, &[0xff; 8])),
        ("a time beyond all films", wrong(20, &[0xff; 8])),
        ("more entries than it has bytes", wrong(38, &[0xff; 2])),
        ("entries of no bytes", wrong(40, &[0; 4])),
        ("no entries", wrong(38, &[0; 2])),
        ("media instead of it", wrong(4, b"moof")),
    ] {
        assert_eq!(search(&file, IndexSearch::new(whole, None)).0, None, "{what}");
    }
    assert!(search(&good, IndexSearch::new(whole, None)).0.is_some());
    for range in [(0, u64::MAX), (u64::MAX, u64::MAX), (u64::MAX, 0), (5, 4)] {
        drop(search(&good, IndexSearch::new(Some(range), Some(u64::MAX))));
    }
}

#[test]
fn no_byte_of_an_index_can_stop_the_program() {
    let good = index(1, 3, 4, &[(false, 100, 2), (true, 100, 2)]);
    for place in 0..good.len() {
        for byte in [0, 1, 2, 3, 8, 0x20, 0x40, 0x7f, 0x80, 0x81, 0xfe, 0xff] {
            let mut file = good.clone();
            file[place] = byte;
            drop(search(&file, IndexSearch::new(None, None)));
            drop(search(&file, IndexSearch::new(Some((0, good.len() as u64 - 1)), None)));
        }
    }
    assert_eq!(seconds(u64::MAX, 1), Duration::from_secs(1 << 40));
}
