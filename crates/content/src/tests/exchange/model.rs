//! What the origin has and has said, and so what clients may get.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use penstock_origin::http::OriginError;
use tokio::time::Instant;

use super::{Choices, HOSTS, PATHS, PIECE_SECONDS, UNCACHED};
use crate::clock::Clock;
use crate::tests::fixture::{SLICE, content};
use crate::tests::scripted::{OriginRequest, Reply};

/// Each representation has bytes of its own, so that one byte tells which it is.
const REPRESENTATIONS_MAX: usize = 250;
const LENGTHS: [usize; 7] = [10, 1, SLICE - 1, SLICE, SLICE + 1, 3 * SLICE + 7, 0];
/// Cache-Control, and for how long a response may be used, stale or not.
const LIFETIMES: [(&str, u64); 6] = [
    ("max-age=60", 60),
    ("max-age=5, stale-if-error=600", 605),
    ("max-age=5, stale-while-revalidate=30", 35),
    ("max-age=0", 0),
    ("no-cache", 0),
    ("max-age=600", 600),
];

/// How long a head takes at most, in which further requests join the one that is under way.
const PAUSE: Duration = Duration::from_secs(2);

/// Whom bytes are for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// All whom the fields of the request select.
    Shared,
    /// The same, and the origin says so.
    Public,
    /// One client, which has not got them yet.
    OneClient,
    /// That client has got them.
    Given,
    /// Clients whose own words are in CDN-Loop.
    OfWords,
}

/// How the object at one path is now.
#[derive(Clone, Copy)]
struct Version {
    number: u32,
    length: usize,
    validator: u8,
    lifetime: usize,
    varies: bool,
    /// Shared, public, or bytes of its own for each request.
    audience: Audience,
}

/// Bytes that the origin has given.
pub(super) struct Representation {
    pub(super) site: usize,
    pub(super) path: u8,
    pub(super) status: u16,
    /// For requests with this language only.
    pub(super) language: Option<String>,
    /// For requests with this Authorization only.
    pub(super) authorization: Option<String>,
    pub(super) audience: Audience,
    pub(super) tag: Option<String>,
    pub(super) bytes: Rc<Vec<u8>>,
    /// Until when requests may get it, as the origin has said last.
    pub(super) until: Instant,
    /// The last event before the origin was asked for it.
    pub(super) asked: u64,
    lifetime: usize,
    modified: Option<String>,
}

type Name = (usize, u8, u32, String, String);

pub(super) struct Model {
    choices: Choices,
    clock: Clock,
    versions: HashMap<(usize, u8), Version>,
    names: HashMap<Name, usize>,
    all: Vec<Representation>,
    /// Requests that the origin must not get. It answers in tasks whose panics nothing sees.
    pub(super) wrong: Vec<String>,
    /// Counts what happens.
    pub(super) event: u64,
    purged: [u64; PATHS as usize],
}

impl Model {
    pub(super) fn new(choices: Choices, clock: Clock) -> Self {
        let (versions, names) = (HashMap::new(), HashMap::new());
        Self {
            choices,
            clock,
            versions,
            names,
            all: Vec::new(),
            wrong: Vec::new(),
            event: 0,
            purged: [0; PATHS as usize],
        }
    }

    /// The representation whose bytes have `byte` at this place.
    pub(super) fn with_byte(&mut self, byte: u8, place: usize) -> Option<&mut Representation> {
        let pattern = (place * 31 + place / 251) % 256;
        let seed = (usize::from(byte) + 256 - pattern) % 256;
        self.all.get_mut(seed.checked_sub(1)?)
    }

    pub(super) fn of(&self, site: usize, path: u8) -> impl Iterator<Item = &Representation> {
        self.all.iter().filter(move |known| known.site == site && known.path == path)
    }

    pub(super) fn next_event(&mut self) -> u64 {
        self.event += 1;
        self.event
    }

    pub(super) fn purged(&mut self, path: u8) {
        self.purged[usize::from(path)] = self.next_event();
    }

    /// The event of the last purge of a path.
    pub(super) fn purge_of(&self, path: u8) -> u64 {
        self.purged[usize::from(path)]
    }

    /// The origin gets another version of an object.
    pub(super) fn publish(&mut self) {
        let (site, path) = (usize::from(self.choices.of(2)), self.choices.of(PATHS));
        let number = self.versions.get(&(site, path)).map_or(0, |version| version.number + 1);
        let version = self.version(number);
        self.versions.insert((site, path), version);
    }

    fn version(&self, number: u32) -> Version {
        let one_of = |number| self.choices.of(number);
        Version {
            number,
            length: LENGTHS[usize::from(one_of(7))],
            validator: one_of(4),
            lifetime: usize::from(one_of(6)),
            varies: one_of(3) == 1,
            audience: match one_of(6) {
                1 => Audience::OneClient,
                2 | 3 => Audience::Public,
                _ => Audience::Shared,
            },
        }
    }

    fn add(&mut self, made: Representation) -> usize {
        self.all.push(made);
        self.all.len() - 1
    }

    fn new_representation(
        &self,
        site: usize,
        path: u8,
        asked: &OriginRequest,
        version: Version,
    ) -> Representation {
        let seed = self.all.len() + 1;
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let modified = UNIX_EPOCH + Duration::from_secs(1_000_000_000 + 3600 * seed as u64);
        Representation {
            site,
            path,
            status: 200,
            language: some(asked.field("accept-language"))
                .filter(|_| version.varies)
                .or_else(|| version.varies.then(String::new)),
            authorization: some(asked.field("authorization"))
                .filter(|_| version.audience != Audience::Public),
            audience: version.audience,
            tag: match version.validator {
                0 => Some(format!("\"{seed}\"")),
                1 => Some(format!("W/\"{seed}\"")),
                _ => None,
            },
            modified: (version.validator == 2).then(|| httpdate::fmt_http_date(modified)),
            bytes: Rc::new(content(version.length, seed)),
            until: Instant::now(),
            asked: self.event,
            lifetime: version.lifetime,
        }
    }

    /// What the origin answers.
    pub(super) fn answer(&mut self, asked: &OriginRequest) -> Reply {
        let site = usize::from(asked.origin.as_bytes()["http://192.0.2.".len()] - b'1');
        // A site with the cache asks for the host of its origin, and one without it for that of its client.
        let host = (site == UNCACHED).then_some(HOSTS[site]);
        if asked.host.as_deref() != host || asked.target.contains("token") {
            self.wrong.push(format!(
                "Host {:?} or a token at the origin of {}: {asked:?}",
                asked.host, HOSTS[site]
            ));
        }
        let path = asked.target.as_bytes()[2] - b'0';
        let slowly = match self.choices.of(6) {
            0 => Some((SLICE / 2, Duration::from_millis(100))),
            1 => Some((SLICE, PAUSE)),
            _ => None,
        };
        let reply = self.choose(site, path, asked);
        match slowly {
            Some((bytes, pause)) => reply.slowly(bytes, pause),
            None => reply,
        }
    }

    fn choose(&mut self, site: usize, path: u8, asked: &OriginRequest) -> Reply {
        if self.all.len() >= REPRESENTATIONS_MAX {
            return Reply::failure(OriginError::Unreachable);
        }
        if asked.field("cdn-loop").starts_with("own") && self.choices.of(2) == 1 {
            return self.refusal(site, path, asked, true);
        }
        let mode = self.choices.of(16);
        match mode {
            7 => {
                let errors = [
                    OriginError::Unreachable,
                    OriginError::Timeout,
                    OriginError::CutShort,
                    OriginError::TooSlow,
                ];
                return Reply::failure(errors[usize::from(self.choices.of(4))]);
            }
            8 => return self.refusal(site, path, asked, false),
            9 if asked.known.is_some() => return Reply::new(412),
            10 if asked.known.as_ref().is_some_and(|(name, _)| name.starts_with("if-none")) => {
                return Reply::new(304).with(&[("etag", "\"another\""), ("cache-control", "max-age=600")]);
            }
            _ => {}
        }
        let number = self.current(site, path, asked);
        let reply = self.honest(number, asked, mode);
        match mode {
            11 if asked.method == "GET" => {
                let bytes = usize::from(self.choices.of(255)) * 700;
                reply.cut_within(bytes, OriginError::CutShort)
            }
            12 => reply.unannounced(),
            _ => reply,
        }
    }

    /// The representation that a request selects now.
    fn current(&mut self, site: usize, path: u8, asked: &OriginRequest) -> usize {
        let mut version = match self.versions.get(&(site, path)) {
            Some(version) => *version,
            None => {
                let first = self.version(0);
                *self.versions.entry((site, path)).or_insert(first)
            }
        };
        // What answers an unsafe method is for its client.
        if asked.method != "GET" && asked.method != "HEAD" {
            version.audience = Audience::OneClient;
        }
        let made = self.new_representation(site, path, asked, version);
        let selects =
            (made.language.clone().unwrap_or_default(), made.authorization.clone().unwrap_or_default());
        let name = (site, path, version.number, selects.0, selects.1);
        match self.names.get(&name) {
            Some(&known) if version.audience != Audience::OneClient => known,
            _ => {
                let number = self.add(made);
                if version.audience != Audience::OneClient {
                    self.names.insert(name, number);
                }
                number
            }
        }
    }

    /// An error with a body of its own.
    fn refusal(&mut self, site: usize, path: u8, asked: &OriginRequest, of_words: bool) -> Reply {
        let status = [404, 403, 500, 503, 410, 508][usize::from(self.choices.of(6))];
        let lifetime = usize::from(self.choices.of(6));
        let version = Version {
            number: 0,
            length: 20,
            validator: 3,
            lifetime,
            varies: false,
            audience: if of_words { Audience::OfWords } else { Audience::Shared },
        };
        let made = self.new_representation(site, path, asked, version);
        let number = self.add(Representation { status, ..made });
        self.say(number);
        let (seconds, bytes) = (LIFETIMES[lifetime].0, Rc::clone(&self.all[number].bytes));
        let reply = Reply::new(status).with(&[("cache-control", seconds)]);
        if asked.method == "HEAD" { reply.announcing(bytes.len()) } else { reply.bytes(&bytes) }
    }

    /// The origin says that a representation is the current one.
    fn say(&mut self, number: usize) {
        let event = self.event;
        let said = &mut self.all[number];
        let arrives = Instant::now() + PAUSE + Duration::from_secs(PIECE_SECONDS);
        let until = arrives + Duration::from_secs(LIFETIMES[said.lifetime].1);
        said.until = said.until.max(until);
        said.asked = event;
    }

    fn honest(&mut self, number: usize, asked: &OriginRequest, mode: u8) -> Reply {
        self.say(number);
        let date = httpdate::fmt_http_date(self.clock.wall());
        let said = &self.all[number];
        let mut control = LIFETIMES[said.lifetime].0.to_owned();
        let is_for_one = matches!(said.audience, Audience::OneClient | Audience::Given);
        control.push_str(match said.audience {
            Audience::Public => ", public",
            _ if is_for_one => ", private",
            _ => "",
        });
        let mut fields = vec![("cache-control", control.as_str()), ("date", date.as_str())];
        fields.extend(said.tag.as_deref().map(|tag| ("etag", tag)));
        fields.extend(said.modified.as_deref().map(|date| ("last-modified", date)));
        fields.extend(said.language.is_some().then_some(("vary", "Accept-Language")));
        let known = asked.known.as_ref().map(|(name, value)| (*name, value.as_str()));
        let is = |value: &str| [&said.tag, &said.modified].iter().any(|one| one.as_deref() == Some(value));
        match known {
            Some(("if-none-match" | "if-modified-since", value)) if is(value) => {
                return Reply::new(304).with(&fields);
            }
            _ => {}
        }
        let whole = Rc::clone(&said.bytes);
        if asked.method == "HEAD" {
            return Reply::new(200).with(&fields).announcing(whole.len());
        }
        let is_as_known = !matches!(known, Some(("if-range", value)) if !is(value));
        match asked.range {
            Some((first, last)) if is_as_known && !is_for_one && mode != 14 => {
                part(&whole, &fields, first, last, mode)
            }
            _ => Reply::ok(&fields, &whole),
        }
    }
}

/// A part of `whole`, perhaps another one than was asked for.
fn part(whole: &[u8], fields: &[(&str, &str)], first: u64, last: u64, mode: u8) -> Reply {
    let length = whole.len();
    let first = usize::try_from(first).unwrap();
    let unsatisfied = format!("bytes */{length}");
    if first >= length {
        return Reply::new(416).with(&[("content-range", &unsatisfied)]);
    }
    let last = usize::try_from(last).unwrap_or(usize::MAX).min(length - 1);
    let (first, last) = match mode {
        13 => (first, first + (last - first) / 2),
        15 => (first / 2, last),
        _ => (first, last),
    };
    let range = format!("bytes {first}-{last}/{length}");
    Reply::new(206).with(fields).with(&[("content-range", &range)]).bytes(&whole[first..=last])
}
