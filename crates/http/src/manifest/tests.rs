use super::*;

fn media(text: &str) -> Playlist {
    Manifest::parse(text.as_bytes()).unwrap().media().unwrap().clone()
}

const LIVE: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MEDIA-SEQUENCE:7\n\
    #EXTINF:4,\na7.ts\n#EXTINF:4,\na8.ts\n";

const LOW_LATENCY: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-PART-INF:PART-TARGET=1.0\n\
    #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=3.0,CAN-SKIP-UNTIL=24\n\
    #EXT-X-MEDIA-SEQUENCE:100\n#EXTINF:4,\ns100.mp4\n\
    #EXT-X-PART:DURATION=1,URI=\"s101.0.mp4\",INDEPENDENT=YES\n#EXT-X-PART:DURATION=1,URI=\"s101.1.mp4\"\n\
    #EXTINF:2,\ns101.mp4\n#EXT-X-PART:DURATION=1,URI=\"s102.0.mp4\"\n\
    #EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"s102.1.mp4\"\n";

#[test]
fn a_live_playlist_holds_for_half_its_target_duration() {
    let manifest = Manifest::parse(LIVE.as_bytes()).unwrap();
    assert!(manifest.is_live());
    assert_eq!(manifest.fresh(), Some(Duration::from_secs(2)));
    let playlist = manifest.media().unwrap();
    assert_eq!((playlist.open_segment, playlist.open_parts), (9, 0));
    assert_eq!(playlist.segments, ["a7.ts", "a8.ts"]);
}

#[test]
fn an_ended_or_multivariant_playlist_says_nothing_about_freshness() {
    let ended = format!("{LIVE}#EXT-X-ENDLIST\n");
    let choice = "#EXTM3U\r\n#EXT-X-STREAM-INF:BANDWIDTH=1\r\nlow.m3u8\r\n";
    for text in [ended.as_str(), choice] {
        let manifest = Manifest::parse(text.as_bytes()).unwrap();
        assert_eq!((manifest.is_live(), manifest.fresh()), (false, None), "{text}");
    }
}

#[test]
fn odd_target_durations_are_bounded() {
    for (target, fresh) in
        [("0", 250), ("junk", 250), ("-4", 250), ("0.6", 300), ("1e300", 250), ("99999", 300_000)]
    {
        let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:{target}\n#EXTINF:1,\na.ts\n");
        let manifest = Manifest::parse(text.as_bytes()).unwrap();
        assert_eq!(manifest.fresh(), Some(Duration::from_millis(fresh)), "{target}");
    }
}

#[test]
fn a_live_dash_description_holds_for_half_its_minimum_update_period() {
    let cases = [
        ("type=\"dynamic\" minimumUpdatePeriod=\"PT2S\"", true, Some(1000)),
        ("minimumUpdatePeriod='PT1M1.5S' type='dynamic'", true, Some(30_750)),
        ("type=\"dynamic\" minimumUpdatePeriod=\"PT0S\"", true, Some(250)),
        ("type=\"dynamic\" minimumUpdatePeriod=\"P1DT1H\"", true, Some(300_000)),
        ("type=\"dynamic\" minimumUpdatePeriod=\"soon\"", true, Some(250)),
        ("type=\"dynamic\" minimumUpdatePeriod=\"0\"", true, Some(250)),
        ("type=\"dynamic\" minimumUpdatePeriod=\"-PT2S\"", true, Some(250)),
        ("type=\"dynamic\" minimumUpdatePeriod=\"\"", true, Some(250)),
        ("type=\"dynamic\"", true, None),
        ("type=\"static\" minimumUpdatePeriod=\"PT2S\"", false, None),
        ("", false, None),
    ];
    for (attributes, live, fresh) in cases {
        let text = format!("<?xml version=\"1.0\"?>\n<!-- by hand -->\n<MPD {attributes}>\n<Period/></MPD>");
        let manifest = Manifest::parse(text.as_bytes()).unwrap();
        let expected = fresh.map(Duration::from_millis);
        assert_eq!((manifest.is_live(), manifest.fresh()), (live, expected), "{attributes}");
    }
}

#[test]
fn bodies_that_are_no_manifest_are_not_read_as_one() {
    let bodies: [&[u8]; 10] = [
        b"",
        b"\xef\xbb\xbf\xef\xbb\xbf<MPD/>",
        b"#EXTM3U8\n",
        b"<html><MPD type=\"dynamic\"/></html>",
        b"<!DOCTYPE MPD><MPD/>",
        b"{}",
        b"\x00\x00",
        b"text <MPD/>",
        b"<MPD",
        b"</MPD>",
    ];
    for body in bodies {
        assert_eq!(Manifest::parse(body), None, "{}", String::from_utf8_lossy(body));
    }
    let comment = format!("<!--{}--><MPD type=\"dynamic\"/>", "x".repeat(10_000));
    assert_eq!(Manifest::parse(comment.as_bytes()), None, "a prologue without end");
}

#[test]
fn type_and_path_say_what_may_be_a_manifest() {
    let cases = [
        ("application/vnd.apple.mpegurl", "/a", Likeness::Named),
        ("Application/X-MpegURL; charset=utf-8", "/a", Likeness::Named),
        ("application/dash+xml", "/a", Likeness::Named),
        ("text/html", "/live/Index.M3U8?token=x", Likeness::Named),
        ("", "/a.mpd", Likeness::Named),
        ("text/plain", "/live", Likeness::Possible),
        ("", "/live", Likeness::Possible),
        ("video/mp4", "/live", Likeness::None),
        ("video/mp4", "/a.m3u8/seg.mp4", Likeness::None),
        ("text/html", "/m3u8", Likeness::None),
    ];
    for (content_type, path, expected) in cases {
        assert_eq!(Manifest::likeness(content_type, path), expected, "{content_type} {path}");
    }
    assert!(Manifest::may_begin_with(b"\xef\xbb\xbf#EXTM3U\n"));
    for early in [&b""[..], b"#EX", b"\xef", b"\xef\xbb", b"\xef\xbb\xbf", b"\xef\xbb\xbf#E"] {
        assert!(Manifest::may_begin_with(early), "too early to tell: {early:?}");
    }
    assert!(Manifest::may_begin_with(b"  <?xml"));
    assert!(!Manifest::may_begin_with(b"\x00\x00\x00\x18ftyp"));
}

#[test]
fn a_body_of_white_space_is_no_manifest_after_the_longest_prologue() {
    let blank = |length: usize| " \n\t\r".repeat(length.div_ceil(4))[..length].to_owned();
    let bom = "\u{feff}";
    for start in [blank(4096), format!("{bom}{}", blank(4096))] {
        assert!(Manifest::may_begin_with(start.as_bytes()));
        let whole = format!("{start}<MPD/>");
        assert!(Manifest::may_begin_with(whole.as_bytes()) && Manifest::parse(whole.as_bytes()).is_some());
        let long = format!("{start} <MPD/>");
        assert_eq!(Manifest::parse(long.as_bytes()), None);
        assert!(!Manifest::may_begin_with(long.as_bytes()));
        assert!(!Manifest::may_begin_with(&long.as_bytes()[..=start.len()]));
        for body in [&whole, &long] {
            let start = &body.as_bytes()[..body.len().min(Manifest::START_BYTES)];
            let decided = Manifest::may_begin_with(start);
            assert_eq!(decided, Manifest::may_begin_with(body.as_bytes()), "further bytes change nothing");
        }
    }
}

#[test]
fn a_playlist_with_parts_tells_how_far_it_reaches() {
    let playlist = media(LOW_LATENCY);
    assert!(playlist.can_block);
    assert_eq!(playlist.part_target, Some(Duration::from_secs(1)));
    assert_eq!((playlist.open_segment, playlist.open_parts), (102, 1));
    assert_eq!(playlist.longest_hold(), Duration::from_secs(12));
    let reach = |segment, part| playlist.reach(Position { segment, part });
    assert_eq!(reach(0, None), Reach::Within);
    assert_eq!(reach(101, None), Reach::Within);
    assert_eq!(reach(101, Some(1)), Reach::Within);
    assert_eq!(reach(101, Some(2)), Reach::Within, "is part 0 of segment 102");
    assert_eq!(reach(102, Some(0)), Reach::Within);
    assert_eq!(reach(102, Some(1)), Reach::Next);
    assert_eq!(reach(102, None), Reach::Next);
    assert_eq!(reach(102, Some(4)), Reach::Next);
    assert_eq!(reach(102, Some(5)), Reach::TooFar);
    assert_eq!(reach(103, None), Reach::Next);
    assert_eq!(reach(103, Some(9)), Reach::TooFar);
    assert_eq!(reach(104, None), Reach::TooFar);
    assert_eq!(reach(u64::MAX, Some(u64::MAX)), Reach::TooFar);
}

#[test]
fn a_part_behind_the_last_of_a_whole_segment_is_the_first_of_the_next() {
    let cut = LOW_LATENCY.find("#EXT-X-PART:DURATION=1,URI=\"s102.0").unwrap();
    let playlist = media(&LOW_LATENCY[..cut]);
    assert_eq!((playlist.open_segment, playlist.open_parts), (102, 0));
    assert_eq!(playlist.reach(Position { segment: 101, part: Some(2) }), Reach::Next);
    assert_eq!(playlist.reach(Position { segment: 101, part: Some(1) }), Reach::Within);
}

#[test]
fn a_delta_reaches_as_far_as_the_whole() {
    let delta = LOW_LATENCY.replace("#EXTINF:4,\ns100.mp4\n", "#EXT-X-SKIP:SKIPPED-SEGMENTS=1\n");
    assert_eq!(media(&delta).open_segment, 102);
}

#[test]
fn endless_sequence_numbers_do_not_overflow() {
    let text = LIVE.replace("SEQUENCE:7", "SEQUENCE:18446744073709551614");
    assert_eq!(media(&text).reach(Position { segment: u64::MAX, part: Some(0) }), Reach::Next);
}

#[test]
fn directives_are_taken_out_of_a_query() {
    let (delivery, rest) = Delivery::take("token=a&_HLS_msn=12&x&_HLS_part=3&_HLS_skip=YES").unwrap();
    assert_eq!(rest, "token=a&x");
    assert_eq!(delivery.wanted, Some(Position { segment: 12, part: Some(3) }));
    assert_eq!(delivery.skip, Some(Skip::Segments));
    assert_eq!(delivery.query(&rest), "token=a&x&_HLS_msn=12&_HLS_part=3&_HLS_skip=YES");
    let (delivery, rest) = Delivery::take("_HLS_skip=v2").unwrap();
    assert_eq!((delivery.query(&rest).as_str(), rest.as_str()), ("_HLS_skip=v2", ""));
    let (delivery, rest) = Delivery::take("a=b").unwrap();
    assert_eq!((delivery, rest.as_str()), (Delivery::default(), "a=b"));
}

#[test]
fn directives_that_no_player_means_are_bad() {
    for query in [
        "_HLS_part=1",
        "_HLS_msn=",
        "_HLS_msn=-1",
        "_HLS_msn=1.5",
        "_HLS_msn=01",
        "_HLS_msn=99999999999999999999",
        "_HLS_msn=1&_HLS_msn=1",
        "_HLS_msn=1&_HLS_part=x",
        "_HLS_skip=NO",
        "_HLS_skip",
        "_HLS_skip=YES&_HLS_skip=YES",
    ] {
        assert_eq!(Delivery::take(query), Err(BadDirective), "{query}");
    }
}

#[test]
fn references_become_targets_on_the_same_server() {
    let cases = [
        ("/live/a/index.m3u8?token=x", "seg1.ts", Some("/live/a/seg1.ts")),
        ("/live/a/index.m3u8", "../b/seg1.ts?x=1", Some("/live/b/seg1.ts?x=1")),
        ("/live/a/index.m3u8", "/seg1.ts#t=1", Some("/seg1.ts")),
        ("/live/a/index.m3u8", "./././seg1.ts", Some("/live/a/seg1.ts")),
        ("/index.m3u8", "../../../etc/x", Some("/etc/x")),
        ("/index.m3u8?a=b", "?n=2", Some("/index.m3u8?n=2")),
        ("/index.m3u8", "seg/a:b.ts", Some("/seg/a:b.ts")),
        ("/index.m3u8", "http://other/seg.ts", None),
        ("/index.m3u8", "//other/seg.ts", None),
        ("/index.m3u8", "data:,x", None),
        ("/index.m3u8", "a b.ts", None),
        ("/index.m3u8", "a\r\nX: y", None),
        ("/index.m3u8", "", None),
    ];
    for (base, reference, expected) in cases {
        assert_eq!(resolve(base, reference).as_deref(), expected, "{base} {reference}");
    }
}

proptest::proptest! {
    #[test]
    fn no_body_panics(body: Vec<u8>, tags in "(#EXT-X-(PART|SKIP|MEDIA-SEQUENCE|PART-INF):[A-Z=\",0-9.]{0,30}\n){0,9}") {
        let _ = Manifest::parse(&body);
        let text = format!("#EXTM3U\n{tags}a\n");
        if let Some(playlist) = Manifest::parse(text.as_bytes()).as_ref().and_then(Manifest::media) {
            playlist.reach(Position { segment: u64::MAX, part: Some(u64::MAX) });
            playlist.longest_hold();
        }
        let _ = Manifest::parse(format!("<MPD {tags}/>").as_bytes());
    }
}
