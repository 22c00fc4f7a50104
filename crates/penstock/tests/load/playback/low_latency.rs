//! Low-latency HLS, from an origin that makes a part every quarter of a second and holds requests for later parts.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command::{count, report};
use crate::scripted::{Scripted, read_path};

/// The number of parts when the test starts.
const READY: u32 = 16;
const PARTS_PER_SEGMENT: u64 = 4;
const PART: Duration = Duration::from_millis(250);

/// The reaction of the origin to `_HLS_skip=YES`.
#[derive(Clone, Copy, PartialEq)]
enum Skip {
    NotOffered,
    Served,
    Refused,
}

struct Origin {
    began: Instant,
    asked: Mutex<Vec<String>>,
    skip: Skip,
}

impl Origin {
    fn count(&self) -> u64 {
        u64::from(READY) + u64::try_from(self.began.elapsed().as_millis() / PART.as_millis()).unwrap()
    }

    /// Waits until part `number` is there.
    fn hold(&self, number: u64) {
        while self.count() <= number {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The playlist, or a delta update that leaves out all segments but the last two.
    fn playlist(&self, is_delta: bool) -> String {
        let count = self.count();
        let whole = count / PARTS_PER_SEGMENT;
        let offer = if self.skip == Skip::NotOffered { "" } else { ",CAN-SKIP-UNTIL=6" };
        let mut text = format!(
            "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-PART-INF:PART-TARGET=0.25\n\
             #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=0.75{offer}\n#EXT-X-MEDIA-SEQUENCE:0\n"
        );
        let skipped = if is_delta { whole - 2 } else { 0 };
        if is_delta {
            text.push_str(&format!("#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}\n"));
        } else {
            text.push_str("#EXT-X-MAP:URI=\"init.mp4\"\n");
        }
        for segment in skipped..=whole {
            for part in segment * PARTS_PER_SEGMENT..count.min((segment + 1) * PARTS_PER_SEGMENT) {
                text.push_str(&format!("#EXT-X-PART:DURATION=0.25,INDEPENDENT=YES,URI=\"part{part}.mp4\"\n"));
            }
            if segment < whole {
                text.push_str(&format!("#EXTINF:1,\nwhole{segment}.mp4\n"));
            }
        }
        text + &format!("#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"part{count}.mp4\"\n")
    }

    /// Status line and body.
    fn answer(&self, path: &str) -> (&'static str, String) {
        self.asked.lock().unwrap().push(path.to_owned());
        let is_delta = path.ends_with("&_HLS_skip=YES");
        if is_delta && self.skip == Skip::Refused {
            return ("400 Bad Request", String::new());
        }
        let path = path.trim_end_matches("&_HLS_skip=YES");
        let number = |text: &str| text.parse::<u64>().unwrap();
        if let Some((_, query)) = path.split_once("?_HLS_msn=") {
            let (segment, part) = query.split_once("&_HLS_part=").unwrap();
            self.hold(number(segment) * PARTS_PER_SEGMENT + number(part));
        }
        if let Some(part) = path.strip_prefix("/part") {
            self.hold(number(part.trim_end_matches(".mp4")));
        }
        ("200 OK", if path.contains(".m3u8") { self.playlist(is_delta) } else { "x".repeat(2000) })
    }
}

/// A viewer of four seconds. Returns the report and the requests.
fn watch(skip: Skip, options: &[&str]) -> (Value, Vec<String>) {
    let origin = Arc::new(Origin { began: Instant::now(), asked: Mutex::default(), skip });
    let serving = Arc::clone(&origin);
    let server = Scripted::start(move |mut stream, _| {
        while let Some(path) = read_path(&mut stream) {
            let (status, body) = serving.answer(&path);
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
            if stream.write_all((head + &body).as_bytes()).is_err() {
                return;
            }
        }
    });
    let url = format!("http://{}/live.m3u8", server.address);
    let report = report(&[&["playback", "--requests", "1", "--watch", "4s", &url], options].concat());
    assert_eq!(count(&report, "playback.players_started"), 1, "{report:#}");
    let asked = origin.asked.lock().unwrap().clone();
    (report, asked)
}

/// The numbers of the requested parts.
fn parts(asked: &[String]) -> Vec<u64> {
    asked.iter().filter_map(|path| path.strip_prefix("/part")?.strip_suffix(".mp4")?.parse().ok()).collect()
}

#[test]
fn a_live_stream_in_parts_is_followed_part_by_part() {
    let (report, asked) = watch(Skip::NotOffered, &[]);
    assert_eq!(count(&report, "errors_total"), 0, "{report:#}");
    let parts = parts(&asked);
    assert!(!asked.iter().any(|path| path.contains("_HLS_skip")), "{asked:?}");
    assert!(parts.len() >= 4, "{asked:?}");
    assert!(parts.windows(2).all(|pair| pair[1] == pair[0] + 1), "each once, none left out: {parts:?}");
    assert!(parts[0] >= u64::from(READY) - 3, "three parts behind the edge: {parts:?}");
    assert!(!asked.iter().any(|path| path.starts_with("/whole")), "{asked:?}");
    assert_eq!(asked.iter().filter(|path| *path == "/init.mp4").count(), 1, "{asked:?}");
    assert!(asked.iter().filter(|path| path.contains("_HLS_msn")).count() >= 4, "{asked:?}");
    let came = count(&report, "playback.parts");
    assert!(came >= 4 && came <= parts.len() as u64, "{report:#}");
    assert_eq!(count(&report, "playback.segments"), 0, "{report:#}");
    assert!(report["playback"]["live_distance_ms"]["min"].as_f64().unwrap() >= 740.0, "{report:#}");
    // The playlist is held on one connection while parts come on the other.
    assert_eq!(count(&report, "connections_opened"), 2, "{report:#}");
}

#[test]
fn without_low_latency_whole_segments_and_full_playlists_are_fetched() {
    let (report, asked) = watch(Skip::Served, &["--no-low-latency"]);
    assert_eq!(count(&report, "errors_total"), 0, "{report:#}");
    assert!(!asked.iter().any(|path| path.contains("_HLS_") || path.starts_with("/part")), "{asked:?}");
    assert_eq!(count(&report, "playback.parts"), 0, "{report:#}");
    assert!(count(&report, "playback.segments") >= 3, "{report:#}");
}

#[test]
fn delta_updates_are_requested_where_they_are_offered_and_merged() {
    let directory = tempfile::tempdir().unwrap();
    let plot = directory.path().join("run.svg");
    let (report, asked) = watch(Skip::Served, &["--plot", plot.to_str().unwrap()]);
    assert_eq!(count(&report, "errors_total"), 0, "{report:#}");
    let deltas = asked.iter().filter(|path| path.ends_with("&_HLS_skip=YES")).count() as u64;
    let merged = count(&report, "playback.delta_playlists");
    // The viewer may leave while the last one is held.
    assert!(deltas >= 4 && merged + 1 >= deltas && merged <= deltas, "{deltas}: {report:#}");
    assert_eq!(asked.iter().filter(|path| *path == "/live.m3u8").count(), 1, "{asked:?}");
    let parts = parts(&asked);
    assert!(parts.len() >= 4 && parts.windows(2).all(|pair| pair[1] == pair[0] + 1), "{parts:?}");
    // The init segment that the skipped segments name is not fetched again.
    assert_eq!(asked.iter().filter(|path| *path == "/init.mp4").count(), 1, "{asked:?}");
    let svg = std::fs::read_to_string(plot).unwrap();
    assert!(
        svg.contains(">Stalls in each second<") && svg.contains(">Distance from the live edge<"),
        "{svg}"
    );
}

#[test]
fn a_delta_update_that_is_refused_is_reported_and_the_full_playlist_played() {
    let (report, asked) = watch(Skip::Refused, &[]);
    let refused = asked.iter().filter(|path| path.ends_with("&_HLS_skip=YES")).count() as u64;
    assert!(refused >= 4, "{asked:?}");
    assert_eq!(count(&report, "errors.delta_refused"), refused, "{report:#}");
    assert_eq!(
        (count(&report, "errors_total"), count(&report, "statuses.400")),
        (refused, refused),
        "{report:#}"
    );
    let said = report["error_details"]["delta_refused"].as_str().unwrap();
    assert!(said.contains("400 for /live.m3u8?_HLS_msn=") && said.ends_with("&_HLS_skip=YES"), "{said}");
    assert_eq!(count(&report, "playback.delta_playlists"), 0, "{report:#}");
    let parts = parts(&asked);
    assert!(parts.len() >= 4 && parts.windows(2).all(|pair| pair[1] == pair[0] + 1), "{parts:?}");
}
