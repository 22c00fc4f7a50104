use super::*;

/// What a player says with each fetch of media.
fn said(playlist: &str, config: PlayerConfig) -> Vec<Option<String>> {
    let mut player = Player::new(config, target(), Duration::ZERO);
    let (mut now, mut said) = (Duration::ZERO, Vec::new());
    while let PlayerAction::Fetch(fetch) = player.act(FetchSlot::Main, now) {
        now += 100 * MS;
        if fetch.kind == FetchKind::Media {
            said.push(fetch.cmcd);
            player.take_media(FetchSlot::Main, now, 50_000);
        } else {
            assert_eq!(fetch.cmcd, None, "of media alone");
            player
                .take_manifest(FetchSlot::Main, now, ParsedManifest::parse(playlist, &target()).unwrap())
                .unwrap();
        }
    }
    said
}

#[test]
fn a_player_names_the_object_behind_the_one_that_it_fetches() {
    let config = PlayerConfig { buffer: 60 * S, cmcd: true, ..config() };
    let list = media(0, 3, true);
    let expected =
        ["bl=0,nor=\"%2Ffilm%2Fs1.ts\",su", "bl=4000,mtp=4000,nor=\"%2Ffilm%2Fs2.ts\"", "bl=7900,mtp=4000"];
    assert_eq!(said(&list, config), expected.map(|text| Some(text.to_owned())));
    // An init segment comes first, once, and byte ranges are named.
    let ranges = list
        .replace("#EXTINF", "#EXT-X-BYTERANGE:10@5\n#EXTINF")
        .replace("#EXTINF:4,\ns0", "#EXT-X-MAP:URI=\"init.mp4?a=1\"\n#EXTINF:4,\ns0");
    let expected = [
        "bl=0,nor=\"%2Ffilm%2Fs0.ts\",nrr=\"5-14\",su",
        "bl=0,nor=\"%2Ffilm%2Fs1.ts\",nrr=\"5-14\",su",
        "bl=4000,mtp=4000,nor=\"%2Ffilm%2Fs2.ts\",nrr=\"5-14\"",
        "bl=7900,mtp=4000",
    ];
    assert_eq!(said(&ranges, config), expected.map(|text| Some(text.to_owned())));
    // A query is part of the reference, and another server is not named.
    let elsewhere = list.replace("s1.ts", "s1.ts?b=2").replace("s2.ts", "https://b/s2.ts");
    let found = said(&elsewhere, config);
    assert_eq!(found[0].as_deref(), Some("bl=0,nor=\"%2Ffilm%2Fs1.ts%3Fb%3D2\",su"));
    assert_eq!(found[1].as_deref(), Some("bl=4000,mtp=4000"));
    assert!(said(&list, PlayerConfig { cmcd: false, ..config }).iter().all(Option::is_none));
}
