//! Sites, their clients and players.

use std::time::{Duration, Instant};

use super::scrape::Scrape;
use super::{Expected, FACTS, busy_metrics};
use crate::{
    Asked, CacheOutcome, Carried, ClientKind, ClientMarks, HttpLabel, Metrics, NameHash, PlayerSaid, RateId,
    Shard, ShortReason, SiteId, SiteResponse, limits,
};

const SITE_RESPONSE: SiteResponse = SiteResponse {
    status: 200,
    body_bytes: 1_000,
    first_byte: Some(Duration::from_millis(3)),
    cache: Some(CacheOutcome::Stale),
    short: Some(ShortReason::TooSlow),
    carried: Some((
        HttpLabel::H2,
        Carried {
            delivery_rate: Some(1_000_000),
            round_trip: Duration::from_millis(20),
            sent: (100_000, 5_000),
        },
    )),
};

const ASKED: Asked<'_> = Asked {
    site: "video.example",
    title: "/film/",
    player: Some(&PLAYER_SAID),
    refused_path: Some("/film/none"),
    network: None,
    client: ClientMarks {
        user_agent: Some("player/1.0"),
        ja4: None,
        table: 0,
        kind: &|| ClientKind::Television,
    },
    bytes: 1_000,
};

const PLAYER_SAID: PlayerSaid = PlayerSaid {
    session: None,
    buffer: Some(Duration::from_secs(4)),
    starved: true,
    startup: false,
    malformed: true,
    throughput: Some((4_500, 3_000)),
};

/// Counts one of each event of a site.
pub(super) fn count_site(shard: &Shard, (site, rate): (SiteId, RateId)) {
    shard.site_response(site, &SITE_RESPONSE);
    assert_eq!(shard.asked(&ASKED), ClientKind::Television);
    shard.client_connected(ClientKind::Phone, Some((&FACTS, Duration::from_millis(2))));
    shard.client_connected(ClientKind::Phone, None);
    let needed = [(500_000, rate)];
    [499_999, 500_000].iter().for_each(|rate| shard.received(site, (7, *rate), &needed, Instant::now()));
    let said = PlayerSaid { session: Some(NameHash::of("session")), ..PLAYER_SAID };
    shard.player_said(site, ClientKind::Television, &said);
}

#[test]
fn sites_keep_their_counters_over_a_reload_and_are_counted_together_beyond_the_bound() {
    let metrics = Metrics::new(1);
    let shard = metrics.shard(0);
    let first = metrics.site("site-0.example");
    for number in 0..limits::SITES + 10 {
        shard.site_response(metrics.site(&format!("site-{number}.example")), &SITE_RESPONSE);
    }
    assert_eq!(metrics.site("site-0.example"), first);
    let scrape = Scrape::of(&metrics);
    let name = "penstock_site_body_bytes_total";
    assert_eq!(scrape.all(name).len(), limits::SITES);
    assert_eq!(scrape.value(name, &[("site", "site-0.example")]), 1_000.0);
    assert_eq!(scrape.value(name, &[("site", "other")]), 11_000.0);
}

#[test]
fn the_status_shows_sites_and_what_is_asked_for_most() {
    let status = busy_metrics().status();
    let site = &status["sites"][0];
    assert_eq!(
        (&site["name"], &site["requests"], &site["bytes"]),
        (&"video.example".into(), &2.into(), &2_000.into())
    );
    assert_eq!((&site["hit_requests"], &site["hit_bytes"]), (&2.into(), &2_000.into()));
    assert_eq!(site["by_class"]["2xx"], 2);
    assert_eq!(site["short"]["too_slow"], 2);
    let phone = &status["clients"]["phone"];
    assert_eq!((&phone["connections"], &phone["handshakes"]["full"]["count"]), (&4.into(), &2.into()));
    assert_eq!(phone["handshakes"]["full"]["busy_seconds_mean"], 0.002);
    assert_eq!(phone["handshakes"]["versions"]["TLSv1.3"]["share"], 1.0);
    assert!(status["clients"]["tool"].is_null());
    let title = &status["top"]["titles"][0];
    assert_eq!(
        (&title["key"], &title["requests"], &title["bytes"], &title["error"]),
        (&"video.example/film/".into(), &2.into(), &2_000.into(), &0.into())
    );
    assert_eq!((&site["slow"][0]["viewers"], &site["measured_viewers"]), (&1.into(), &1.into()));
    assert_eq!(site["players"]["starved"], 2);
    assert_eq!(site["players"]["sessions"], 1);
    let television = &site["players"]["clients"]["television"];
    assert_eq!((&television["requests"], &television["sessions"]), (&2.into(), &1.into()));
    assert_eq!(title["clients"]["television"]["requests"], 2);
    assert_eq!(title["players"]["starved"], 2);
    assert_eq!(status["top"]["starved_titles"][0]["requests"], 2);
    assert_eq!(status["top"]["not_found"][0]["key"], "video.example/film/none");
    assert_eq!(status["top"]["user_agents"][0]["key"], "player/1.0");
}

#[test]
fn the_counters_of_sites_clients_and_players_are_summed() {
    let scrape = Scrape::of(&busy_metrics());
    let sums: &[Expected<'_>] = &[
        ("penstock_site_requests_total", &[("site", "video.example"), ("status", "2xx")], 2.0),
        ("penstock_site_body_bytes_total", &[("site", "video.example")], 2_000.0),
        ("penstock_site_cache_requests_total", &[("outcome", "stale")], 2.0),
        ("penstock_site_cache_body_bytes_total", &[("outcome", "stale")], 2_000.0),
        ("penstock_site_time_to_first_byte_seconds_count", &[], 2.0),
        ("penstock_site_short_responses_total", &[("reason", "too_slow")], 2.0),
        ("penstock_site_delivery_rate_bytes_per_second_sum", &[("version", "h2")], 2_000_000.0),
        ("penstock_site_delivery_rate_bytes_per_second_bucket", &[("le", "750000")], 0.0),
        ("penstock_site_delivery_rate_bytes_per_second_bucket", &[("le", "1000000")], 2.0),
        ("penstock_site_round_trip_seconds_sum", &[("version", "h2")], 0.04),
        ("penstock_client_connections_total", &[("client", "phone")], 4.0),
        ("penstock_client_handshake_seconds_total", &[("client", "phone"), ("resumed", "false")], 0.004),
        ("penstock_client_handshake_seconds_total", &[("client", "phone"), ("resumed", "true")], 0.0),
        ("penstock_client_handshakes_total", &[("client", "phone"), ("version", "TLSv1.3")], 2.0),
        ("penstock_site_slow_responses_total", &[("rate", "500000")], 2.0),
        ("penstock_site_slow_viewers", &[("site", "video.example"), ("rate", "500000")], 1.0),
        ("penstock_site_measured_viewers", &[("site", "video.example")], 1.0),
        ("penstock_player_requests_total", &[("client", "television")], 2.0),
        ("penstock_player_starved_requests_total", &[("client", "television")], 2.0),
        ("penstock_player_startup_requests_total", &[("client", "television")], 0.0),
        ("penstock_player_buffer_seconds_sum", &[("client", "television")], 8.0),
        ("penstock_player_throughput_ratio_sum", &[("client", "television")], 3.0),
        ("penstock_player_sessions_total", &[("site", "video.example")], 1.0),
        ("penstock_player_client_sessions_total", &[("client", "television")], 1.0),
        ("penstock_player_client_sessions_total", &[("client", "phone")], 0.0),
        ("penstock_site_retransmitted_ratio_sum", &[("version", "h2")], 0.1),
        ("penstock_site_retransmitted_ratio_bucket", &[("le", "0.05")], 2.0),
    ];
    for (name, labels, expected) in sums {
        assert_eq!(scrape.value(name, labels), *expected, "{name} {labels:?}");
    }
}
