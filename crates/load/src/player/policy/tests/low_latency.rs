//! Live streams in parts, from an origin that holds requests for later parts. A part plays one second, four are a
//! segment, and every response takes 10 ms.

use super::*;

const TAKES: Duration = Duration::from_millis(10);
const BEGIN: Duration = Duration::from_millis(20_300);

struct ScriptedOrigin {
    /// When a part is available, by stream name and number.
    ready: fn(&str, u64) -> Duration,
    hints: bool,
    holds: bool,
    /// Every how many parts one is independent.
    independent: u64,
    /// A part whose first request fails.
    missing: Option<&'static str>,
    choice: Option<&'static str>,
    /// The number of parts after which the stream ends.
    end: u64,
}

fn on_time(_: &str, part: u64) -> Duration {
    Duration::from_secs(part + 1)
}

impl Default for ScriptedOrigin {
    fn default() -> Self {
        Self {
            ready: on_time,
            hints: true,
            holds: true,
            independent: 1,
            missing: None,
            choice: None,
            end: u64::MAX,
        }
    }
}

/// The stream name and the number in a file name.
fn name_and_number(path: &str) -> (&str, u64) {
    let stem = path.rsplit('/').next().unwrap().split('.').next().unwrap();
    let name = stem.trim_end_matches(|one: char| one.is_ascii_digit());
    (name, stem[name.len()..].parse().unwrap_or_default())
}

impl ScriptedOrigin {
    fn count(&self, name: &str, now: Duration) -> u64 {
        (0..).find(|part| *part == self.end || (self.ready)(name, *part) > now).unwrap()
    }

    fn playlist(&self, name: &str, now: Duration) -> String {
        let count = self.count(name, now);
        let whole = count / 4;
        let mut text = format!(
            "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-PART-INF:PART-TARGET=1\n#EXT-X-MEDIA-SEQUENCE:{}\n\
             #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=3\n",
            whole.saturating_sub(6)
        );
        for segment in whole.saturating_sub(6)..=whole {
            for part in (segment * 4..count.min(segment * 4 + 4)).filter(|part| part + 12 > count) {
                let independent = if part % self.independent == 0 { ",INDEPENDENT=YES" } else { "" };
                text.push_str(&format!("#EXT-X-PART:DURATION=1,URI=\"{name}{part}.mp4\"{independent}\n"));
            }
            if segment < whole {
                text.push_str(&format!("#EXTINF:4,\n{name}-whole{segment}.mp4\n"));
            }
        }
        if count == self.end {
            text.push_str("#EXT-X-ENDLIST\n");
        } else if self.hints {
            text.push_str(&format!("#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"{name}{count}.mp4\"\n"));
        }
        text
    }

    /// When a request is answered, and with which manifest.
    fn answer(&self, target: &TargetUrl, now: Duration) -> (Duration, String) {
        let (path, query) = target.path.split_once('?').unwrap_or((&target.path, ""));
        let (name, number) = name_and_number(path);
        if !path.ends_with(".m3u8") {
            let last = if name.ends_with("-whole") { number * 4 + 3 } else { number };
            return (now.max((self.ready)(name.trim_end_matches("-whole"), last)) + TAKES, String::new());
        }
        if let Some(choice) = self.choice.filter(|_| name == "index") {
            return (now + TAKES, choice.to_owned());
        }
        let wanted = query.strip_prefix("_HLS_msn=").and_then(|rest| rest.split_once("&_HLS_part="));
        let wanted =
            wanted.map(|(segment, part)| segment.parse::<u64>().unwrap() * 4 + part.parse::<u64>().unwrap());
        let wanted = wanted.map(|part| part.min(self.end - 1));
        let ready = wanted.filter(|_| self.holds).map_or(now, |part| now.max((self.ready)(name, part)));
        (ready + TAKES, self.playlist(name, ready))
    }

    /// Plays for this time. Returns the totals and the requests.
    fn play(&self, config: PlayerConfig, length: Duration) -> (PlaybackTotals, Vec<String>) {
        let (mut now, mut log) = (BEGIN, Vec::new());
        let mut player = Player::new(config, target(), now);
        let mut under_way: Vec<(Duration, FetchSlot, Fetch, String)> = Vec::new();
        while now < BEGIN + length {
            let mut until = BEGIN + length;
            for slot in FetchSlot::ALL {
                if under_way.iter().any(|one| one.1 == slot) {
                    continue;
                }
                match player.act(slot, now) {
                    PlayerAction::Leave => return (totals(player, now), log),
                    PlayerAction::Idle => {}
                    PlayerAction::Wait(then) => {
                        assert!(then > now, "a wait must end later than now: {then:?}");
                        until = until.min(then);
                    }
                    PlayerAction::Fetch(fetch) => {
                        log.push(fetch.target.path.trim_start_matches("/film/").to_owned());
                        assert!(log.len() < 2000, "without end: {:?}", &log[1900..]);
                        let (done, manifest) = self.answer(&fetch.target, now);
                        under_way.push((done, slot, fetch, manifest));
                    }
                }
            }
            under_way.sort_by_key(|one| one.0);
            now = under_way.first().map_or(until, |one| one.0.min(until));
            while under_way.first().is_some_and(|one| one.0 <= now) {
                let (_, slot, fetch, manifest) = under_way.remove(0);
                let is_missing = |missing: &str| {
                    let tries = log.iter().filter(|path| *path == missing).count();
                    fetch.target.path.ends_with(missing) && tries == 1
                };
                match fetch.kind {
                    _ if self.missing.is_some_and(is_missing) => player.fail(slot, now),
                    FetchKind::Manifest | FetchKind::DeltaManifest => {
                        let manifest = ParsedManifest::parse(&manifest, &fetch.target).unwrap();
                        player.take_manifest(slot, now, manifest).unwrap();
                    }
                    FetchKind::Index | FetchKind::Steering => panic!("there is none"),
                    FetchKind::Media => player.take_media(slot, now, 500_000),
                }
            }
        }
        (totals(player, now), log)
    }
}

/// The numbers of the requested parts of a stream.
fn parts(log: &[String], name: &str) -> Vec<u64> {
    let of_stream = log.iter().filter(|path| path.ends_with(".mp4")).map(|path| name_and_number(path));
    of_stream.filter(|found| found.0 == name).map(|found| found.1).collect()
}

/// Rounded to hundredths of a second.
fn hundredths(time: Duration) -> u128 {
    (time.as_millis() + 5) / 10
}

#[test]
fn parts_are_played_as_they_are_made_at_the_distance_that_the_playlist_asks_for() {
    for hints in [true, false] {
        let (totals, log) = ScriptedOrigin { hints, ..ScriptedOrigin::default() }.play(config(), 60 * S);
        assert_eq!(log[..2], ["index.m3u8", "index17.mp4"], "three seconds behind part 20");
        assert_eq!(log[2], "index.m3u8?_HLS_msn=5&_HLS_part=0");
        assert_eq!(parts(&log, "index")[..63], (17..80).collect::<Vec<_>>(), "each once, in order");
        assert_eq!((totals.parts, totals.segments, totals.stalls, totals.skipped), (63, 0, 0, 0));
        // A playlist and the first two parts.
        assert_eq!(hundredths(totals.startup.max()), 3);
        // The first playlist was 0.3 s old; only the start-up time adds to the distance.
        assert_eq!(
            (hundredths(totals.live_distance.min()), hundredths(totals.live_distance.max())),
            (300, 332)
        );
        let lists = log.iter().filter(|path| path.contains("_HLS_msn")).count();
        assert_eq!(lists, 61, "one for each part, and one that is held");
        // The next part is requested before it is listed only with hints.
        assert_eq!(parts(&log, "index").contains(&80), hints);
    }
}

#[test]
fn parts_that_come_late_are_one_stall_of_the_length_known_in_advance() {
    let ready = |_: &str, part: u64| Duration::from_secs(if part < 30 { part + 1 } else { part + 11 });
    let (totals, log) = ScriptedOrigin { ready, ..ScriptedOrigin::default() }.play(config(), 60 * S);
    // Playback starts at 20.33 s with part 17, and part 29 ends 13 s later. At 42.01 s two parts are buffered again.
    assert_eq!((totals.stalls, totals.stalled), (1, 8680 * MS), "{log:?}");
    assert_eq!(totals.played, 60 * S - 30 * MS - 8680 * MS);
}

#[test]
fn a_picture_begins_with_a_part_that_it_can_begin_with() {
    let (totals, log) = ScriptedOrigin { independent: 4, ..ScriptedOrigin::default() }.play(config(), 20 * S);
    assert_eq!(parts(&log, "index")[..3], [16, 17, 18]);
    assert_eq!((totals.stalls, hundredths(totals.live_distance.min())), (0, 400));
}

#[test]
fn without_low_latency_whole_segments_are_fetched() {
    let config = PlayerConfig { low_latency: false, ..config() };
    let (totals, log) = ScriptedOrigin::default().play(config, 60 * S);
    assert_eq!(log[..2], ["index.m3u8", "index-whole2.mp4"]);
    assert!(!log.iter().any(|path| path.contains("_HLS")) && parts(&log, "index").is_empty(), "{log:?}");
    assert_eq!((totals.stalls, totals.parts), (0, 0));
    assert!(totals.live_distance.min() > 7 * S, "{:?}", totals.live_distance.min());
}

#[test]
fn a_server_that_does_not_hold_requests_is_not_asked_without_end() {
    let (totals, log) =
        ScriptedOrigin { holds: false, hints: false, ..ScriptedOrigin::default() }.play(config(), 60 * S);
    let lists = log.iter().filter(|path| path.contains("m3u8")).count();
    assert!((60..=130).contains(&lists), "{lists}");
    assert_eq!((totals.stalls, totals.skipped), (0, 0));
}

#[test]
fn a_part_that_failed_is_tried_again_after_the_playlist() {
    let (totals, log) =
        ScriptedOrigin { missing: Some("index25.mp4"), ..ScriptedOrigin::default() }.play(config(), 30 * S);
    let mut wanted: Vec<u64> = (17..50).collect();
    wanted.insert(8, 25);
    assert_eq!(parts(&log, "index")[..34], wanted);
    assert_eq!((totals.stalls, totals.skipped, totals.parts), (0, 0, 33));
}

#[test]
fn audio_in_parts_is_fetched_at_the_same_time_and_stops_the_video_if_it_is_late() {
    let choice = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"s\",NAME=\"x\",URI=\"audio.m3u8\"\n\
        #EXT-X-STREAM-INF:BANDWIDTH=1000,AUDIO=\"s\"\nvideo.m3u8\n";
    let ready = |name: &str, part: u64| {
        Duration::from_secs(if name == "audio" && part >= 30 { part + 6 } else { part + 1 })
    };
    let (totals, log) =
        ScriptedOrigin { choice: Some(choice), ready, ..ScriptedOrigin::default() }.play(config(), 30 * S);
    assert_eq!(parts(&log, "video")[..33], (17..50).collect::<Vec<_>>());
    assert_eq!(parts(&log, "audio")[..28], (17..45).collect::<Vec<_>>());
    // Three playlists, then two parts of both tracks at the same time.
    assert_eq!(hundredths(totals.startup.max()), 5);
    // From 20.35 s on 13 s of both are buffered; at 37.01 s two parts more.
    assert_eq!((totals.stalls, totals.stalled), (1, 3660 * MS), "{log:?}");
}

#[test]
fn another_quality_goes_on_with_the_next_part() {
    let choice =
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1000\nlow.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=5000\nhigh.m3u8\n";
    let (totals, log) =
        ScriptedOrigin { choice: Some(choice), ..ScriptedOrigin::default() }.play(config(), 20 * S);
    assert_eq!(parts(&log, "low"), [17]);
    assert_eq!(parts(&log, "high")[..23], (18..=40).collect::<Vec<_>>());
    assert_eq!((totals.switches, totals.stalls, totals.skipped), (1, 0, 0));
    let lists = log.iter().filter(|path| path.starts_with("low.m3u8")).count();
    assert_eq!(lists, 2, "the one that was held is not asked for again: {log:?}");
}

#[test]
fn a_stream_in_parts_that_ends_is_played_to_its_end() {
    for end in [39, 40] {
        let (totals, log) = ScriptedOrigin { end, ..ScriptedOrigin::default() }.play(config(), 60 * S);
        assert_eq!(parts(&log, "index"), (17..end).collect::<Vec<_>>());
        assert_eq!((totals.stalls, totals.played), (0, Duration::from_secs(end - 17)), "{log:?}");
    }
}

#[test]
fn a_playlist_with_false_parts_causes_a_bounded_number_of_requests() {
    let origin = ScriptedOrigin::default();
    for (truth, lie) in [
        ("PART-TARGET=1", "PART-TARGET=0"),
        ("PART-TARGET=1", "PART-TARGET=10000000"),
        ("PART-HOLD-BACK=3", "PART-HOLD-BACK=0"),
        ("PART-HOLD-BACK=3", "PART-HOLD-BACK=10000000"),
        ("PART-HOLD-BACK=3", "PART-HOLD-BACK=x"),
        ("DURATION=1,", "DURATION=0,"),
        ("DURATION=1,", "DURATION=10000000,"),
        ("SEQUENCE:", "SEQUENCE:46116860184273879"),
        ("index17.mp4", "index18.mp4"),
        ("#EXTINF:4,", "#EXTINF:0,"),
        ("#EXTINF:4,", "#X"),
    ] {
        let mut player = Player::new(config(), target(), Duration::ZERO);
        let mut fetches = 0;
        for tenth in 1..300 {
            let now = tenth * 100 * MS;
            for slot in FetchSlot::ALL {
                let PlayerAction::Fetch(fetch) = player.act(slot, now) else { continue };
                fetches += 1;
                if fetch.kind.is_manifest() {
                    let text = origin.playlist("index", BEGIN + now).replace(truth, lie);
                    match ParsedManifest::parse(&text, &fetch.target) {
                        Some(manifest) => drop(player.take_manifest(slot, now, manifest)),
                        None => player.fail(slot, now),
                    }
                } else {
                    player.take_media(slot, now, 1000);
                }
            }
        }
        assert!((5..=700).contains(&fetches), "{lie}: {fetches}");
        player.leave(30 * S);
    }
}

#[test]
fn a_delta_update_is_requested_while_the_playlist_is_fresh_and_never_twice_after_a_refusal() {
    let text = ScriptedOrigin::default().playlist("index", BEGIN);
    let text = text.replace("CAN-BLOCK-RELOAD=YES", "CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=24");
    let manifest = ParsedManifest::parse(&text, &target()).unwrap();
    let arrived = |config: PlayerConfig| {
        let mut player = Player::new(config, target(), Duration::ZERO);
        assert!(matches!(player.act(FetchSlot::Main, Duration::ZERO), PlayerAction::Fetch(_)));
        player.take_manifest(FetchSlot::Main, Duration::ZERO, manifest.clone()).unwrap();
        player
    };
    let asked = |player: &mut Player, now: Duration| match player.act(FetchSlot::VideoList, now) {
        PlayerAction::Fetch(fetch) => (fetch.target.path, fetch.kind),
        other => panic!("{other:?}"),
    };
    let delta = "/film/index.m3u8?_HLS_msn=5&_HLS_part=0&_HLS_skip=YES".to_owned();
    let full = "/film/index.m3u8?_HLS_msn=5&_HLS_part=0".to_owned();
    assert_eq!(asked(&mut arrived(config()), 12 * S), (delta.clone(), FetchKind::DeltaManifest));
    // Half of CAN-SKIP-UNTIL has passed.
    assert_eq!(asked(&mut arrived(config()), 13 * S), (full.clone(), FetchKind::Manifest));
    let mut refused = arrived(config());
    assert_eq!(asked(&mut refused, S).0, delta);
    refused.refuse_delta(FetchSlot::VideoList);
    assert_eq!(asked(&mut refused, S), (full, FetchKind::Manifest));
    refused.take_manifest(FetchSlot::VideoList, S, manifest.clone()).unwrap();
    assert_eq!(asked(&mut refused, 3 * S).0, delta);
    assert!(refused.leave(3 * S).delta_playlists == 0);
}

#[test]
fn a_delta_update_of_other_segments_does_not_fit() {
    let text = ScriptedOrigin::default().playlist("index", BEGIN + 60 * S);
    let full = ParsedManifest::parse(&text, &target()).unwrap();
    let far = text.replace("SEQUENCE:14", "SEQUENCE:999\n#EXT-X-SKIP:SKIPPED-SEGMENTS=3");
    let far = ParsedManifest::parse(&far, &target()).unwrap();
    let mut player = Player::new(config(), target(), Duration::ZERO);
    assert!(matches!(player.act(FetchSlot::Main, Duration::ZERO), PlayerAction::Fetch(_)));
    let nothing_before = player.take_manifest(FetchSlot::Main, Duration::ZERO, far.clone());
    assert_eq!(nothing_before, Err(ManifestFault::DeltaMismatch));
    player.take_manifest(FetchSlot::Main, Duration::ZERO, full).unwrap();
    assert!(matches!(player.act(FetchSlot::VideoList, S), PlayerAction::Fetch(_)));
    assert_eq!(player.take_manifest(FetchSlot::VideoList, S, far), Err(ManifestFault::DeltaMismatch));
}
