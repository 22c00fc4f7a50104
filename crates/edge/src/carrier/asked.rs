//! Counts what is asked for most, and by whom.

use std::fmt;

use penstock_config::{CountedMetrics, Network};
use penstock_http::Request;
use penstock_http::cmcd::Cmcd;
use penstock_tls::Ja4;

use crate::carrier::answered::{Answered, CarriedBy};
use crate::metrics::{Asked, ClientMarks, NameHash, PlayerSaid};
use crate::settings::Settings;

/// Counts a response of this many bytes, if a site has answered, and what its player says.
pub(crate) fn count_asked(
    carrier: &CarriedBy<'_>,
    request: &Request<'_>,
    answered: &Answered,
    bytes: u64,
    settings: &Settings,
) {
    let Some(site) = answered.site else { return };
    let shard = &carrier.worker.shard;
    let path = settings.sites.without_token(site, answered.route, request.raw_path());
    let network = Network::of_remote(carrier.client.ip());
    let said = answered.said.as_deref();
    let player = said.map(player_said);
    let CountedMetrics { title_patterns, title_directories: directories, clients, .. } = &settings.metrics;
    let patterns = settings.sites.title_patterns(site, answered.route).unwrap_or(title_patterns);
    // A name has no slash in front, so that it is told from a path.
    let content = said.and_then(|said| said.content.as_deref()).filter(|name| !name.is_empty());
    let user_agent = request.user_agent();
    let ja4 = carrier.ja4.as_ref().filter(|_| clients.needs_ja4()).map(Ja4::as_str);
    let kind = || clients.kind(user_agent, ja4);
    let kind = shard.asked(&Asked {
        site: settings.sites.name(site),
        title: patterns.title(path).or(content).unwrap_or_else(|| title(path, *directories)),
        player: player.as_ref(),
        refused_path: (400..500).contains(&answered.status).then_some(path),
        network: network.as_ref().map(|network| (network.number(), network as &dyn fmt::Display)),
        client: ClientMarks { user_agent, ja4, table: clients.digest(), kind: &kind },
        bytes,
    });
    if carrier.request_number == 1 {
        shard.client_connected(kind, carrier.tls.as_ref().map(|facts| (facts, carrier.handshake_busy)));
    }
    if let (Some(player), Some(counted)) = (&player, settings.counted_sites.get(site.index())) {
        shard.player_said(*counted, kind, player);
    }
}

fn player_said(said: &Cmcd) -> PlayerSaid {
    PlayerSaid {
        session: said.session.as_deref().map(NameHash::of),
        buffer: said.buffer,
        starved: said.starved,
        startup: said.startup,
        malformed: said.malformed,
        throughput: said.throughput.zip(said.bitrate),
    }
}

/// The first directories of a path; a path without any is a title of its own.
fn title(path: &str, directories: usize) -> &str {
    let slashes = path.bytes().enumerate().filter(|(_, byte)| *byte == b'/').map(|(place, _)| place);
    match slashes.skip(1).take(directories).last() {
        Some(last) => &path[..=last],
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_directories() {
        for (path, expected) in [
            ("/vod/film/720p/seg-1.m4s", "/vod/film/"),
            ("/film/seg-1.m4s", "/film/"),
            ("/live/news/index.m3u8", "/live/news/"),
            ("/clip.mp4", "/clip.mp4"),
            ("/", "/"),
            ("//", "//"),
            ("*", "*"),
            ("", ""),
        ] {
            assert_eq!(title(path, 2), expected, "{path}");
        }
        assert_eq!(title("/vod/film/720p/seg-1.m4s", 1), "/vod/");
        assert_eq!(title("/vod/film/720p/seg-1.m4s", 8), "/vod/film/720p/");
    }
}
