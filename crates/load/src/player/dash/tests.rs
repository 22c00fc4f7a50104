use super::*;

const S: Duration = Duration::from_secs(1);

fn place() -> TargetUrl {
    "https://a/film/manifest.mpd".parse().unwrap()
}

fn uris(segments: &SegmentList) -> Vec<&str> {
    segments.list.iter().map(|one| one.uri.trim_start_matches("https://a/film/")).collect()
}

const NUMBERED: &str = r#"<MPD type="static" mediaPresentationDuration="PT9.5S"><Period>
  <AdaptationSet contentType="audio"><SegmentTemplate timescale="1" duration="4" media="a$Number$.m4s" initialization="a.mp4"/>
    <Representation id="s" bandwidth="64000"/></AdaptationSet>
  <AdaptationSet mimeType="video/mp4">
    <SegmentTemplate timescale="1000" duration="4000" startNumber="0" media="$RepresentationID$/$Number%03d$.m4s"
      initialization="$RepresentationID$/init-$Bandwidth$.mp4"/>
    <Representation id="high" bandwidth="3000000"/><Representation id="low" bandwidth="800000"/>
  </AdaptationSet></Period></MPD>"#;

#[test]
fn numbered_segments_fill_the_film_and_bring_their_audio() {
    let film = parse(NUMBERED, &place()).unwrap();
    let bandwidths: Vec<u64> = film.variants().iter().map(|one| one.bandwidth).collect();
    assert_eq!(bandwidths, [800_000, 3_000_000]);
    let segments = film.segments(0, Duration::ZERO);
    assert_eq!(uris(&segments), ["low/000.m4s", "low/001.m4s", "low/002.m4s"]);
    assert!(segments.ended);
    let before: Vec<_> = segments.list[1].before.iter().map(|one| (one.uri.as_str(), one.once)).collect();
    assert_eq!(
        before,
        [
            ("https://a/film/low/init-800000.mp4", true),
            ("https://a/film/a.mp4", true),
            ("https://a/film/a2.m4s", false)
        ]
    );
}

#[test]
fn each_service_location_has_the_renditions_at_its_base_urls_if_a_server_chooses_among_them() {
    let urls = |folder: &str| {
        format!(
            r#"<BaseURL serviceLocation="one">{folder}/</BaseURL><BaseURL serviceLocation="two">https://b/{folder}/</BaseURL>"#
        )
    };
    let text = |steering: &str| {
        let text = NUMBERED.replace("<Period>", &format!("{}{steering}<Period>", urls("x")));
        text.replace(
            "<AdaptationSet contentType=\"audio\">",
            &format!("<AdaptationSet contentType=\"audio\">{}", urls("s")),
        )
    };
    let film = parse(&text("<ContentSteering>/steer</ContentSteering>"), &place()).unwrap();
    let found: Vec<_> = film.variants().into_iter().map(|one| (one.pathway, one.bandwidth)).collect();
    let of = |name: &str, bandwidth| (Some(name.to_owned()), bandwidth);
    assert_eq!(found, [of("one", 800_000), of("one", 3_000_000), of("two", 800_000), of("two", 3_000_000)]);
    assert_eq!(film.steering(), Some(ContentSteering { server: "/steer".to_owned(), pathway: None }));
    for (level, picture, sound) in [
        (1, "https://a/film/x/high/001.m4s", "https://a/film/x/s/a2.m4s"),
        (2, "https://b/x/low/001.m4s", "https://b/s/a2.m4s"),
    ] {
        let segments = film.segments(level, Duration::ZERO);
        assert_eq!(segments.list[1].uri, picture);
        assert_eq!(segments.list[1].before.last().unwrap().uri, sound);
    }
    let film = parse(&text(""), &place()).unwrap();
    assert_eq!((film.variants().len(), film.steering()), (2, None));
    assert_eq!(uris(&film.segments(0, Duration::ZERO))[1], "x/low/001.m4s", "the first of them");
}

#[test]
fn a_timeline_repeats_and_jumps_and_names_times() {
    let text = r#"<MPD type="static" mediaPresentationDuration="PT10S"><BaseURL>https://cdn.example/x/</BaseURL><Period>
      <AdaptationSet contentType="video"><Representation id="v" bandwidth="1"><BaseURL>y/</BaseURL>
      <SegmentTemplate timescale="10" presentationTimeOffset="100" media="$Time$.m4s"><SegmentTimeline>
        <S t="100" d="20" r="1"/><S d="30"/><S t="175" d="25" r="-1"/>
      </SegmentTimeline></SegmentTemplate></Representation></AdaptationSet></Period></MPD>"#;
    let segments = parse(text, &place()).unwrap().segments(0, Duration::ZERO);
    let found: Vec<_> = segments.list.iter().map(|one| (one.uri.as_str(), one.start.as_millis())).collect();
    assert_eq!(
        found,
        [
            ("https://cdn.example/x/y/100.m4s", 0),
            ("https://cdn.example/x/y/120.m4s", 2000),
            ("https://cdn.example/x/y/140.m4s", 4000),
            ("https://cdn.example/x/y/175.m4s", 7500)
        ]
    );
}

#[test]
fn a_list_has_ranges_and_periods_follow_each_other() {
    let text = r#"<MPD mediaPresentationDuration="PT8S"><Period duration="PT4S"><AdaptationSet><Representation bandwidth="5">
        <SegmentList duration="2"><Initialization sourceURL="f.mp4" range="0-99"/>
        <SegmentURL media="f.mp4" mediaRange="100-199"/><SegmentURL media="f.mp4" mediaRange="200-299"/></SegmentList>
      </Representation></AdaptationSet></Period>
      <Period><AdaptationSet><SegmentTemplate duration="2" media="g$Number$"/><Representation bandwidth="5"/></AdaptationSet></Period></MPD>"#;
    let segments = parse(text, &place()).unwrap().segments(0, Duration::ZERO);
    assert_eq!(uris(&segments), ["f.mp4", "f.mp4", "g1", "g2"]);
    assert_eq!(segments.list[1].range.as_deref(), Some("200-299"));
    assert_eq!(segments.list[0].before[0].range.as_deref(), Some("0-99"));
    let starts: Vec<_> = segments.list.iter().map(|one| one.start).collect();
    assert_eq!(starts, [Duration::ZERO, 2 * S, 4 * S, 6 * S]);
}

#[test]
fn a_live_stream_by_the_clock_has_what_is_finished_and_not_yet_gone() {
    let text = r#"<MPD type="dynamic" availabilityStartTime="1970-01-01T00:01:40Z" timeShiftBufferDepth="PT8S"
      minimumUpdatePeriod="PT30S"><Period start="PT0S"><AdaptationSet contentType="video">
      <SegmentTemplate duration="2" startNumber="1" media="$Number$"/><Representation bandwidth="1"/></AdaptationSet></Period></MPD>"#;
    let live = parse(text, &place()).unwrap();
    assert!(live.is_by_clock());
    let at = |seconds: u32| live.segments(0, seconds * S);
    assert!(at(90).list.is_empty() && at(101).list.is_empty());
    assert_eq!(uris(&at(104)), ["1", "2"]);
    assert_eq!(uris(&at(121)), ["7", "8", "9", "10"]);
    assert!(!at(121).ended);
    assert_eq!(at(121).reload, 30 * S);
}

#[test]
fn descriptions_that_cannot_be_played_are_refused() {
    for text in [
        "<MPD/>",
        "<html/>",
        "<MPD><Period/></MPD>",
        "<MPD><Period><AdaptationSet/></Period></MPD>",
        r#"<MPD type="dynamic"><Period><AdaptationSet><SegmentTemplate duration="2" media="x"/><Representation/></AdaptationSet></Period></MPD>"#,
        r#"<MPD><Period><AdaptationSet><SegmentTemplate duration="2" media="x"/><Representation/></AdaptationSet></Period></MPD>"#,
        r#"<MPD mediaPresentationDuration="PT4S"><Period><AdaptationSet><SegmentTemplate duration="0" media="x"/><Representation/></AdaptationSet></Period></MPD>"#,
    ] {
        assert_eq!(parse(text, &place()), None, "{text}");
    }
    let endless = r#"<MPD mediaPresentationDuration="PT9999999999S"><Period><AdaptationSet>
        <SegmentTemplate timescale="1000000" duration="1" media="x"/><Representation/></AdaptationSet></Period></MPD>"#;
    assert!(parse(endless, &place()).unwrap().segments(0, S).list.len() <= 200_000);
}

#[test]
fn times_and_numbers_beyond_all_limits_are_handled() {
    let with = |period: &str, template: &str| {
        let text = format!(
            r#"<MPD mediaPresentationDuration="PT9S"><Period {period}><AdaptationSet>
            <SegmentTemplate media="$Number$" {template}/><Representation id="a"/>
            </AdaptationSet></Period><Period start="PT1S"><AdaptationSet>
            <SegmentTemplate media="$Number$" duration="4"/><Representation id="b"/></AdaptationSet></Period></MPD>"#
        );
        parse(&text, &place()).map(|film| film.segments(0, S))
    };
    for (period, template) in [
        (r#"start="PT18446744073709551615S" duration="PT1S""#, r#"duration="4""#),
        (r#"start="PT1S" duration="P500000000000Y""#, r#"duration="4""#),
        (r#"duration="P30000Y""#, r#"duration="1" timescale="1000""#),
        (r#"duration="PT1S""#, r#"duration="18446744073709551615""#),
        (r#"duration="PT9S""#, r#"duration="4" startNumber="18446744073709551615""#),
    ] {
        let segments = with(period, template).expect("it can be played");
        assert!(segments.list.len() <= SEGMENTS_MAX, "{period} {template}");
        let whole = segments.list.iter().try_fold(Duration::ZERO, |sum, one| sum.checked_add(one.duration));
        assert!(whole.is_some(), "{period} {template}");
    }
}

#[test]
fn a_description_that_repeats_much_in_many_renditions_is_bounded_in_bytes() {
    let with = |renditions: usize, media: &str, timeline: &str| {
        let each = (0..renditions).map(|number| format!(r#"<Representation id="{number}" bandwidth="1"/>"#));
        let text = format!(
            r#"<MPD mediaPresentationDuration="PT200000S"><Period><AdaptationSet><SegmentTemplate media="{media}">
            <SegmentTimeline>{timeline}</SegmentTimeline></SegmentTemplate>{}</AdaptationSet></Period></MPD>"#,
            each.collect::<String>()
        );
        parse(&text, &place())
    };
    let repeated = r#"<S t="0" d="1" r="199999"/>"#;
    let film = with(5000, "$Time$", repeated).unwrap();
    let taken: usize = film.periods[0].videos().map(Representation::bytes).sum();
    assert!(taken < 200_000, "{taken}");
    let bytes = |segments: &SegmentList| segments.list.iter().map(MediaSegment::bytes).sum::<usize>();
    let listed = film.segments(199, S);
    assert!(!listed.list.is_empty() && bytes(&listed) <= LIST_BYTES_MAX, "{}", bytes(&listed));
    // A long template with the most segments.
    let long = with(1, &format!("{}$Time$", "x".repeat(100_000)), repeated).unwrap().segments(0, S);
    assert!(!long.list.is_empty() && bytes(&long) <= LIST_BYTES_MAX, "{}", bytes(&long));
    // Text that is written once but counts for each rendition.
    assert_eq!(with(5000, &"x".repeat(200_000), repeated), None);
    let many: String = (0..20_000).map(|number| format!(r#"<S t="{}" d="1"/>"#, 2 * number)).collect();
    assert_eq!(with(5000, "$Time$", &many), None);
}

#[test]
fn a_live_timeline_lists_the_segments_at_its_edge() {
    let text = r#"<MPD type="dynamic" availabilityStartTime="1970-01-01T00:00:00Z"><Period start="PT0S"><AdaptationSet>
        <SegmentTemplate media="$Number$-$Time$" startNumber="7"><SegmentTimeline><S t="0" d="2" r="99999"/>
        </SegmentTimeline></SegmentTemplate><Representation bandwidth="1"/></AdaptationSet></Period></MPD>"#;
    let listed = parse(text, &place()).unwrap().segments(0, S * 200_000);
    assert_eq!(listed.list.len(), 1000);
    assert_eq!((uris(&listed)[0], uris(&listed)[999]), ("99007-198000", "100006-199998"));
}
