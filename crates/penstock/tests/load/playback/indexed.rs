//! DASH in files with an index (`SegmentBase`): as ffmpeg makes them, and with lies.

use std::io::{Read, Write};

use crate::command::{count, report};
use crate::scripted::Scripted;
use penstock_testkit::{Server, Setup, Tool};

/// Makes six seconds of video and audio with ffmpeg, each in one file with an index.
fn made_by_ffmpeg(server: &Server) {
    let directory = server.path("film");
    std::fs::create_dir_all(&directory).unwrap();
    let ffmpeg = || Tool::new("ffmpeg").args("-hide_banner -loglevel error -y -f lavfi".split(' '));
    let flags = "-f mp4 -movflags +dash+global_sidx+frag_keyframe";
    let picture =
        "-i testsrc2=size=160x90:rate=24:duration=6 -c:v libx264 -preset ultrafast -g 24 -keyint_min 24";
    let made = ffmpeg().args(picture.split(' ')).args(["-sc_threshold", "0"]).args(flags.split(' '));
    assert_eq!(made.arg(directory.join("v.mp4")).run().code, 0);
    let sound = "-i sine=duration=6 -c:a aac -frag_duration 1500000 -f mp4 -movflags +dash+global_sidx";
    assert_eq!(ffmpeg().args(sound.split(' ')).arg(directory.join("a.mp4")).run().code, 0);
}

/// The first and the last byte of the box of this kind.
fn place_of(file: &[u8], kind: &[u8; 4]) -> (usize, usize) {
    let mut at = 0;
    loop {
        let length = u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        if &file[at + 4..at + 8] == kind {
            return (at, at + length - 1);
        }
        at += length;
    }
}

#[test]
fn a_film_of_ffmpeg_in_files_with_an_index_is_fetched_byte_by_byte() {
    let server = Setup::new().start();
    made_by_ffmpeg(&server);
    let [picture, sound] =
        ["v", "a"].map(|name| std::fs::read(server.path(&format!("film/{name}.mp4"))).unwrap());
    let (first, last) = place_of(&picture, b"sidx");
    let count_of =
        |file: &[u8]| u16::from_be_bytes(file[place_of(file, b"sidx").0 + 38..][..2].try_into().unwrap());
    assert_eq!((count_of(&picture), count_of(&sound)), (6, 4), "pieces that ffmpeg makes");
    // The description names the place of the video's index; the audio's is searched.
    server.write(
        "film/manifest.mpd",
        format!(
            r#"<MPD type="static" mediaPresentationDuration="PT6S"><Period><AdaptationSet mimeType="video/mp4">
            <Representation id="v" bandwidth="300000"><BaseURL>v.mp4</BaseURL><SegmentBase indexRange="{first}-{last}">
              <Initialization range="0-{}"/></SegmentBase></Representation></AdaptationSet>
            <AdaptationSet mimeType="audio/mp4"><Representation id="a" bandwidth="70000"><BaseURL>a.mp4</BaseURL>
              <SegmentBase><Initialization range="0-{}"/></SegmentBase></Representation></AdaptationSet></Period></MPD>"#,
            first - 1,
            place_of(&sound, b"sidx").0 - 1,
        ),
    );
    let authority = server.certificates().authority().display().to_string();
    let url = server.url("/film/manifest.mpd");
    let report = report(&["playback", "--ca", &authority, "--viewers", "2", "--requests", "2", &url]);
    assert_eq!(count(&report, "errors_total"), 0, "{report:#}");
    assert_eq!(count(&report, "playback.segments"), 2 * 6, "{report:#}");
    assert_eq!(report["playback"]["played_seconds"].as_f64().map(f64::round), Some(12.0), "{report:#}");
    // The description, two indexes, two init segments, six segments of video and four of audio, for each viewer.
    assert_eq!(count(&report, "requests"), 2 * (1 + 2 + 2 + 6 + 4), "{report:#}");
    assert_eq!(count(&report, "statuses.206"), 2 * (2 + 2 + 6 + 4), "{report:#}");
    // Each byte of the video once. The search for the index of the audio takes 4 KiB; the box after its media is not
    // fetched.
    let behind = place_of(&sound, b"mfra").0 - 1 - place_of(&sound, b"sidx").1;
    let manifest = std::fs::metadata(server.path("film/manifest.mpd")).unwrap().len();
    let looked = place_of(&sound, b"sidx").0 + 4096 + behind;
    let picture_bytes = place_of(&picture, b"mfra").0;
    assert_eq!(count(&report, "bytes"), 2 * (manifest + (picture_bytes + looked) as u64), "{report:#}");
}

/// The head of a request, and the requested bytes.
fn read_head(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    String::from_utf8(head).ok()
}

/// The report of a viewer whose server answers range requests with this function.
fn lied_to(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> serde_json::Value {
    let description = r#"<MPD mediaPresentationDuration="PT6S"><Period><AdaptationSet><Representation id="v" bandwidth="1">
        <BaseURL>v.mp4</BaseURL><SegmentBase indexRange="10-61"/></Representation></AdaptationSet></Period></MPD>"#;
    let server = Scripted::start(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            let answer = match head.lines().find_map(|line| line.strip_prefix("Range: bytes=")) {
                Some(range) => answer(range),
                None => whole("200 OK", description.as_bytes()),
            };
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    });
    let url = format!("http://{}/manifest.mpd", server.address);
    report(&["playback", "--requests", "1", "--watch", "2500ms", "--start", "200ms", &url])
}

fn whole(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// An index of one subsegment of this size and of six seconds.
fn index(size: u32) -> Vec<u8> {
    let numbers = [44, u32::from_be_bytes(*b"sidx"), 0, 1, 1, 0, 0, 1, size, 6, 0x9000_0000];
    numbers.into_iter().flat_map(u32::to_be_bytes).collect()
}

#[test]
fn an_index_that_is_none_is_named_and_nothing_is_believed_of_it() {
    for (what, body) in [
        ("no bytes", Vec::new()),
        ("half an index", index(100)[..30].to_vec()),
        ("an index of no bytes", index(0)),
        ("an index that begins in itself", [index(100), index(100)].concat()[20..72].to_vec()),
        ("only ones", vec![0xff; 52]),
    ] {
        let report = lied_to(move |_| whole("206 Partial Content", &body));
        assert!(count(&report, "errors.index_invalid") > 0, "{what}: {report:#}");
        assert_eq!(count(&report, "playback.players_started"), 0, "{what}");
    }
}

#[test]
fn a_server_that_sends_all_of_the_file_instead_of_its_index_is_named() {
    let report = lied_to(|_| whole("200 OK", &[vec![0; 10], index(100)].concat()));
    assert!(count(&report, "errors.range_ignored") > 0, "{report:#}");
    assert_eq!(count(&report, "playback.players_started"), 0, "{report:#}");
}

#[test]
fn an_index_that_names_bytes_that_are_not_there_is_a_failed_request() {
    let report = lied_to(|range| match range {
        "10-61" => whole("206 Partial Content", &index(0x7fff_ffff)),
        // After the index, up to two gigabytes further.
        "54-2147483700" => whole("416 Range Not Satisfiable", b""),
        other => panic!("{other} was not expected"),
    });
    assert!(count(&report, "errors.status_4xx") > 0, "{report:#}");
    assert_eq!(count(&report, "playback.segments"), 0, "{report:#}");
}
