//! Blocking playlist reloads.

use std::fmt::Write as _;
use std::time::Duration;

use penstock_origin::http::OriginError;

use super::fixture::{Fixture, run};
use super::scripted::{Gate, OriginRequest, Reply};

const HLS: (&str, &str) = ("content-type", "application/vnd.apple.mpegurl");

/// A live playlist whose open segment, number 12, has this many parts.
fn playlist(parts: usize, more: &str) -> String {
    let mut text = "#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-TARGETDURATION:4\n#EXT-X-PART-INF:PART-TARGET=1.0\n\
        #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=3.0,CAN-SKIP-UNTIL=24.0\n\
        #EXT-X-MEDIA-SEQUENCE:10\n#EXTINF:4,\nten.m4s\n#EXTINF:4,\neleven.m4s\n"
        .to_owned();
    for part in 0..parts {
        writeln!(text, "#EXT-X-PART:DURATION=1.0,URI=\"twelve.{part}.m4s\"").unwrap();
    }
    text + more
}

fn reply(text: &str) -> Reply {
    Reply::ok(&[HLS, ("cache-control", "max-age=1")], text.as_bytes())
}

/// A fixture whose cache has the playlist with `parts` parts.
async fn with_playlist(parts: usize, more: &str) -> Fixture {
    let fixture = Fixture::cached();
    fixture.origin.reply(reply(&playlist(parts, more)));
    assert_eq!(fixture.get("GET /live.m3u8", "").await.status, 200);
    fixture
}

#[test]
fn a_part_that_is_in_the_playlist_is_answered_at_once() {
    run(async {
        let fixture = with_playlist(2, "").await;
        for target in ["_HLS_msn=11", "_HLS_msn=12&_HLS_part=0", "_HLS_msn=12&_HLS_part=1"] {
            let answer = fixture.get(&format!("GET /live.m3u8?{target}"), "").await;
            assert_eq!(answer.summary(), (200, "hit", playlist(2, "")), "{target}");
        }
        assert_eq!(fixture.origin.requests(), 1);
    });
}

#[test]
fn many_players_that_wait_for_the_next_part_are_one_request_to_the_origin() {
    run(async {
        let fixture = with_playlist(2, "").await;
        let gate = Gate::new();
        fixture.origin.reply(reply(&playlist(3, "")).head_after(&gate));
        let target = "GET /live.m3u8?_HLS_msn=12&_HLS_part=2";
        let players: Vec<_> = (0..50).map(|_| fixture.spawn(target, "")).collect();
        fixture.origin.wait_for_requests(2).await;
        tokio::task::yield_now().await;
        assert!(players.iter().all(|player| !player.is_finished()), "the origin holds its response");
        gate.open();
        for player in players {
            assert_eq!(player.await.unwrap().summary().2, playlist(3, ""));
        }
        let asked = fixture.origin.asked();
        assert_eq!(asked.len(), 2);
        assert_eq!(asked[1].target, "/live.m3u8?_HLS_msn=12&_HLS_part=2");
        let plain = fixture.get("GET /live.m3u8", "").await;
        assert_eq!(plain.summary(), (200, "hit", playlist(3, "")), "the response replaced the playlist");
    });
}

#[test]
fn a_part_that_is_too_far_is_refused_while_the_playlist_is_fresh() {
    run(async {
        let fixture = with_playlist(2, "").await;
        for target in ["_HLS_msn=20", "_HLS_msn=99999999&_HLS_part=0", "_HLS_part=1", "_HLS_msn=x"] {
            let answer = fixture.get(&format!("GET /live.m3u8?{target}"), "").await;
            assert_eq!(answer.status, 400, "{target}");
        }
        assert_eq!(fixture.origin.requests(), 1);
        tokio::time::advance(Duration::from_secs(10)).await;
        fixture.origin.handle(|_| reply(&playlist(2, "")));
        assert_eq!(fixture.get("GET /live.m3u8?_HLS_msn=20", "").await.status, 400);
        assert_eq!(fixture.origin.asked()[1].target, "/live.m3u8", "the origin has no further one either");
    });
}

#[test]
fn a_delta_update_of_the_next_part_is_held_though_its_own_last_version_is_old() {
    run(async {
        let fixture = with_playlist(1, "").await;
        let delta =
            |parts| playlist(parts, "").replace("#EXTINF:4,\nten.m4s\n", "#EXT-X-SKIP:SKIPPED-SEGMENTS=1\n");
        fixture.origin.reply(reply(&delta(1)));
        assert_eq!(fixture.get("GET /live.m3u8?_HLS_skip=YES", "").await.summary().2, delta(1));
        // The full playlist goes on, the delta update stays.
        for parts in [2, 3, 4] {
            fixture.origin.reply(reply(&playlist(parts, "")));
            let target = format!("GET /live.m3u8?_HLS_msn=12&_HLS_part={}", parts - 1);
            assert_eq!(fixture.get(&target, "").await.summary().2, playlist(parts, ""));
        }
        let gate = Gate::new();
        fixture.origin.reply(reply(&delta(5)).head_after(&gate));
        let player = fixture.spawn("GET /live.m3u8?_HLS_msn=12&_HLS_part=4&_HLS_skip=YES", "");
        fixture.origin.wait_for_requests(6).await;
        gate.open();
        let answer = player.await.unwrap();
        assert_eq!((answer.status, answer.summary().2), (200, delta(5)));
    });
}

#[test]
fn a_playlist_that_has_ended_or_cannot_block_is_answered_as_it_is() {
    run(async {
        let fixture = with_playlist(2, "#EXT-X-ENDLIST\n").await;
        let answer = fixture.get("GET /live.m3u8?_HLS_msn=99", "").await;
        assert_eq!(answer.summary(), (200, "hit", playlist(2, "#EXT-X-ENDLIST\n")));
        assert_eq!(fixture.origin.requests(), 1);
    });
    run(async {
        let fixture = Fixture::cached();
        let plain = playlist(2, "").replace("CAN-BLOCK-RELOAD=YES,", "");
        fixture.origin.reply(reply(&plain));
        let answer = fixture.get("GET /live.m3u8?_HLS_msn=12&_HLS_part=2", "").await;
        assert_eq!((answer.status, answer.summary().2), (200, plain));
    });
}

#[test]
fn an_origin_that_holds_its_response_too_long_is_a_503_to_ask_again() {
    run(async {
        let fixture = with_playlist(2, "").await;
        fixture.origin.reply(reply(&playlist(3, "")).head_after(&Gate::new()));
        let answer = fixture.get("GET /live.m3u8?_HLS_msn=12&_HLS_part=2", "").await;
        assert_eq!((answer.status, answer.field("retry-after").as_str()), (503, "1"));
        fixture.origin.reply(Reply::failure(OriginError::Unreachable));
        let answer = fixture.get("GET /live.m3u8?_HLS_msn=12&_HLS_part=2", "").await;
        assert!(matches!(answer.status, 200 | 502), "{}", answer.status);
    });
}

/// A playlist of one language and for one user.
fn of_client(asked: &OriginRequest, parts: usize) -> String {
    let name = format!("#EXT-X-LANGUAGE:{}{}\n", asked.field("accept-language"), asked.field("cookie"));
    playlist(parts, &name)
}

#[test]
fn a_reload_is_held_for_clients_with_equal_forwarded_fields_and_sends_them() {
    run(async {
        let fixture = Fixture::with(|site| {
            site.cache.vary = vec!["accept-language".to_owned(), "cookie".to_owned()];
        });
        let gate = Gate::new();
        let held = gate.clone();
        let fields = [HLS, ("cache-control", "max-age=1"), ("vary", "Accept-Language, Cookie")];
        fixture.origin.handle(move |asked| match asked.target.contains("_HLS_msn") {
            true => Reply::ok(&fields, of_client(asked, 3).as_bytes()).head_after(&held),
            false => Reply::ok(&fields, of_client(asked, 2).as_bytes()),
        });
        let clients = [
            ("Accept-Language: de\r\n", "de"),
            ("Accept-Language: fr\r\n", "fr"),
            ("Accept-Language: de\r\nCookie: user=1\r\n", "deuser=1"),
            ("", ""),
        ];
        let text = |parts, name: &str| playlist(parts, &format!("#EXT-X-LANGUAGE:{name}\n"));
        // The first reload of each finds no playlist; it is asked for, and is the client's own.
        for (fields, name) in clients {
            let at_once = fixture.get("GET /live.m3u8?_HLS_msn=12&_HLS_part=1", fields).await;
            assert_eq!((at_once.status, at_once.summary().2), (200, text(2, name)), "{fields}");
        }
        let before = fixture.origin.requests();
        let players: Vec<_> = clients
            .iter()
            .cycle()
            .take(4 * clients.len())
            .map(|(fields, name)| (fixture.spawn("GET /live.m3u8?_HLS_msn=12&_HLS_part=2", fields), name))
            .collect();
        fixture.origin.wait_for_requests(before + clients.len()).await;
        tokio::task::yield_now().await;
        gate.open();
        for (player, name) in players {
            assert_eq!(player.await.unwrap().summary().2, text(3, name));
        }
        assert_eq!(fixture.origin.requests(), before + clients.len(), "one for each kind of client");
        for (fields, name) in clients {
            let plain = fixture.get("GET /live.m3u8", fields).await;
            assert_eq!(
                plain.summary(),
                (200, "hit", text(3, name)),
                "it replaced the playlist of the client"
            );
        }
    });
}

/// The reloads of two languages, two clients each: requests to the origin for a playlist with the fields `known` and held
/// responses with the fields `then`.
async fn requests_of_two_languages(languages: [&str; 2], known: &'static str, then: &'static str) -> usize {
    let fixture = Fixture::with(|site| site.cache.vary = vec!["accept-language".to_owned()]);
    let gate = Gate::new();
    let held = gate.clone();
    fixture.origin.handle(move |asked| {
        let is_held = asked.target.contains("_HLS_msn");
        let (parts, vary) = if is_held { (3, then) } else { (2, known) };
        let fields = [HLS, ("cache-control", "max-age=60"), ("vary", vary)];
        let text = if vary.is_empty() { playlist(parts, "") } else { of_client(asked, parts) };
        let reply = Reply::ok(&fields[..if vary.is_empty() { 2 } else { 3 }], text.as_bytes());
        if is_held { reply.head_after(&held) } else { reply }
    });
    let languages = languages.map(|language| match language {
        "" => (language, String::new()),
        _ => (language, format!("Accept-Language: {language}\r\n")),
    });
    for (_, fields) in &languages {
        fixture.get("GET /live.m3u8", fields).await;
    }
    let before = fixture.origin.requests();
    let target = "GET /live.m3u8?_HLS_msn=12&_HLS_part=2";
    let players: Vec<_> = languages
        .iter()
        .cycle()
        .take(4)
        .map(|(language, fields)| (language, fixture.spawn(target, fields)))
        .collect();
    fixture.origin.wait_for_requests(before + 1).await;
    tokio::task::yield_now().await;
    gate.open();
    for (language, player) in players {
        let name = if then.is_empty() { String::new() } else { format!("#EXT-X-LANGUAGE:{language}\n") };
        assert_eq!(player.await.unwrap().summary().2, playlist(3, &name), "{known:?} {then:?}");
    }
    fixture.origin.requests() - before
}

#[test]
fn clients_share_a_held_request_unless_the_playlist_varies_by_their_fields() {
    const VARY: &str = "Accept-Language";
    // The last two begin to vary. A response that is for one client only is asked for again, once for each language; the one
    // without a language is also for the other client without one.
    for (languages, known, then, requests) in [
        (["de", "fr"], "", "", 1),
        (["de", "fr"], VARY, VARY, 2),
        (["de", "fr"], "", VARY, 3),
        (["", "fr"], "", VARY, 2),
    ] {
        run(async move {
            let found = requests_of_two_languages(languages, known, then).await;
            assert_eq!(found, requests, "{languages:?} {known:?} {then:?}");
        });
    }
}

#[test]
fn a_delta_update_is_the_variant_of_its_client() {
    run(async {
        let fixture = Fixture::with(|site| site.cache.vary = vec!["accept-language".to_owned()]);
        let fields = [HLS, ("cache-control", "max-age=60"), ("vary", "Accept-Language")];
        fixture.origin.handle(move |asked| {
            let parts = if asked.target.contains("_HLS_msn") { 3 } else { 2 };
            Reply::ok(&fields, of_client(asked, parts).as_bytes())
        });
        for target in ["_HLS_skip=YES", "_HLS_msn=12&_HLS_part=2&_HLS_skip=YES", "_HLS_skip=YES"] {
            for language in ["de", "fr"] {
                let fields = format!("Accept-Language: {language}\r\n");
                let answer = fixture.get(&format!("GET /live.m3u8?{target}"), &fields).await;
                let text = answer.summary().2;
                assert!(text.ends_with(&format!("LANGUAGE:{language}\n")), "{target} {language}: {text}");
            }
        }
    });
}
