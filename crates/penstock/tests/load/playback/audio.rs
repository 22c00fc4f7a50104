//! HLS with audio in its own playlists, as ffmpeg makes it.

use crate::command::{count, report};
use penstock_testkit::{Setup, Tool};

#[test]
fn a_film_of_ffmpeg_is_watched_with_its_sound() {
    let server = Setup::new().start();
    let directory = server.path("film");
    std::fs::create_dir_all(&directory).unwrap();
    let arguments = "-hide_banner -loglevel error -y -f lavfi -i testsrc2=size=160x90:rate=24:duration=6 -f lavfi \
        -i sine=duration=6 -map 0:v -map 0:v -map 1:a -c:v libx264 -preset ultrafast -g 24 -keyint_min 24 \
        -sc_threshold 0 -b:v:0 100k -b:v:1 400k -c:a aac -f hls -hls_time 1 -hls_playlist_type vod \
        -hls_segment_type fmp4 -hls_fmp4_init_filename init%v.mp4 -master_pl_name index.m3u8 -var_stream_map";
    let made = Tool::new("ffmpeg")
        .args(arguments.split_whitespace())
        .arg("v:0,agroup:s v:1,agroup:s a:0,agroup:s,default:yes")
        .arg(directory.join("level%v.m3u8"))
        .run();
    assert_eq!(made.code, 0, "{}", made.stderr);
    let text = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    assert!(text("index.m3u8").contains("URI=\"level2.m3u8\""), "{}", text("index.m3u8"));
    let pieces = |name: &str| text(name).matches("#EXTINF").count() as u64;
    let (picture, sound) = (pieces("level0.m3u8"), pieces("level2.m3u8"));
    assert!(picture == 6 && sound >= 6, "{picture} {sound}");
    let authority = server.certificates().authority().display().to_string();
    let url = server.url("/film/index.m3u8");
    let options =
        ["playback", "--ca", &authority, "--quality", "lowest", "--viewers", "2", "--requests", "2", &url];
    let report = report(&options);
    assert_eq!(count(&report, "errors_total"), 0, "{report:#}");
    assert_eq!(count(&report, "playback.segments"), 2 * picture, "{report:#}");
    // Three playlists, two init segments, all segments of both.
    assert_eq!(count(&report, "requests"), 2 * (3 + 2 + picture + sound), "{report:#}");
    let played = report["playback"]["played_seconds"].as_f64().unwrap();
    assert!((11.9..12.2).contains(&played), "{report:#}");
    let size = |name: String| std::fs::metadata(directory.join(name)).unwrap().len();
    let pieces = |level: u64, count: u64| {
        (0..count).map(|number| size(format!("level{level}{number}.m4s"))).sum::<u64>()
    };
    let lists = ["index.m3u8", "level0.m3u8", "level2.m3u8", "init0.mp4", "init2.mp4"];
    let bytes =
        lists.map(|name| size(name.to_owned())).iter().sum::<u64>() + pieces(0, picture) + pieces(2, sound);
    assert_eq!(count(&report, "bytes"), 2 * bytes, "{report:#}");
}
