//! Audio with its own playlist.

use super::*;

/// A playlist of segments of these durations, in milliseconds.
fn list(name: &str, first: u64, durations: &[u64], ended: bool) -> String {
    let mut text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MEDIA-SEQUENCE:{first}\n");
    for (number, duration) in (first..).zip(durations) {
        text.push_str(&format!("#EXTINF:{}.{:03},\n{name}{number}.ts\n", duration / 1000, duration % 1000));
    }
    text + if ended { "#EXT-X-ENDLIST\n" } else { "" }
}

/// A multivariant playlist of one rendition with audio.
fn choice() -> String {
    "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"s\",NAME=\"x\",DEFAULT=YES,URI=\"audio.m3u8\"\n\
        #EXT-X-STREAM-INF:BANDWIDTH=1000,AUDIO=\"s\"\nvideo.m3u8\n"
        .to_owned()
}

/// A film with segments of these durations.
fn film(video: &'static [u64], audio: &'static [u64]) -> impl Fn(&str, Duration) -> String {
    move |path, _| match path {
        "/film/index.m3u8" => choice(),
        "/film/video.m3u8" => list("v", 0, video, true),
        _ => list("a", 0, audio, true),
    }
}

fn asked(log: &[String]) -> Vec<&str> {
    log.iter().map(|path| path.trim_start_matches("/film/")).collect()
}

#[test]
fn audio_is_fetched_beside_the_video_whichever_is_behind() {
    let mut world = ScriptedWorld::new(film(&[2000; 4], &[3000, 3000, 2000]), |_| Some(100 * MS));
    let totals = world.play(config(), 600 * S);
    let wanted = ["index.m3u8", "video.m3u8", "audio.m3u8", "a0.ts", "v0.ts", "v1.ts", "a1.ts", "v2.ts"];
    assert_eq!(asked(&world.log[..8]), wanted);
    assert_eq!(asked(&world.log[8..]), ["a2.ts", "v3.ts"]);
    // Three manifests, one segment of audio and one of video.
    assert_eq!(totals.startup.max().as_millis() / 10, 50);
    assert_eq!((totals.segments, totals.stalls, totals.played), (4, 0, 8 * S));
}

#[test]
fn audio_that_comes_late_stops_the_video_for_as_long_as_known_in_advance() {
    let takes = |path: &str| Some(if path.ends_with("a1.ts") { 9 * S } else { 100 * MS });
    let mut world = ScriptedWorld::new(film(&[4000; 5], &[4000; 5]), takes);
    let totals = world.play(config(), 600 * S);
    // From 0.5 s on 4 s of both are buffered. The second segment of audio arrives at 9.5 s, of video at 9.6 s.
    assert_eq!((totals.stalls, totals.stalled, totals.played), (1, 5100 * MS, 20 * S));
    // The same with a late video.
    let takes = |path: &str| Some(if path.ends_with("v1.ts") { 9 * S } else { 100 * MS });
    let mut world = ScriptedWorld::new(film(&[4000; 5], &[4000; 5]), takes);
    let totals = world.play(config(), 600 * S);
    assert_eq!((totals.stalls, totals.stalled, totals.played), (1, 5100 * MS, 20 * S));
}

#[test]
fn a_track_that_is_over_does_not_hold_up_the_other() {
    for (video, audio) in [(&[4000, 4000], &[4000, 2000]), (&[4000, 2000], &[4000, 4000])] {
        let mut world = ScriptedWorld::new(film(video, audio), |_| Some(MS));
        let totals = world.play(config(), 600 * S);
        assert_eq!((totals.stalls, totals.played, totals.segments), (0, 8 * S, 2));
    }
}

#[test]
fn live_audio_begins_where_the_video_does_and_follows_its_own_playlist() {
    // Video in segments of 4 s; audio in segments of 2 s with other numbers, and 1 s further.
    let live = |path: &str, now: Duration| match path {
        "/film/index.m3u8" => choice(),
        "/film/video.m3u8" => list("v", 100 + now.as_secs() / 4, &[4000; 6], false),
        _ => list("a", 7 + now.as_secs().div_ceil(2), &[2000; 12], false),
    };
    let mut world = ScriptedWorld::new(live, |_| Some(20 * MS));
    let totals = world.play(config(), 60 * S);
    let log = asked(&world.log);
    // 12 s before the end of each.
    assert_eq!(log[..5], ["index.m3u8", "video.m3u8", "audio.m3u8", "a13.ts", "v103.ts"]);
    assert_eq!((totals.stalls, totals.skipped), (0, 0), "{log:?}");
    for (name, least) in [("a", 28), ("v", 14)] {
        let pieces = log.iter().filter(|path| path.starts_with(name) && path.ends_with(".ts")).count();
        assert!((least..least + 8).contains(&pieces), "{name}: {pieces} in {log:?}");
    }
}

#[test]
fn time_that_left_the_audio_playlist_is_not_played_of_the_video_either() {
    // After 20 s no segments are added. Most of the audio leaves its playlist at once.
    let live = |path: &str, now: Duration| {
        let passed = now.min(20 * S).as_secs() / 4;
        match path {
            "/film/index.m3u8" => choice(),
            "/film/video.m3u8" => list("v", 100 + passed, &[4000; 10], false),
            _ if now > S => list("a", 109 + passed, &[4000; 1], false),
            _ => list("a", 100 + passed, &[4000; 10], false),
        }
    };
    let asked_for_it = std::cell::Cell::new(false);
    let takes = move |path: &str| match path {
        "/film/a107.ts" => Some(2 * S),
        // It leaves before it can be fetched.
        "/film/a108.ts" if !asked_for_it.replace(true) => None,
        _ => Some(20 * MS),
    };
    let mut world = ScriptedWorld::new(live, takes);
    let totals = world.play(config(), 60 * S);
    assert_eq!((totals.skipped, totals.stalls), (1, 1), "{:?}", asked(&world.log));
    // 12 s at the start and 20 s more, except for one segment.
    assert_eq!(totals.played, 28 * S);
}

#[test]
fn a_quality_with_other_audio_goes_on_where_the_audio_was() {
    let manifest = |path: &str, _: Duration| match path {
        "/film/index.m3u8" => "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"l\",URI=\"lows.m3u8\"\n\
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"h\",URI=\"highs.m3u8\"\n\
            #EXT-X-STREAM-INF:BANDWIDTH=1000,AUDIO=\"l\"\nlow.m3u8\n\
            #EXT-X-STREAM-INF:BANDWIDTH=5000,AUDIO=\"h\"\nhigh.m3u8\n"
            .to_owned(),
        other => list(other.trim_start_matches("/film/").trim_end_matches(".m3u8"), 0, &[4000; 3], true),
    };
    let mut world = ScriptedWorld::new(manifest, |_| Some(MS));
    let totals = world.play(config(), 60 * S);
    let pieces: Vec<_> = asked(&world.log).into_iter().filter(|path| path.ends_with("ts")).collect();
    // The rendition changes with a segment of video; the audio before it was fetched already.
    assert_eq!(pieces, ["lows0.ts", "low0.ts", "lows1.ts", "high1.ts", "highs2.ts", "high2.ts"]);
    assert_eq!((totals.switches, totals.stalls, totals.played), (1, 0, 12 * S));
}
