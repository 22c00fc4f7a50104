//! Low-latency HLS, from an origin that makes a part every quarter of a second and holds requests for later ones.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command::{count, report};
use crate::scripted::{Scripted, read_path};

/// How many parts there are when the test begins.
const READY: u32 = 16;
const PARTS_PER_SEGMENT: u64 = 4;
const PART: Duration = Duration::from_millis(250);

struct Origin {
    began: Instant,
    asked: Mutex<Vec<String>>,
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

    fn playlist(&self) -> String {
        let count = self.count();
        let whole = count / PARTS_PER_SEGMENT;
        let mut text = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-PART-INF:PART-TARGET=0.25\n\
            #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=0.75\n#EXT-X-MEDIA-SEQUENCE:0\n\
            #EXT-X-MAP:URI=\"init.mp4\"\n"
            .to_owned();
        for segment in 0..=whole {
            for part in segment * PARTS_PER_SEGMENT..count.min((segment + 1) * PARTS_PER_SEGMENT) {
                text.push_str(&format!("#EXT-X-PART:DURATION=0.25,INDEPENDENT=YES,URI=\"part{part}.mp4\"\n"));
            }
            if segment < whole {
                text.push_str(&format!("#EXTINF:1,\nwhole{segment}.mp4\n"));
            }
        }
        text + &format!("#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"part{count}.mp4\"\n")
    }

    fn answer(&self, path: &str) -> String {
        self.asked.lock().unwrap().push(path.to_owned());
        let number = |text: &str| text.parse::<u64>().unwrap();
        if let Some((_, query)) = path.split_once("?_HLS_msn=") {
            let (segment, part) = query.split_once("&_HLS_part=").unwrap();
            self.hold(number(segment) * PARTS_PER_SEGMENT + number(part));
        }
        if let Some(part) = path.strip_prefix("/part") {
            self.hold(number(part.trim_end_matches(".mp4")));
        }
        if path.contains(".m3u8") { self.playlist() } else { "x".repeat(2000) }
    }
}

/// A viewer of four seconds, and what was asked for.
fn watch(options: &[&str]) -> (Value, Vec<String>) {
    let origin = Arc::new(Origin { began: Instant::now(), asked: Mutex::default() });
    let serving = Arc::clone(&origin);
    let server = Scripted::start(move |mut stream, _| {
        while let Some(path) = read_path(&mut stream) {
            let body = serving.answer(&path);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            if stream.write_all((head + &body).as_bytes()).is_err() {
                return;
            }
        }
    });
    let url = format!("http://{}/live.m3u8", server.address);
    let report = report(&[&["playback", "--requests", "1", "--watch", "4s", &url], options].concat());
    assert_eq!(count(&report, "errors_total"), 0, "{report:#}");
    assert_eq!(count(&report, "playback.players_started"), 1, "{report:#}");
    let asked = origin.asked.lock().unwrap().clone();
    (report, asked)
}

#[test]
fn a_live_stream_in_parts_is_followed_part_by_part() {
    let (report, asked) = watch(&[]);
    let parts: Vec<u64> = asked
        .iter()
        .filter_map(|path| path.strip_prefix("/part")?.strip_suffix(".mp4")?.parse().ok())
        .collect();
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
fn a_viewer_who_does_not_want_parts_fetches_whole_segments() {
    let (report, asked) = watch(&["--no-low-latency"]);
    assert!(!asked.iter().any(|path| path.contains("_HLS_msn") || path.starts_with("/part")), "{asked:?}");
    assert_eq!(count(&report, "playback.parts"), 0, "{report:#}");
    assert!(count(&report, "playback.segments") >= 3, "{report:#}");
}
