//! What the origin has and has said, and so what clients may get.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use penstock_origin::http::OriginError;
use tokio::time::Instant;

use super::{Choices, HOSTS, ORIGINS, PATHS, PIECE_SECONDS, UNCACHED};
use crate::clock::Clock;
use crate::tests::fixture::{SLICE, content};
use crate::tests::scripted::{OriginRequest, Reply};

/// Each representation has bytes of its own, so that one byte tells which it is.
const REPRESENTATIONS_MAX: usize = 250;
const LENGTHS: [usize; 7] = [10, 1, SLICE - 1, SLICE, SLICE + 1, 3 * SLICE + 7, 0];
/// Cache-Control, for how long a response is fresh, and for how long after that it may be used.
const LIFETIMES: [(&str, u64, u64); 6] = [
    ("max-age=60", 60, 0),
    ("max-age=5, stale-if-error=600", 5, 600),
    ("max-age=5, stale-while-revalidate=30", 5, 30),
    ("max-age=0", 0, 0),
    ("no-cache", 0, 0),
    ("max-age=600", 600, 0),
];
/// How long a response may be fresh because of a redirection that led to it.
const REDIRECTED: Duration = Duration::from_secs(5);

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
    /// Clients with these words: in CDN-Loop, and as early data.
    OfWords((bool, bool)),
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
    pub(super) origin: usize,
    pub(super) path: u8,
    pub(super) status: u16,
    /// For requests with this language only.
    pub(super) language: Option<String>,
    /// For requests with this Authorization only.
    pub(super) authorization: Option<String>,
    pub(super) audience: Audience,
    /// Its ETag at each server; none, or two that may be the same.
    pub(super) tags: Vec<String>,
    all_bytes: Rc<Vec<u8>>,
    length: usize,
    /// Until when requests may get it, as the origin has said last.
    pub(super) until: Instant,
    /// The last event before the origin was asked for it.
    pub(super) asked: u64,
    lifetime: usize,
    modified: Option<String>,
}

impl Representation {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.all_bytes[..self.length]
    }
}

thread_local! {
    /// Bytes by seed, of the greatest length. Making them takes longer than all else.
    static CONTENTS: RefCell<HashMap<usize, Rc<Vec<u8>>>> = RefCell::default();
}

fn bytes_of(seed: usize) -> Rc<Vec<u8>> {
    let longest = LENGTHS.into_iter().max().unwrap();
    CONTENTS.with_borrow_mut(|known| {
        Rc::clone(known.entry(seed).or_insert_with(|| Rc::new(content(longest, seed))))
    })
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
    /// What responses to unsafe methods have changed: site, path, the event at the origin, and the one at the client.
    changes: Vec<(usize, u8, u64, u64)>,
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
            changes: Vec::new(),
        }
    }

    /// The representation whose bytes have `byte` at this place.
    pub(super) fn with_byte(&mut self, byte: u8, place: usize) -> Option<&mut Representation> {
        let pattern = (place * 31 + place / 251) % 256;
        let seed = (usize::from(byte) + 256 - pattern) % 256;
        self.all.get_mut(seed.checked_sub(1)?)
    }

    pub(super) fn of(&self, site: usize, path: u8) -> impl Iterator<Item = &Representation> {
        self.all.iter().filter(move |known| known.origin == ORIGINS[site] && known.path == path)
    }

    pub(super) fn next_event(&mut self) -> u64 {
        self.event += 1;
        self.event
    }

    pub(super) fn purged(&mut self, path: u8) {
        self.purged[usize::from(path)] = self.next_event();
    }

    /// A client has the response to an unsafe method, for which the origin was asked after the event `asked`.
    pub(super) fn changed(&mut self, site: usize, path: u8, asked: u64) {
        let got = self.next_event();
        self.changes.push((site, path, asked, got));
    }

    /// What a client that asked at `event` gets must have been asked for after the returned event: that of the last purge, or of
    /// the last change by an unsafe method whose response had come.
    pub(super) fn purge_for(&self, site: usize, path: u8, event: u64) -> u64 {
        let purge = Some(self.purged[usize::from(path)]).filter(|purge| *purge < event);
        let is_known = |&&(of, at, _, got): &&(usize, u8, u64, u64)| of == site && at == path && got < event;
        let change = self.changes.iter().filter(is_known).map(|(_, _, asked, _)| *asked).max();
        purge.max(change).unwrap_or(0)
    }

    /// The origin gets another version of an object.
    pub(super) fn publish(&mut self) {
        let (origin, path) = (usize::from(self.choices.of(2)), self.choices.of(PATHS));
        let number = self.versions.get(&(origin, path)).map_or(0, |version| version.number + 1);
        let version = self.version(number);
        self.versions.insert((origin, path), version);
    }

    fn version(&self, number: u32) -> Version {
        let one_of = |number| self.choices.of(number);
        Version {
            number,
            length: LENGTHS[usize::from(one_of(7))],
            validator: one_of(5),
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
        origin: usize,
        path: u8,
        asked: &OriginRequest,
        version: Version,
    ) -> Representation {
        let seed = self.all.len() + 1;
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let modified = UNIX_EPOCH + Duration::from_secs(1_000_000_000 + 3600 * seed as u64);
        Representation {
            origin,
            path,
            status: 200,
            language: some(asked.field("accept-language"))
                .filter(|_| version.varies)
                .or_else(|| version.varies.then(String::new)),
            authorization: some(asked.field("authorization"))
                .filter(|_| version.audience != Audience::Public),
            audience: version.audience,
            tags: match version.validator {
                0 => vec![format!("\"{seed}\""); 2],
                1 => vec![format!("W/\"{seed}\""); 2],
                4 => vec![format!("\"{seed}-0\""), format!("\"{seed}-1\"")],
                _ => Vec::new(),
            },
            modified: (version.validator == 2).then(|| httpdate::fmt_http_date(modified)),
            all_bytes: bytes_of(seed),
            length: version.length,
            until: Instant::now(),
            asked: self.event,
            lifetime: version.lifetime,
        }
    }

    /// What the origin answers.
    pub(super) fn answer(&mut self, asked: &OriginRequest) -> Reply {
        let origin = usize::from(asked.origin.as_bytes()["http://192.0.2.".len()] - b'1');
        // A site with the cache asks for the host of its origin, and one without it for that of its client.
        let host = (origin == UNCACHED).then_some(HOSTS[origin]);
        if asked.host.as_deref() != host || asked.target.contains("token") {
            self.wrong.push(format!(
                "Host {:?} or a token at the origin of {}: {asked:?}",
                asked.host, HOSTS[origin]
            ));
        }
        let path = asked.target.as_bytes()[2] - b'0';
        let slowly = match self.choices.of(6) {
            0 => Some((SLICE / 2, Duration::from_millis(100))),
            1 => Some((SLICE, PAUSE)),
            _ => None,
        };
        if asked.method == "POST" {
            self.next_event();
        }
        let reply = self.choose(origin, path, asked);
        match slowly {
            Some((bytes, pause)) => reply.slowly(bytes, pause),
            None => reply,
        }
    }

    fn choose(&mut self, origin: usize, path: u8, asked: &OriginRequest) -> Reply {
        if self.all.len() >= REPRESENTATIONS_MAX {
            return Reply::failure(OriginError::Unreachable);
        }
        let words = (asked.field("cdn-loop").starts_with("own"), asked.early);
        if (words.0 || words.1) && self.choices.of(2) == 1 {
            return self.refusal(origin, path, asked, Some(words));
        }
        let mode = self.choices.of(19);
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
            8 => return self.refusal(origin, path, asked, None),
            9 if asked.known.is_some() => return Reply::new(412),
            10 if asked.known.as_ref().is_some_and(|(name, _)| name.starts_with("if-none")) => {
                return Reply::new(304).with(&[("etag", "\"another\""), ("cache-control", "max-age=600")]);
            }
            _ => {}
        }
        let number = self.current(origin, path, asked);
        let reply = self.honest(number, asked, mode);
        match mode {
            11 if asked.method == "GET" => {
                let bytes = usize::from(self.choices.of(255)) * 700;
                reply.cut_within(bytes, OriginError::CutShort)
            }
            12 => reply.unannounced(),
            16 if asked.method == "GET" && asked.range.is_none() => reply.close_delimited(),
            _ => reply,
        }
    }

    /// The representation that a request selects now.
    fn current(&mut self, origin: usize, path: u8, asked: &OriginRequest) -> usize {
        let mut version = match self.versions.get(&(origin, path)) {
            Some(version) => *version,
            None => {
                let first = self.version(0);
                *self.versions.entry((origin, path)).or_insert(first)
            }
        };
        // What answers an unsafe method is for its client.
        if asked.method != "GET" && asked.method != "HEAD" {
            version.audience = Audience::OneClient;
        }
        let made = self.new_representation(origin, path, asked, version);
        let selects =
            (made.language.clone().unwrap_or_default(), made.authorization.clone().unwrap_or_default());
        let name = (origin, path, version.number, selects.0, selects.1);
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

    /// An error or a redirection with a body of its own, perhaps because of a client's words.
    fn refusal(
        &mut self,
        origin: usize,
        path: u8,
        asked: &OriginRequest,
        words: Option<(bool, bool)>,
    ) -> Reply {
        let statuses = [404, 403, 500, 503, 410, 508, 301, 302, 307, 425];
        let number = usize::from(self.choices.of(if asked.early { 10 } else { 9 }));
        let status = statuses[number];
        // What is not said of the target may be about any field that the origin saw.
        let varies = matches!(status, 403 | 500 | 503 | 508 | 425);
        let lifetime = usize::from(self.choices.of(6));
        let version = Version {
            number: 0,
            length: 20,
            validator: 3,
            lifetime,
            varies,
            audience: words.map_or(Audience::Shared, Audience::OfWords),
        };
        let made = self.new_representation(origin, path, asked, version);
        // The answer to a request that says nothing of its client is for all.
        let language = made.language.filter(|language| !language.is_empty());
        let number = self.add(Representation { status, language, ..made });
        self.say(number, Duration::MAX);
        let (control, bytes) = (LIFETIMES[lifetime].0, self.all[number].bytes());
        let reply = Reply::new(status).with(&[("cache-control", control)]);
        if asked.method == "HEAD" { reply.announcing(bytes.len()) } else { reply.bytes(bytes) }
    }

    /// The origin says that a representation is the current one, and fresh for no longer than `most`.
    fn say(&mut self, number: usize, most: Duration) {
        let event = self.event;
        let said = &mut self.all[number];
        let arrives = Instant::now() + PAUSE + Duration::from_secs(PIECE_SECONDS);
        let (_, fresh, stale) = LIFETIMES[said.lifetime];
        let until = arrives + Duration::from_secs(fresh).min(most) + Duration::from_secs(stale);
        said.until = said.until.max(until);
        said.asked = event;
    }

    fn honest(&mut self, number: usize, asked: &OriginRequest, mode: u8) -> Reply {
        let is_redirected = mode == 17;
        self.say(number, if is_redirected { REDIRECTED } else { Duration::MAX });
        let reply = self.said(number, asked, mode);
        if is_redirected { reply.fresh_for(REDIRECTED) } else { reply }
    }

    fn said(&self, number: usize, asked: &OriginRequest, mode: u8) -> Reply {
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
        let tag = said.tags.get(asked.server).map(String::as_str);
        fields.extend(tag.map(|tag| ("etag", tag)));
        fields.extend(said.modified.as_deref().map(|date| ("last-modified", date)));
        fields.extend(said.language.is_some().then_some(("vary", "Accept-Language")));
        let known = asked.known.as_ref().map(|(name, value)| (*name, value.as_str()));
        let is = |value: &str| [tag, said.modified.as_deref()].contains(&Some(value));
        match known {
            Some(("if-none-match" | "if-modified-since", value)) if is(value) => {
                return Reply::new(304).with(&fields);
            }
            _ => {}
        }
        let whole = said.bytes();
        if asked.method == "HEAD" {
            return Reply::new(200).with(&fields).announcing(whole.len());
        }
        let is_as_known = !matches!(known, Some(("if-range", value)) if !is(value));
        match asked.range {
            Some((first, last)) if is_as_known && !is_for_one && mode != 14 => {
                part(whole, &fields, first, last, mode)
            }
            _ => Reply::ok(&fields, whole),
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
