//! Texts of origins in content codings.

use std::io::Read as _;
use std::sync::Arc;

use penstock_config::limits;
use penstock_egress::Part;

use super::fixture::{Fixture, run_with_files};
use super::scripted::{FieldList, Gate, Reply};
use crate::peers::Peers;
use crate::response::{Body, Response};

const HLS: (&str, &str) = ("content-type", "application/vnd.apple.mpegurl");
const FRESH: (&str, &str) = ("cache-control", "max-age=60");
const TAG: (&str, &str) = ("etag", "\"a\"");
const ANY: &str = "Accept-Encoding: gzip, deflate, br, zstd\r\n";

/// A playlist of some kilobytes.
fn text(version: usize) -> Vec<u8> {
    let segments: String = (0..200).map(|number| format!("#EXTINF:4,\n{version}/{number}.ts\n")).collect();
    format!("#EXTM3U\n#EXT-X-TARGETDURATION:4\n{segments}#EXT-X-ENDLIST\n").into_bytes()
}

fn unpacked(encoding: &str, body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    match encoding {
        "br" => brotli::BrotliDecompress(&mut &body[..], &mut whole).unwrap(),
        "gzip" => drop(flate2::read::GzDecoder::new(body).read_to_end(&mut whole).unwrap()),
        _ => whole.extend_from_slice(body),
    }
    whole
}

#[test]
fn a_manifest_of_an_origin_goes_out_in_the_coding_that_the_client_likes_best() {
    run_with_files(async {
        let fixture = Fixture::cached();
        fixture.origin.reply(Reply::ok(&[HLS, FRESH, TAG, ("vary", "Origin")], &text(1)));
        for (accepted, encoding, etag) in [
            ("", "", "\"a\""),
            (ANY, "br", "\"a-br\""),
            ("Accept-Encoding: gzip\r\n", "gzip", "\"a-gzip\""),
            ("Accept-Encoding: zstd\r\n", "", "\"a\""),
            ("Accept-Encoding: gzip\r\nCache-Control: no-transform\r\n", "", "\"a\""),
        ] {
            let answer = fixture.get("GET /a.m3u8", accepted).await;
            assert_eq!(
                (answer.status, answer.field("content-encoding").as_str()),
                (200, encoding),
                "{accepted}"
            );
            assert_eq!((answer.field("etag").as_str(), unpacked(encoding, &answer.body)), (etag, text(1)));
            assert_eq!(answer.field("vary"), "Origin, Accept-Encoding");
            let ranges = if encoding.is_empty() { "bytes" } else { "" };
            assert_eq!(answer.field("accept-ranges"), ranges, "{accepted}");
            let head = fixture.get("HEAD /a.m3u8", accepted).await;
            assert_eq!(
                (head.length, head.field("etag")),
                (answer.length, answer.field("etag")),
                "{accepted}"
            );
            // As with files, a part of compressed bytes is of no use.
            let part = fixture.get("GET /a.m3u8", &format!("{accepted}Range: bytes=0-9\r\n")).await;
            assert_eq!(part.status, if encoding.is_empty() { 206 } else { 200 }, "{accepted}");
            let known = format!("{accepted}If-None-Match: {etag}\r\n");
            let not_modified = fixture.get("GET /a.m3u8", &known).await;
            assert_eq!((not_modified.status, not_modified.field("etag").as_str()), (304, etag), "{accepted}");
            assert_eq!(not_modified.field("vary"), "Origin, Accept-Encoding");
        }
        assert_eq!(fixture.get("GET /a.m3u8", &format!("{ANY}If-None-Match: \"a\"\r\n")).await.status, 200);
        assert_eq!(fixture.origin.requests(), 1);
    });
}

#[test]
fn what_is_no_small_text_or_is_not_to_be_changed_is_left_alone() {
    run_with_files(async {
        let large = usize::try_from(limits::COMPRESSED_SOURCE_BYTES).unwrap() + 1;
        let long = vec![b'x'; large];
        let html = ("content-type", "text/html");
        let cases: [(&str, FieldList<'_>, &[u8]); 12] = [
            ("coded", &[HLS, FRESH, ("content-encoding", "gzip")], &long[..5000]),
            ("no-transform", &[html, ("cache-control", "max-age=60, no-transform")], &long[..5000]),
            ("digest", &[html, FRESH, ("content-digest", "sha-256=:AA==:")], &long[..5000]),
            ("private", &[html, ("cache-control", "private")], &long[..5000]),
            ("no-store", &[html, ("cache-control", "no-store")], &long[..5000]),
            ("cookie", &[html, FRESH, ("set-cookie", "a=b")], &long[..5000]),
            ("video", &[("content-type", "video/mp4"), FRESH], &long[..5000]),
            ("nothing", &[FRESH], &long[..5000]),
            ("short", &[html, FRESH], &long[..100]),
            ("long", &[html, FRESH], &long),
            ("noise", &[html, FRESH], b"\x8f\x01\xc7\x5e"),
            ("empty", &[html, FRESH], b""),
        ];
        let fixture = Fixture::cached();
        for (name, fields, body) in cases {
            fixture.origin.reply(Reply::ok(fields, body));
            let first = fixture.get(&format!("GET /{name}"), ANY).await;
            let expected = if name == "coded" { "gzip" } else { "" };
            assert_eq!((first.field("content-encoding").as_str(), &*first.body), (expected, body), "{name}");
        }
        fixture.origin.reply(Reply::new(404).with(&[html, FRESH]).bytes(&long[..5000]));
        assert_eq!(fixture.get("GET /missing", ANY).await.field("content-encoding"), "");
        let off = Fixture::with(|site| site.compress = false);
        off.origin.reply(Reply::ok(&[HLS, FRESH], &text(1)));
        let answer = off.get("GET /a.m3u8", ANY).await;
        assert_eq!((answer.field("content-encoding"), answer.field("vary")), Default::default());
        assert_eq!(answer.body, text(1));
    });
}

#[test]
fn an_object_that_grows_is_sent_as_it_is_and_compressed_once_it_has_ended() {
    run_with_files(async {
        let fixture = Fixture::cached();
        let gate = Gate::new();
        let (body, fields) = (vec![b'x'; 5000], [("content-type", "text/vtt"), FRESH]);
        fixture
            .origin
            .reply(Reply::ok(&fields, &body[..1000]).unannounced().wait(&gate).bytes(&body[1000..]));
        let growing = fixture.open("GET /a.vtt", ANY).await;
        assert!(!growing.head.fields.has("Content-Encoding"));
        gate.open();
        assert_eq!(super::fixture::read(&fixture.context, growing).await.body, body);
        let whole = fixture.get("GET /a.vtt", ANY).await;
        assert_eq!((whole.field("content-encoding").as_str(), unpacked("br", &whole.body)), ("br", body));
    });
}

/// The shared bytes of a response.
fn bytes_of(response: Response) -> Arc<[u8]> {
    match response.body {
        Body::Part(Part::Shared(bytes)) => bytes,
        _ => panic!("the body is made once for all"),
    }
}

#[test]
fn each_version_of_a_live_playlist_is_compressed_once_for_all_its_viewers() {
    run_with_files(async {
        let fixture = Fixture::cached();
        for version in 1..4 {
            fixture.origin.reply(Reply::ok(&[HLS, ("cache-control", "max-age=1")], &text(version)));
            let viewers = (0..100).map(|_| fixture.open("GET /live.m3u8", ANY));
            let answers = futures_util::future::join_all(viewers).await;
            let mut bodies = answers.into_iter().map(bytes_of);
            let first = bodies.next().unwrap();
            assert_eq!(unpacked("br", &first), text(version));
            assert!(
                bodies.all(|other| Arc::ptr_eq(&other, &first)),
                "version {version} was compressed again"
            );
            let again = bytes_of(fixture.open("GET /live.m3u8", ANY).await);
            assert!(Arc::ptr_eq(&again, &first));
            tokio::time::advance(std::time::Duration::from_secs(2)).await;
        }
        assert_eq!(fixture.origin.requests(), 3);
    });
}

#[test]
fn a_304_that_forbids_changes_counts_for_the_stored_response() {
    run_with_files(async {
        let fixture = Fixture::cached();
        fixture.origin.reply(Reply::ok(&[HLS, ("cache-control", "max-age=1"), TAG], &text(1)));
        assert_eq!(fixture.get("GET /a.m3u8", ANY).await.field("content-encoding"), "br");
        tokio::time::advance(std::time::Duration::from_secs(2)).await;
        let changed = [("cache-control", "max-age=60, no-transform"), TAG];
        fixture.origin.reply(Reply::new(304).with(&changed));
        let answer = fixture.get("GET /a.m3u8", ANY).await;
        assert_eq!(
            (answer.field("content-encoding"), answer.field("etag")),
            (String::new(), TAG.1.to_owned())
        );
        assert_eq!(fixture.origin.asked()[1].known, Some(("if-none-match", TAG.1.to_owned())));
    });
}

#[test]
fn another_node_gets_the_bytes_as_they_are() {
    run_with_files(async {
        let peers: Arc<Peers> = super::steps::peers(std::time::Instant::now());
        let fixture = Fixture::in_cluster(&peers);
        fixture.origin.reply(Reply::ok(&[HLS, FRESH, TAG], &text(1)));
        let identity = fixture.http_site().sharing.as_ref().unwrap().identity.clone();
        let fields = format!("{ANY}penstock-site: {identity}\r\npenstock-hop: owner\r\n");
        let answer = fixture.respond_to_peer(&peers, "GET /a.m3u8", &fields).await;
        assert_eq!(
            (answer.field("content-encoding"), answer.field("etag")),
            (String::new(), TAG.1.to_owned())
        );
        assert_eq!(answer.body, text(1));
    });
}
