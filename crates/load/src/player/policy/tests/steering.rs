use super::*;

const MASTER: &str = "#EXTM3U\n#EXT-X-CONTENT-STEERING:SERVER-URI=\"https://s/steer?x=1\",PATHWAY-ID=\"one\"\n\
    #EXT-X-STREAM-INF:BANDWIDTH=900000,PATHWAY-ID=\"two\"\nhttps://b/high.m3u8\n\
    #EXT-X-STREAM-INF:BANDWIDTH=100000,PATHWAY-ID=\"two\"\nhttps://b/low.m3u8\n\
    #EXT-X-STREAM-INF:BANDWIDTH=900000,PATHWAY-ID=\"one\"\nhttps://a/high.m3u8\n\
    #EXT-X-STREAM-INF:BANDWIDTH=100000,PATHWAY-ID=\"one\"\nhttps://a/low.m3u8\n";

/// A player that has the playlist, and plays the highest bitrate.
fn arrived() -> Player {
    let config = PlayerConfig { quality: QualityChoice::Highest, ..config() };
    let mut player = Player::new(config, target(), Duration::ZERO);
    assert_eq!(player.act(FetchSlot::Steering, Duration::ZERO), PlayerAction::Idle, "nothing is known yet");
    assert!(matches!(player.act(FetchSlot::Main, Duration::ZERO), PlayerAction::Fetch(_)));
    player.take_manifest(FetchSlot::Main, S, ParsedManifest::parse(MASTER, &target()).unwrap()).unwrap();
    player
}

/// Host and path of the next fetch of a slot.
fn asked(player: &mut Player, slot: FetchSlot, now: Duration) -> String {
    match player.act(slot, now) {
        PlayerAction::Fetch(fetch) => format!("{}{}", fetch.target.host, fetch.target.path),
        other => panic!("{other:?}"),
    }
}

/// Fetches the playlist of the rendition, then segments up to the first that lies elsewhere; returns where each was.
fn media_hosts(player: &mut Player, now: Duration, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    while found.len() < count {
        let PlayerAction::Fetch(fetch) = player.act(FetchSlot::Main, now) else { panic!("a fetch") };
        if fetch.kind == FetchKind::Media {
            found.push(format!("{}{}", fetch.target.host, fetch.target.path));
            player.take_media(FetchSlot::Main, now, 1000);
        } else {
            let playlist = ParsedManifest::parse(&media(0, 9, true), &fetch.target).unwrap();
            player.take_manifest(FetchSlot::Main, now, playlist).unwrap();
        }
    }
    found
}

#[test]
fn a_player_takes_the_first_pathway_that_its_playlist_has_and_asks_again_after_the_time_to_live() {
    let mut player = arrived();
    assert_eq!(media_hosts(&mut player, S, 1), ["a/s0.ts"]);
    assert_eq!(
        asked(&mut player, FetchSlot::Steering, S).split("&_HLS_throughput=").next(),
        Some("s/steer?x=1&_HLS_pathway=%22one%22")
    );
    let manifest = br#"{"VERSION":1,"TTL":10,"RELOAD-URI":"/again","PATHWAY-PRIORITY":["zero","two","one"]}"#;
    assert!(player.take_steering(S, manifest));
    assert_eq!(media_hosts(&mut player, 2 * S, 1), ["b/s1.ts"], "the next segment, in the same quality");
    assert_eq!(player.act(FetchSlot::Steering, 10 * S), PlayerAction::Wait(11 * S));
    assert!(asked(&mut player, FetchSlot::Steering, 11 * S).starts_with("s/again?_HLS_pathway=%22two%22"));
    let totals = totals(player, 11 * S);
    assert_eq!((totals.pathway_changes, totals.switches), (1, 0));
}

#[test]
fn a_player_of_dash_takes_another_service_location_in_the_same_quality() {
    let description = r#"<MPD type="static" mediaPresentationDuration="PT40S">
      <BaseURL serviceLocation="one">https://a/x/</BaseURL><BaseURL serviceLocation="two & more">https://b/x/</BaseURL>
      <ContentSteering defaultServiceLocation="one" queryBeforeStart="true">https://s/steer?x=1</ContentSteering>
      <Period><AdaptationSet mimeType="video/mp4">
        <SegmentTemplate timescale="1" duration="4" media="$RepresentationID$-$Number$.m4s"/>
        <Representation id="low" bandwidth="100000"/><Representation id="high" bandwidth="900000"/>
      </AdaptationSet></Period></MPD>"#;
    let description = description.replace("two & more", "two &amp; more");
    let config = PlayerConfig { quality: QualityChoice::Highest, ..config() };
    let mut player = Player::new(config, target(), Duration::ZERO);
    assert!(matches!(player.act(FetchSlot::Main, Duration::ZERO), PlayerAction::Fetch(_)));
    let parsed = ParsedManifest::parse(&description, &target()).unwrap();
    player.take_manifest(FetchSlot::Main, S, parsed).unwrap();
    assert_eq!(media_hosts(&mut player, S, 1), ["a/x/high-1.m4s"]);
    let first = asked(&mut player, FetchSlot::Steering, S);
    assert_eq!(first.split("&_DASH_throughput=").next(), Some("s/steer?x=1&_DASH_pathway=%22one%22"));
    assert!(first.contains("&_DASH_throughput="), "{first}");
    for (name, pathways, expected) in [
        ("PATHWAY-PRIORITY", r#"["zero", "two & more"]"#, "b/x/high-2.m4s"),
        ("SERVICE-LOCATION-PRIORITY", r#"["one"]"#, "a/x/high-3.m4s"),
    ] {
        let manifest = format!(r#"{{"VERSION":1,"TTL":10,"RELOAD-URI":"/again","{name}":{pathways}}}"#);
        assert!(player.take_steering(S, manifest.as_bytes()));
        assert_eq!(media_hosts(&mut player, 2 * S, 1), [expected]);
    }
    player.take_steering(S, br#"{"VERSION":1,"TTL":10,"PATHWAY-PRIORITY":["two & more"]}"#);
    assert!(
        asked(&mut player, FetchSlot::Steering, 11 * S)
            .starts_with("s/again?_DASH_pathway=%22two%20%26%20more%22")
    );
    let totals = totals(player, 11 * S);
    assert_eq!((totals.pathway_changes, totals.switches), (2, 0));
}

#[test]
fn a_player_without_a_usable_manifest_stays_where_it_is() {
    let mut player = arrived();
    for unusable in
        ["", "{}", "[]", r#"{"VERSION":2,"PATHWAY-PRIORITY":["two"]}"#, r#"{"VERSION":1,"TTL":10}"#]
    {
        assert!(!player.take_steering(S, unusable.as_bytes()), "{unusable}");
    }
    assert_eq!(media_hosts(&mut player, S, 2), ["a/s0.ts", "a/s1.ts"]);
    assert_eq!(player.act(FetchSlot::Steering, S), PlayerAction::Wait(11 * S), "it asks again");
    assert!(!player.take_steering(S, br#"{"VERSION":1,"TTL":0,"PATHWAY-PRIORITY":["other"]}"#));
    assert_eq!(player.act(FetchSlot::Steering, S), PlayerAction::Wait(2 * S), "a second at least");
}
