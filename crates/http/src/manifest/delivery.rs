//! Delivery directives: parameters that a player of low-latency HLS adds to the query of a playlist (RFC 8216, second edition,
//! §6.2.5).

use super::position::Position;
use crate::digits::decimal;

/// Directives of a request for a playlist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Hold the answer back until the playlist has this.
    pub wanted: Option<Position>,
    /// Leave out segments that the player has.
    pub skip: Option<Skip>,
}

/// A playlist without the segments that the player has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Skip {
    /// `_HLS_skip=YES`
    Segments,
    /// `_HLS_skip=v2`
    SegmentsAndDateRanges,
}

/// Directives that no player means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadDirective;

const SEGMENT: &str = "_HLS_msn";
const PART: &str = "_HLS_part";
const SKIP: &str = "_HLS_skip";

impl Delivery {
    /// Whether a parameter of this name is one of the directives.
    pub fn is_directive(name: &str) -> bool {
        [SEGMENT, PART, SKIP].contains(&name)
    }

    /// Whether a path may be that of a playlist: it ends with `.m3u8`, or its last segment has no extension.
    pub fn may_apply_to(path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').is_none_or(|(_, extension)| extension.eq_ignore_ascii_case("m3u8"))
    }

    /// Takes the directives out of a query; returns them and the rest.
    ///
    /// # Errors
    /// A number that is none, a part without its segment, or a directive that is there twice.
    pub fn take(query: &str) -> Result<(Self, String), BadDirective> {
        let (mut segment, mut part, mut skip) = (None, None, None);
        let mut rest = String::new();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                SEGMENT => once(&mut segment, number(value)?)?,
                PART => once(&mut part, number(value)?)?,
                SKIP => once(&mut skip, Skip::parse(value)?)?,
                // Other parameters of this prefix are for other servers (`_HLS_push`, `_HLS_report`).
                _ => {
                    if !rest.is_empty() {
                        rest.push('&');
                    }
                    rest.push_str(pair);
                }
            }
        }
        let wanted = match (segment, part) {
            (Some(segment), part) => Some(Position { segment, part }),
            (None, None) => None,
            (None, Some(_)) => return Err(BadDirective),
        };
        Ok((Self { wanted, skip }, rest))
    }

    /// The query for an origin: `rest` with these directives, always in the same order.
    pub fn query(&self, rest: &str) -> String {
        let mut query = rest.to_owned();
        let mut add = |name: &str, value: &dyn std::fmt::Display| {
            let and = if query.is_empty() { "" } else { "&" };
            query.push_str(&format!("{and}{name}={value}"));
        };
        if let Some(wanted) = self.wanted {
            add(SEGMENT, &wanted.segment);
            if let Some(part) = wanted.part {
                add(PART, &part);
            }
        }
        match self.skip {
            Some(Skip::Segments) => add(SKIP, &"YES"),
            Some(Skip::SegmentsAndDateRanges) => add(SKIP, &"v2"),
            None => {}
        }
        query
    }
}

impl Skip {
    fn parse(value: &str) -> Result<Self, BadDirective> {
        match value {
            "YES" => Ok(Self::Segments),
            "v2" => Ok(Self::SegmentsAndDateRanges),
            _ => Err(BadDirective),
        }
    }
}

/// Numbers have at most twenty digits, so that one is written in one way only.
fn number(value: &str) -> Result<u64, BadDirective> {
    let plain = value.len() <= 20 && (value == "0" || !value.starts_with('0'));
    decimal(value.as_bytes()).filter(|_| plain).ok_or(BadDirective)
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<(), BadDirective> {
    if place.replace(value).is_some() { Err(BadDirective) } else { Ok(()) }
}
