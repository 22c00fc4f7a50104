mod audio;
mod cmcd;
mod low_latency;
mod steering;

use std::time::Duration;

use super::{Fetch, FetchKind, FetchSlot, ManifestFault, Player, PlayerAction};
use crate::player::config::{PlayerConfig, QualityChoice};
use crate::player::manifest::ParsedManifest;
use crate::player::totals::PlaybackTotals;
use crate::target::TargetUrl;

/// The totals of one player.
fn totals(player: Player, now: Duration) -> PlaybackTotals {
    let mut totals = PlaybackTotals::default();
    totals.note(&player.leave(now));
    totals
}

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn target() -> TargetUrl {
    "https://a/film/index.m3u8".parse().unwrap()
}

fn config() -> PlayerConfig {
    PlayerConfig { buffer: 10 * S, start: 2 * S, quality: QualityChoice::Auto, ..PlayerConfig::default() }
}

/// A playlist of segments of 4 s.
fn media(first: u64, count: u64, ended: bool) -> String {
    let mut text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MEDIA-SEQUENCE:{first}\n");
    for number in first..first + count {
        text.push_str(&format!("#EXTINF:4,\ns{number}.ts\n"));
    }
    if ended {
        text.push_str("#EXT-X-ENDLIST\n");
    }
    text
}

/// The bytes of a range that exist.
fn part<'f>(file: &'f [u8], range: &str) -> &'f [u8] {
    let (first, last) = range.split_once('-').unwrap();
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(file.len());
    &file[place(first.parse().unwrap())..place(last.parse::<u64>().unwrap().saturating_add(1))]
}

/// Manifests by path and time, and the duration of each fetch; only the test moves the clock.
struct ScriptedWorld<M, T> {
    manifest: M,
    takes: T,
    bytes: u64,
    now: Duration,
    /// The start of the run, since 1970.
    wall: Duration,
    /// The content of all media files with an index.
    file: Vec<u8>,
    log: Vec<String>,
}

impl<M: Fn(&str, Duration) -> String, T: Fn(&str) -> Option<Duration>> ScriptedWorld<M, T> {
    fn new(manifest: M, takes: T) -> Self {
        let (now, wall) = (Duration::ZERO, Duration::ZERO);
        Self { manifest, takes, bytes: 500_000, now, wall, file: Vec::new(), log: Vec::new() }
    }

    /// Plays until the player leaves, at most until this time.
    fn play(&mut self, config: PlayerConfig, until: Duration) -> PlaybackTotals {
        let mut player = Player::new(config, target(), self.now).at(self.wall);
        for _ in 0..10_000 {
            if self.now >= until {
                break;
            }
            for line in &FetchSlot::ALL[1..] {
                let action = player.act(*line, self.now);
                assert!(!matches!(action, PlayerAction::Fetch(_)), "{line:?} has nothing to do: {action:?}");
            }
            match player.act(FetchSlot::Main, self.now) {
                PlayerAction::Leave => break,
                PlayerAction::Idle => panic!("there is no other line"),
                PlayerAction::Wait(then) => {
                    assert!(then > self.now, "a wait must end later than now: {then:?}");
                    self.now = then;
                }
                PlayerAction::Fetch(fetch) => self.fetch(&mut player, &fetch),
            }
        }
        totals(player, self.now)
    }

    fn fetch(&mut self, player: &mut Player, fetch: &Fetch) {
        let path = fetch.target.path.clone();
        self.log.push(format!("{path} {}", fetch.range.as_deref().unwrap_or_default()).trim().to_owned());
        let manifest = (self.manifest)(&path, self.now);
        match (self.takes)(&path) {
            None => {
                self.now += 10 * MS;
                player.fail(FetchSlot::Main, self.now);
            }
            Some(takes) => {
                self.now += takes;
                match fetch.kind {
                    FetchKind::Manifest | FetchKind::DeltaManifest => {
                        let manifest = ParsedManifest::parse(&manifest, &target()).unwrap();
                        player.take_manifest(FetchSlot::Main, self.now, manifest).unwrap();
                    }
                    FetchKind::Index => {
                        if !player.take_index(self.now, part(&self.file, fetch.range.as_deref().unwrap())) {
                            player.fail(FetchSlot::Main, self.now);
                        }
                    }
                    FetchKind::Media => player.take_media(FetchSlot::Main, self.now, self.bytes),
                    FetchKind::Steering => panic!("no slot for it"),
                }
            }
        }
    }
}

#[test]
fn a_film_on_a_fast_server_starts_with_its_first_segment_and_never_stalls() {
    let mut world = ScriptedWorld::new(|_, _| media(0, 5, true), |_| Some(100 * MS));
    let totals = world.play(config(), 600 * S);
    assert_eq!(totals.startup.count(), 1);
    assert_eq!(totals.startup.max().as_millis() / 10, 20, "manifest and first segment");
    assert_eq!((totals.stalls, totals.segments, totals.played), (0, 5, 20 * S));
    assert_eq!(world.now, 20 * S + 200 * MS, "it leaves when the film is over");
}

#[test]
fn the_buffer_is_filled_and_then_kept_full() {
    let mut world = ScriptedWorld::new(|_, _| media(0, 100, true), |_| Some(MS));
    let totals = world.play(config(), 60 * S);
    // 60 s were played; at most the buffer and one segment are left.
    assert!((17..=19).contains(&totals.segments), "{}", totals.segments);
}

#[test]
fn one_slow_segment_makes_one_stall_of_the_length_known_in_advance() {
    let takes = |path: &str| Some(if path.ends_with("s1.ts") { 9 * S } else { 100 * MS });
    let mut world = ScriptedWorld::new(|_, _| media(0, 5, true), takes);
    let totals = world.play(config(), 600 * S);
    // Playback starts at 0.2 s with 4 s. Segment 1 arrives at 9.2 s, 5 s late.
    assert_eq!((totals.stalls, totals.players_stalled), (1, 1));
    assert_eq!(totals.stalled, 5 * S);
    assert_eq!(totals.played, 20 * S);
    assert!((totals.stall_ratio() - 0.2).abs() < 1e-9);
}

#[test]
fn a_server_slower_than_the_film_stalls_with_every_segment() {
    let mut world = ScriptedWorld::new(|_, _| media(0, 6, true), |_| Some(5 * S));
    let totals = world.play(config(), 600 * S);
    // Each segment plays 4 s and takes 5 s.
    assert_eq!((totals.stalls, totals.stalled), (5, 5 * S));
}

#[test]
fn a_live_player_begins_three_segments_behind_the_edge_and_follows_it() {
    // A segment is added every 4 s and six are listed.
    let live = |_: &str, now: Duration| media(100 + now.as_secs() / 4, 6, false);
    let mut world = ScriptedWorld::new(live, |_| Some(50 * MS));
    let totals = world.play(config(), 60 * S);
    assert_eq!(world.log[..2], ["/film/index.m3u8", "/film/s103.ts"]);
    assert_eq!((totals.stalls, totals.skipped), (0, 0));
    assert!(totals.live_distance.max() <= 12 * S + 100 * MS, "{:?}", totals.live_distance.max());
    assert!(totals.live_distance.min() >= 4 * S, "{:?}", totals.live_distance.min());
    let manifests = world.log.iter().filter(|path| path.ends_with("m3u8")).count();
    assert!((14..=30).contains(&manifests), "once or twice for each segment: {manifests}");
}

#[test]
fn a_live_stream_that_stands_still_stalls_its_viewers() {
    let live = |_: &str, now: Duration| media(100 + now.min(20 * S).as_secs() / 4, 6, false);
    let mut world = ScriptedWorld::new(live, |_| Some(MS));
    let totals = world.play(config(), 60 * S);
    assert_eq!(totals.stalls, 1);
    // 12 s at the start and 20 s more were available.
    assert_eq!(totals.played, 32 * S);
    assert!(totals.stalled > 27 * S, "{:?}", totals.stalled);
}

#[test]
fn segments_that_left_the_manifest_are_skipped() {
    let live = |_: &str, now: Duration| media(100 + now.as_secs() / 4, 4, false);
    let takes = |path: &str| Some(if path.ends_with("s102.ts") { 30 * S } else { MS });
    let totals = ScriptedWorld::new(live, takes).play(config(), 60 * S);
    assert!(totals.skipped > 0, "{totals:?}");
    assert_eq!(totals.stalls, 1);
}

#[test]
fn the_quality_follows_the_throughput() {
    let manifest = |path: &str, _| {
        match path {
        "/film/index.m3u8" => {
            "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1000000\nlow/i.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=5000000\nhigh/i.m3u8\n".to_owned()
        }
        _ => media(0, 8, true),
    }
    };
    // 500,000 bytes in 500 ms are 8 Mbit/s.
    let mut fast = ScriptedWorld::new(manifest, |_| Some(500 * MS));
    let totals = fast.play(config(), 600 * S);
    assert_eq!(
        fast.log[..5],
        ["/film/index.m3u8", "/film/low/i.m3u8", "/film/low/s0.ts", "/film/high/i.m3u8", "/film/high/s1.ts"]
    );
    assert_eq!((totals.switches, totals.segments), (1, 8));
    let mut slow = ScriptedWorld::new(manifest, |_| Some(S));
    assert_eq!(slow.play(config(), 600 * S).switches, 0);
    let highest = PlayerConfig { quality: QualityChoice::Highest, ..config() };
    let mut world = ScriptedWorld::new(manifest, |_| Some(S));
    world.play(highest, 600 * S);
    assert!(world.log.iter().all(|path| !path.contains("low")), "{:?}", world.log);
}

#[test]
fn the_initialisation_is_fetched_once() {
    let manifest = |_: &str, _| {
        "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MAP:URI=\"init.mp4\"\n#EXTINF:4,\na.m4s\n#EXTINF:4,\nb.m4s\n#EXT-X-ENDLIST\n".to_owned()
    };
    let mut world = ScriptedWorld::new(manifest, |_| Some(MS));
    world.play(config(), 600 * S);
    assert_eq!(world.log, ["/film/index.m3u8", "/film/init.mp4", "/film/a.m4s", "/film/b.m4s"]);
}

#[test]
fn a_viewer_leaves_when_the_time_is_up_or_nothing_works() {
    let mut world = ScriptedWorld::new(|_, _| media(0, 100, true), |_| Some(MS));
    world.play(PlayerConfig { watch: Some(7 * S), ..config() }, 600 * S);
    assert_eq!(world.now, 7 * S);
    let mut broken = ScriptedWorld::new(|_, _| media(0, 100, true), |_| None);
    let totals = broken.play(config(), 600 * S);
    assert_eq!((totals.started, broken.log.len()), (0, 10));
}

#[test]
fn a_live_stream_whose_segments_all_fail_is_given_up_though_its_manifest_is_good() {
    let manifest = |_: &str, now: Duration| media(now.as_secs() / 4, 5, false);
    let mut world = ScriptedWorld::new(manifest, |path| path.ends_with(".m3u8").then_some(MS));
    let totals = world.play(config(), 600 * S);
    let segments = world.log.iter().filter(|path| path.ends_with(".ts")).count();
    assert_eq!((totals.started, segments), (0, 10));
}

#[test]
fn a_failure_is_tried_again_and_costs_a_second() {
    let tries = std::cell::Cell::new(0);
    let takes = |path: &str| {
        let is_first = path.ends_with("s0.ts") && tries.replace(tries.get() + 1) == 0;
        (!is_first).then_some(MS)
    };
    let mut world = ScriptedWorld::new(|_, _| media(0, 2, true), takes);
    let totals = world.play(config(), 600 * S);
    assert_eq!((totals.segments, totals.stalls), (2, 0));
    assert!(totals.startup.max() > S);
}

/// A live stream of DASH with segments of 2 s, which started 100 s before the run.
const BY_CLOCK: &str = r#"<MPD type="dynamic" availabilityStartTime="1970-01-01T00:16:40Z" timeShiftBufferDepth="PT30S">
  <Period start="PT0S"><AdaptationSet contentType="video">
  <SegmentTemplate duration="2" startNumber="1" media="$RepresentationID$-$Number$" initialization="$RepresentationID$-init"/>
  <Representation id="low" bandwidth="100000"/><Representation id="high" bandwidth="2000000"/></AdaptationSet></Period></MPD>"#;

#[test]
fn a_player_of_dash_fetches_the_description_once_and_changes_quality_within_it() {
    let film = BY_CLOCK.replace("type=\"dynamic\"", "mediaPresentationDuration=\"PT20S\"");
    let mut world = ScriptedWorld::new(|_, _| film.clone(), |_| Some(100 * MS));
    let totals = world.play(config(), 60 * S);
    assert_eq!(world.log.iter().filter(|path| path.contains("index")).count(), 1, "{:?}", world.log);
    assert_eq!((totals.segments, totals.switches, totals.stalls), (10, 1, 0));
    let asked: Vec<_> = world.log[1..6].iter().map(|path| path.rsplit('/').next().unwrap()).collect();
    assert_eq!(asked, ["low-init", "low-1", "high-init", "high-2", "high-3"]);
}

#[test]
fn a_live_player_of_dash_follows_the_clock_without_asking_for_the_description_again() {
    let mut world = ScriptedWorld::new(|_, _| BY_CLOCK.to_owned(), |_| Some(10 * MS));
    world.wall = 1100 * S;
    let totals = world.play(PlayerConfig { quality: QualityChoice::Lowest, ..config() }, 20 * S);
    assert_eq!(world.log.iter().filter(|path| path.contains("index")).count(), 1, "{:?}", world.log);
    // After 100 s there are 50 segments; playback starts three before the end.
    assert!(world.log[2].ends_with("low-48"), "{:?}", world.log);
    assert_eq!((totals.stalls, totals.skipped), (0, 0));
    assert_eq!(totals.segments, 3 + 9, "one every two seconds: {:?}", world.log);
}

#[test]
fn a_live_timeline_that_moves_on_is_followed_by_its_times() {
    let manifest = |_: &str, now: Duration| {
        let first = now.as_secs() / 2;
        format!(
            r#"<MPD type="dynamic" availabilityStartTime="1970-01-01T00:00:00Z" minimumUpdatePeriod="PT1S"><Period start="PT0S">
            <AdaptationSet><SegmentTemplate media="$Time$"><SegmentTimeline><S t="{}" d="2" r="4"/></SegmentTimeline>
            </SegmentTemplate><Representation id="v" bandwidth="1"/></AdaptationSet></Period></MPD>"#,
            first * 2
        )
    };
    let mut world = ScriptedWorld::new(manifest, |_| Some(10 * MS));
    let totals = world.play(config(), 21 * S);
    let segments: Vec<_> = world.log.iter().filter(|path| !path.contains("index")).collect();
    let times: Vec<u64> =
        segments.iter().map(|path| path.rsplit('/').next().unwrap().parse().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[1] == pair[0] + 2), "each once, none left out: {times:?}");
    assert_eq!((times[0], totals.skipped, totals.stalls), (4, 0, 0));
}

/// A film of 16 s in two renditions, with audio, each in one file.
const IN_FILES: &str = r#"<MPD mediaPresentationDuration="PT16S"><Period><AdaptationSet contentType="video">
  <Representation id="low" bandwidth="100000"><BaseURL>low.mp4</BaseURL>
    <SegmentBase indexRange="100-191"><Initialization range="0-99"/></SegmentBase></Representation>
  <Representation id="high" bandwidth="2000000"><BaseURL>high.mp4</BaseURL>
    <SegmentBase indexRange="100-191"><Initialization range="0-99"/></SegmentBase></Representation></AdaptationSet>
  <AdaptationSet contentType="audio"><Representation id="a" bandwidth="1000"><BaseURL>a.mp4</BaseURL>
    <SegmentBase><Initialization range="0-99"/></SegmentBase></Representation></AdaptationSet></Period></MPD>"#;

/// A file with an index at byte 100 of one subsegment of 4 s per size.
fn indexed(sizes: &[u32]) -> Vec<u8> {
    let length = u32::try_from(32 + 12 * sizes.len()).unwrap();
    let mut index = [&length.to_be_bytes(), b"sidx".as_slice(), &[0; 7], &[1]].concat();
    for number in [1000, 0, 0, u32::try_from(sizes.len()).unwrap()] {
        index.extend(u32::to_be_bytes(number));
    }
    for size in sizes {
        index.extend([size.to_be_bytes(), 4000_u32.to_be_bytes(), [0x90, 0, 0, 0]].concat());
    }
    [vec![0; 100], index].concat()
}

#[test]
fn a_film_in_files_with_an_index_is_fetched_by_ranges_of_them() {
    let mut world = ScriptedWorld::new(|_, _| IN_FILES.to_owned(), |_| Some(100 * MS));
    world.file = indexed(&[10, 20, 30, 40]);
    let totals = world.play(config(), 600 * S);
    let asked: Vec<_> = world.log[1..10].iter().map(|path| path.trim_start_matches("/film/")).collect();
    let index_of_sound = ["a.mp4 100-4195", "a.mp4 0-99", "a.mp4 180-189"];
    assert_eq!(asked[..2], ["low.mp4 100-191", index_of_sound[0]]);
    assert_eq!(asked[2..6], ["low.mp4 0-99", index_of_sound[1], index_of_sound[2], "low.mp4 180-189"]);
    // 40 Mbit/s were measured: the other rendition has its own index.
    assert_eq!(asked[6..], ["high.mp4 100-191", "high.mp4 0-99", "a.mp4 190-209"]);
    assert_eq!(world.log.last().unwrap(), "/film/high.mp4 240-279");
    assert_eq!((totals.segments, totals.switches, totals.stalls), (4, 1, 0));
    // Description, two indexes, two init segments, audio and video.
    assert_eq!((totals.startup.max().as_millis() + 5) / 10, 70);
    assert_eq!((totals.played, world.now), (16 * S, 16 * S + 700 * MS));
}

#[test]
fn an_index_that_comes_late_is_a_stall_of_the_length_known_in_advance() {
    let takes = |path: &str| Some(if path.ends_with("high.mp4") { 3 * S } else { 100 * MS });
    let mut world = ScriptedWorld::new(|_, _| IN_FILES.to_owned(), takes);
    world.file = indexed(&[10, 20, 30, 40]);
    let totals = world.play(config(), 600 * S);
    // From 0.7 s on 4 s are buffered. Index, init segment and segment take 3 s each, audio 0.1 s: the second
    // segment arrives at 9.8 s instead of 4.7 s. Then 4 s of media arrive every 3.1 s.
    assert_eq!((totals.stalls, totals.stalled, totals.played), (1, 5100 * MS, 16 * S));
}

#[test]
fn a_film_whose_periods_have_indexes_fetches_each_when_its_turn_comes() {
    let period = |name: &str| {
        format!(
            r#"<Period duration="PT8S"><AdaptationSet><Representation id="v" bandwidth="1"><BaseURL>{name}</BaseURL>
            <SegmentBase indexRange="100-155"/></Representation></AdaptationSet></Period>"#
        )
    };
    let film = format!("<MPD>{}{}</MPD>", period("one"), period("two"));
    let mut world = ScriptedWorld::new(|_, _| film.clone(), |_| Some(MS));
    world.file = indexed(&[10, 20]);
    let totals = world.play(config(), 600 * S);
    let asked: Vec<_> = world.log[1..].iter().map(|path| path.trim_start_matches("/film/")).collect();
    let wanted = ["one 100-155", "one 156-165", "one 166-185", "two 100-155", "two 156-165", "two 166-185"];
    assert_eq!(asked, wanted);
    assert_eq!((totals.segments, totals.stalls, totals.played), (4, 0, 16 * S));
}

#[test]
fn a_film_without_a_usable_index_is_given_up() {
    let mut world = ScriptedWorld::new(|_, _| IN_FILES.to_owned(), |_| Some(MS));
    world.file = indexed(&[10, 0, 30, 40]);
    let totals = world.play(config(), 600 * S);
    assert_eq!((totals.started, world.log.len()), (0, 1 + 10), "{:?}", world.log);
}
