//! Range and If-Range, alone and in numbers.

use std::ops::Range;

use penstock_testkit::{Client, Random, Setup, until};

#[test]
fn a_single_range_is_206_with_exactly_its_bytes() {
    let server = Setup::new().start();
    let file = server.file("clip.mp4", 10_000);
    for mut client in [Client::tls(&server).boxed(), Client::plain(&server).boxed()] {
        for (range, selected) in [
            ("bytes=0-0", 0..1),
            ("bytes=0-9999", 0..10_000),
            ("bytes=17-4711", 17..4712),
            ("bytes=9999-", 9999..10_000),
            ("bytes=0-", 0..10_000),
            ("bytes=-1", 9999..10_000),
            ("bytes=-10000", 0..10_000),
            ("bytes=-99999999999999999999999", 0..10_000),
            ("bytes=5000-99999999999999999999999", 5000..10_000),
            ("BYTES=1-2", 1..3),
            ("bytes= 1-2 ", 1..3),
        ] {
            let response = client.get_with("/clip.mp4", &format!("Range: {range}\r\n"));
            assert_eq!(response.status, 206, "{range}");
            let content_range = format!("bytes {}-{}/10000", selected.start, selected.end - 1);
            assert_eq!(response.field("Content-Range"), Some(&*content_range), "{range}");
            assert_eq!(response.field("Content-Type"), Some("video/mp4"), "{range}");
            file.assert_range(selected, &response.body);
        }
    }
}

#[test]
fn a_range_past_the_end_is_416() {
    let server = Setup::new().start();
    server.file("clip.mp4", 10_000);
    server.write("empty.mp4", "");
    let mut client = Client::tls(&server);
    for (path, range, length) in [
        ("/clip.mp4", "bytes=10000-", 10_000),
        ("/clip.mp4", "bytes=10000-10001", 10_000),
        ("/clip.mp4", "bytes=99999999999999999999999-", 10_000),
        ("/clip.mp4", "bytes=-0", 10_000),
        ("/clip.mp4", "bytes=20000-,30000-", 10_000),
        ("/empty.mp4", "bytes=0-", 0),
        ("/empty.mp4", "bytes=0-0", 0),
    ] {
        let response = client.get_with(path, &format!("Range: {range}\r\n"));
        assert_eq!(response.status, 416, "{path} {range}");
        let content_range = format!("bytes */{length}");
        assert_eq!(response.field("Content-Range"), Some(&*content_range), "{path} {range}");
    }
    client.assert_open();
}

#[test]
fn a_malformed_range_is_ignored() {
    let server = Setup::new().start();
    let file = server.file("clip.mp4", 10_000);
    server.write("empty.mp4", "");
    let mut client = Client::tls(&server);
    for range in [
        "bytes=",
        "bytes=-",
        "bytes=5",
        "bytes=9-5",
        "bytes=a-b",
        "bytes=0-1;2-3",
        "bytes 0-1",
        "items=0-1",
        "bytes=0x0-0x1",
        "bytes=+1-2",
        "bytes=--5",
        "bytes=,",
        "=0-1",
        "bytes=0-1,x",
        "bytes=0-1\r\nRange: bytes=0-1",
    ] {
        let response = client.get_with("/clip.mp4", &format!("Range: {range}\r\n"));
        assert_eq!((response.status, response.field("Content-Range")), (200, None), "{range}");
        file.assert_range(0..10_000, &response.body);
    }
    let empty = client.get_with("/empty.mp4", "Range: bytes=-5\r\n");
    assert_eq!((empty.status, empty.body.len()), (200, 0), "no Content-Range can say which bytes these are");
}

#[test]
fn several_ranges_come_as_multipart() {
    let server = Setup::new().start();
    let file = server.file("clip.mp4", 100_000);
    for mut client in [Client::tls(&server).boxed(), Client::plain(&server).boxed()] {
        for (ranges, selected) in [
            ("0-0,99999-99999", vec![0..1, 99_999..100_000]),
            ("500-999, 0-99, -100", vec![500..1000, 0..100, 99_900..100_000]),
            ("0-39999,60000-", vec![0..40_000, 60_000..100_000]),
            // Those that overlap or touch become one.
            ("0-99,50-199,300-399", vec![0..200, 300..400]),
            ("0-99,100-199,300-399", vec![0..200, 300..400]),
            // One of them lies past the end.
            ("0-9,20-29,200000-", vec![0..10, 20..30]),
        ] {
            let response = client.get_with("/clip.mp4", &format!("Range: bytes={ranges}\r\n"));
            assert_eq!(response.status, 206, "{ranges}");
            response.assert_parts(&file, &selected);
        }
    }
}

#[test]
fn ranges_that_become_one_come_as_one() {
    let server = Setup::new().start();
    let file = server.file("clip.mp4", 100_000);
    let mut client = Client::tls(&server);
    for (ranges, selected) in [
        ("0-99,50-199", 0..200),
        ("100-199,0-99", 0..200),
        ("0-9,200000-", 0..10),
        ("-10,-20", 99_980..100_000),
    ] {
        let response = client.get_with("/clip.mp4", &format!("Range: bytes={ranges}\r\n"));
        let content_range = format!("bytes {}-{}/100000", selected.start, selected.end - 1);
        assert_eq!(response.field("Content-Range"), Some(&*content_range), "{ranges}");
        file.assert_range(selected, &response.body);
    }
}

#[test]
fn more_ranges_than_the_limit_are_the_whole_file() {
    let server = Setup::new().start();
    let file = server.file("clip.mp4", 10_000);
    let mut client = Client::tls(&server);
    let ask = |client: &mut Client<_>, count: u64| {
        let ranges: Vec<String> = (0..count).map(|n| format!("{}-{}", n * 10, n * 10 + 1)).collect();
        client.get_with("/clip.mp4", &format!("Range: bytes={}\r\n", ranges.join(",")))
    };
    let most: Vec<Range<u64>> = (0..16).map(|n| n * 10..n * 10 + 2).collect();
    ask(&mut client, 16).assert_parts(&file, &most);
    for count in [17, 1000] {
        let response = ask(&mut client, count);
        assert_eq!(response.status, 200, "{count} ranges");
        file.assert_range(0..10_000, &response.body);
    }
}

#[test]
fn random_sets_of_ranges_carry_every_byte_asked_for() {
    let server = Setup::new().start();
    let file = server.file("clip.mp4", 300_000);
    let mut random = Random::from_environment();
    let mut client = Client::tls(&server);
    for _ in 0..300 {
        let asked: Vec<Range<u64>> = (0..2 + random.below(12))
            .map(|_| {
                let start = random.below(file.len);
                let longest = random.pick(&[1, 100, 2000, 50_000]);
                start..(start + 1 + random.below(longest)).min(file.len)
            })
            .collect();
        let list: Vec<String> =
            asked.iter().map(|range| format!("{}-{}", range.start, range.end - 1)).collect();
        let response = client.get_with("/clip.mp4", &format!("Range: bytes={}\r\n", list.join(",")));
        assert_eq!(response.status, 206, "{list:?}");
        let parts = if response.field("Content-Range").is_some() {
            let only = response.content_range();
            file.assert_range(only.clone(), &response.body);
            vec![only]
        } else {
            let parts = response.parts("video/mp4");
            parts.iter().for_each(|(range, bytes)| file.assert_range(range.clone(), bytes));
            parts.into_iter().map(|(range, _)| range).collect()
        };
        for range in &asked {
            let held = |part: &Range<u64>| part.start <= range.start && range.end <= part.end;
            assert!(parts.iter().any(held), "{range:?} of {list:?} is missing in {parts:?}");
        }
        for part in &parts {
            let wanted = |byte: u64| asked.iter().any(|range| range.contains(&byte));
            assert!(wanted(part.start) && wanted(part.end - 1), "{part:?} was not asked for in {list:?}");
        }
    }
    client.assert_open();
}

#[test]
fn if_range_gives_the_rest_of_the_same_file_or_all_of_another() {
    let server = Setup::new().start();
    let file = server.file("clip.mp4", 10_000);
    let mut client = Client::tls(&server);
    let first = client.get("/clip.mp4");
    let (tag, date) = (first.field("ETag").unwrap(), first.field("Last-Modified").unwrap());
    for (condition, status) in [
        (tag.to_owned(), 206),
        // The file may have changed twice within that second.
        (date.to_owned(), 200),
        ("\"another\"".to_owned(), 200),
        // A weak tag promises nothing about bytes.
        (format!("W/{tag}"), 200),
        ("Mon, 01 Jan 2001 00:00:00 GMT".to_owned(), 200),
        ("Fri, 01 Jan 2100 00:00:00 GMT".to_owned(), 200),
        ("nonsense".to_owned(), 200),
    ] {
        let fields = format!("Range: bytes=100-\r\nIf-Range: {condition}\r\n");
        let response = client.get_with("/clip.mp4", &fields);
        assert_eq!(response.status, status, "{condition}");
        file.assert_range(if status == 206 { 100 } else { 0 }..10_000, &response.body);
    }
    let new = server.file("clip.mp4", 12_000);
    let fields = format!("Range: bytes=100-\r\nIf-Range: {tag}\r\n");
    let whole =
        until("the new file", || Some(client.get_with("/clip.mp4", &fields)).filter(|r| r.status == 200));
    new.assert_range(0..12_000, &whole.body);
}

#[test]
fn a_compressed_manifest_has_no_ranges_but_the_plain_one_has() {
    let server = Setup::new().start();
    let text = "#EXTINF:2.0,\nsegment.m4s\n".repeat(200);
    server.write("list.m3u8", &text);
    let mut client = Client::tls(&server);
    let plain = client.get_range("/list.m3u8", 10, 19);
    assert_eq!((plain.status, plain.text()), (206, &text[10..20]));
    let fields = "Accept-Encoding: gzip\r\nRange: bytes=10-19\r\n";
    let packed = until("the compressed manifest", || {
        Some(client.get_with("/list.m3u8", fields))
            .filter(|response| response.field("Content-Encoding").is_some())
    });
    assert_eq!((packed.status, packed.field("Accept-Ranges")), (200, None));
}
