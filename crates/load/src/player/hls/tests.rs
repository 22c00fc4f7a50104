use std::sync::Arc;
use std::time::Duration;

use super::{HlsPlaylist, parse};
use crate::player::segments::InitSegment;

#[test]
fn a_master_playlist_is_a_choice_of_qualities() {
    let text = "#EXTM3U\n#EXT-X-STREAM-INF:CODECS=\"avc1,mp4a\",BANDWIDTH=800000,RESOLUTION=640x360\nlow.m3u8\n\
        #EXT-X-MEDIA:TYPE=AUDIO,URI=\"a.m3u8\"\n#EXT-X-STREAM-INF:BANDWIDTH=3000000\r\nhigh/index.m3u8\n";
    let Some(HlsPlaylist::Multivariant(variants, None)) = parse(text) else { panic!("no master playlist") };
    let found: Vec<_> = variants.iter().map(|one| (one.bandwidth, one.uri.as_str())).collect();
    assert_eq!(found, [(800_000, "low.m3u8"), (3_000_000, "high/index.m3u8")]);
}

#[test]
fn a_quality_is_heard_with_the_default_audio_of_its_group() {
    let media =
        |group: &str, rest: &str| format!("#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"{group}\",NAME=\"x\"{rest}\n");
    let stream = |rest: &str| format!("#EXT-X-STREAM-INF:BANDWIDTH=1{rest}\nv.m3u8\n");
    let text = [
        "#EXTM3U\n".to_owned(),
        media("a", ",URI=\"first.m3u8\""),
        media("a", ",DEFAULT=YES,URI=\"default.m3u8\""),
        "#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"b\",NAME=\"x\",URI=\"words.m3u8\"\n".to_owned(),
        stream(",AUDIO=\"a\""),
        stream(",AUDIO=\"b\""),
        stream(",AUDIO=\"inside\""),
        stream(",AUDIO=\"nowhere\""),
        stream(""),
        media("b", ",DEFAULT=NO,URI=\"only.m3u8\""),
        media("inside", ",DEFAULT=YES"),
    ];
    let Some(HlsPlaylist::Multivariant(variants, None)) = parse(&text.concat()) else {
        panic!("no master playlist")
    };
    let found: Vec<_> = variants.iter().map(|one| one.audio.as_deref()).collect();
    assert_eq!(found, [Some("default.m3u8"), Some("only.m3u8"), None, None, None]);
}

#[test]
fn a_media_playlist_is_a_list_of_segments() {
    let text = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:6\n#EXT-X-MEDIA-SEQUENCE:41\n\
        #EXTINF:5.96,\na.ts\n#EXTINF:6,title\n# a comment\nb.ts\n#EXT-X-ENDLIST\n";
    let Some(HlsPlaylist::Media(segments)) = parse(text) else { panic!("no media playlist") };
    assert_eq!((segments.first, segments.ended), (41, true));
    assert_eq!(segments.reload, Duration::from_secs(6));
    let found: Vec<_> =
        segments.list.iter().map(|one| (one.uri.as_str(), one.duration.as_millis())).collect();
    assert_eq!(found, [("a.ts", 5960), ("b.ts", 6000)]);
}

#[test]
fn byte_ranges_follow_each_other_and_maps_apply_to_what_comes_after() {
    let text = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MAP:URI=\"f.mp4\",BYTERANGE=\"600@0\"\n\
        #EXTINF:4,\n#EXT-X-BYTERANGE:1000@600\nf.mp4\n#EXTINF:4,\n#EXT-X-BYTERANGE:500\nf.mp4\n";
    let Some(HlsPlaylist::Media(segments)) = parse(text) else { panic!("no media playlist") };
    let ranges: Vec<_> = segments.list.iter().map(|one| one.range.as_deref().unwrap()).collect();
    assert_eq!(ranges, ["600-1599", "1600-2099"]);
    let map = InitSegment { uri: "f.mp4".to_owned(), range: Some("0-599".to_owned()), once: true };
    assert_eq!(segments.list[1].before, [Arc::new(map)]);
    assert!(!segments.ended);
}

#[test]
fn a_playlist_of_segments_without_length_is_not_asked_for_without_pause() {
    let text = "#EXTM3U\n#EXT-X-TARGETDURATION:0\n#EXTINF:0,\na.ts\n";
    let Some(HlsPlaylist::Media(segments)) = parse(text) else { panic!("no media playlist") };
    assert_eq!(segments.reload, Duration::from_secs(1));
}

#[test]
fn malformed_playlists_are_refused() {
    for text in [
        "",
        "<MPD/>",
        "#EXTM3U\n#EXTINF:x,\na.ts\n",
        "#EXTM3U\n#EXTINF:4,\na.ts\n",
        "#EXTM3U\n#EXTINF:-1,\na\n",
    ] {
        assert_eq!(parse(text), None, "{text}");
    }
}

/// The end of a live stream: two segments, the second with its parts, and two parts of the third.
const LIVE: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-PART-INF:PART-TARGET=1.1\n\
    #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=3.3,HOLD-BACK=12\n#EXT-X-MEDIA-SEQUENCE:7\n\
    #EXT-X-MAP:URI=\"init.mp4\"\n#EXTINF:2,\ns7.mp4\n#EXT-X-PART:DURATION=1,URI=\"s8.mp4\",BYTERANGE=\"100@0\",INDEPENDENT=YES\n\
    #EXT-X-PART:DURATION=0.9,URI=\"s8.mp4\",BYTERANGE=\"50\"\n#EXTINF:1.9,\ns8.mp4\n\
    #EXT-X-PART:DURATION=1,URI=\"p9.0.mp4\",INDEPENDENT=YES\n#EXT-X-PART:DURATION=1,URI=\"p9.1.mp4\"\n\
    #EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"p9.2.mp4\"\n";

#[test]
fn parts_belong_to_the_segment_that_follows_them() {
    let Some(HlsPlaylist::Media(segments)) = parse(LIVE) else { panic!("no media playlist") };
    assert_eq!((segments.end(), segments.edge()), (9, (9, 2)));
    assert_eq!(segments.hold_back, Some(Duration::from_secs(12)));
    let offer = segments.low_latency.unwrap();
    assert_eq!((offer.hold_back.as_millis(), offer.target.as_millis()), (3300, 1100));
    let found: Vec<_> = offer.parts.iter().map(|part| (part.at, part.is_independent)).collect();
    assert_eq!(found, [((8, 0), true), ((8, 1), false), ((9, 0), true), ((9, 1), false)]);
    let ranges: Vec<_> = offer.parts.iter().map(|part| part.segment.range.as_deref()).collect();
    assert_eq!(ranges, [Some("0-99"), Some("100-149"), None, None]);
    assert_eq!(offer.parts[2].segment.before[0].uri, "init.mp4");
    assert_eq!(offer.hint.map(|hint| hint.uri).as_deref(), Some("p9.2.mp4"));
}

#[test]
fn parts_are_only_for_players_whose_requests_are_held() {
    for text in [LIVE.replace("CAN-BLOCK-RELOAD=YES,", ""), LIVE.replace("PART-TARGET=1.1", "X=1")] {
        let Some(HlsPlaylist::Media(segments)) = parse(&text) else { panic!("no media playlist") };
        assert_eq!((segments.end(), segments.low_latency), (9, None), "{text}");
    }
    for wrong in ["DURATION=x", "DURATION=-1", "DURATION=1e99", "URI=\"\""] {
        let text = format!("{LIVE}#EXT-X-PART:{wrong}\n");
        assert_eq!(parse(&text), None, "{wrong}");
    }
}

#[test]
fn a_hint_with_bytes_is_taken_only_if_it_says_how_many() {
    for (bytes, wanted) in
        [("BYTERANGE-START=10,BYTERANGE-LENGTH=5", Some("10-14")), ("BYTERANGE-START=10", None)]
    {
        let text = LIVE.replace("TYPE=PART,", &format!("TYPE=PART,{bytes},"));
        let Some(HlsPlaylist::Media(segments)) = parse(&text) else { panic!("no media playlist") };
        let hint = segments.low_latency.unwrap().hint;
        assert_eq!(hint.and_then(|hint| hint.range).as_deref(), wanted);
    }
}

#[test]
fn text_that_many_segments_or_renditions_share_is_kept_once() {
    let long = "x".repeat(1_000_000);
    let segments = "#EXTINF:4,\na.ts\n".repeat(50_000);
    let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MAP:URI=\"{long}\"\n{segments}");
    let Some(HlsPlaylist::Media(list)) = parse(&text) else { panic!("no media playlist") };
    assert!(Arc::ptr_eq(&list.list[0].before[0], &list.list[49_999].before[0]));
    let variants = "#EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO=\"a\"\nv.m3u8\n";
    let media = format!("#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",URI=\"{long}\"\n");
    let Some(HlsPlaylist::Multivariant(found, None)) = parse(&(media.clone() + &variants.repeat(1000)))
    else {
        panic!("no multivariant playlist")
    };
    let audio = |place: usize| found[place].audio.as_ref().unwrap();
    assert!(Arc::ptr_eq(audio(0), audio(999)));
    assert_eq!(parse(&(media + &variants.repeat(1001))), None);
}

#[test]
fn a_playlist_with_content_steering_names_pathways_and_who_chooses_among_them() {
    let text = "#EXTM3U\n#EXT-X-CONTENT-STEERING:SERVER-URI=\"/steering.json\",PATHWAY-ID=\"two\"\n\
        #EXT-X-STREAM-INF:BANDWIDTH=1,PATHWAY-ID=\"one\"\na.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=2\nb.m3u8\n";
    let Some(HlsPlaylist::Multivariant(variants, Some(steering))) = parse(text) else {
        panic!("no content steering")
    };
    assert_eq!((steering.server.as_str(), steering.pathway.as_deref()), ("/steering.json", Some("two")));
    let found: Vec<_> = variants.iter().map(|one| one.pathway.as_deref()).collect();
    assert_eq!(found, [Some("one"), None]);
}
