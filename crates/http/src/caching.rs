//! Storage and freshness of a response in a shared cache (RFC 9111), as a function of its fields and of time.

mod update;

use std::time::{Duration, SystemTime};

use crate::date;
use crate::digits::saturating_decimal;
use crate::encoding::accepts;
use crate::list::{elements, is_quoted, split};

pub use update::{is_of_connection, updated_fields};

/// The directives of a response's Cache-Control that a shared cache obeys (RFC 9111 §5.2.2, RFC 5861).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word that is there or not")]
pub struct Directives {
    /// `no-store`
    pub no_store: bool,
    /// `private`, with or without field names
    pub private: bool,
    /// `no-cache`, with or without field names
    pub no_cache: bool,
    /// `public`
    pub public: bool,
    /// `must-understand`
    pub must_understand: bool,
    /// `must-revalidate` or `proxy-revalidate`
    pub must_revalidate: bool,
    /// `no-transform`
    pub no_transform: bool,
    /// `max-age`
    pub max_age: Option<Duration>,
    /// `s-maxage`
    pub s_maxage: Option<Duration>,
    /// `stale-while-revalidate`
    pub stale_while_revalidate: Option<Duration>,
    /// `stale-if-error`
    pub stale_if_error: Option<Duration>,
}

impl Directives {
    /// Reads all values of Cache-Control. Unknown directives are passed over; a time that is not a number counts as
    /// zero, since RFC 9111 §4.2.1 wants such a response to be stale.
    pub fn parse<'v>(values: impl Iterator<Item = &'v [u8]>) -> Self {
        let mut found = Self::default();
        for value in values {
            for directive in elements(value) {
                found.take(directive);
            }
        }
        found
    }

    /// Reads all values of a targeted field such as CDN-Cache-Control (RFC 9213 §2.1). `None` if there is none, or if it
    /// is not the structured field that it has to be: then it does not count.
    pub fn parse_targeted<'v>(values: impl Iterator<Item = &'v [u8]>) -> Option<Self> {
        let mut found = None;
        for value in values {
            for member in split(value, b',').map(<[u8]>::trim_ascii) {
                // Parameters mean nothing here.
                let member = split(member, b';').next().unwrap_or_default();
                let (key, argument) = match memchr::memchr(b'=', member) {
                    Some(place) => (&member[..place], Some(&member[place + 1..])),
                    None => (member, None),
                };
                let key_byte =
                    |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(byte);
                let is_time =
                    matches!(key, b"max-age" | b"s-maxage" | b"stale-while-revalidate" | b"stale-if-error");
                let number = argument.is_some_and(|argument| saturating_decimal(argument).is_some());
                let is_cut =
                    argument.is_some_and(|argument| argument.contains(&b'"') && !is_quoted(argument));
                let starts_well = key.first().is_some_and(|byte| byte.is_ascii_lowercase() || *byte == b'*');
                if !starts_well || !key.iter().all(key_byte) || (is_time && !number) || is_cut {
                    return None;
                }
                if argument != Some(b"?0") {
                    found.get_or_insert_with(Self::default).take(member);
                }
            }
        }
        found
    }

    fn take(&mut self, directive: &[u8]) {
        let (name, argument) = match memchr::memchr(b'=', directive) {
            Some(place) => (&directive[..place], directive[place + 1..].trim_ascii()),
            None => (directive, &b""[..]),
        };
        let seconds = || {
            let digits = argument.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
            let seconds = saturating_decimal(digits.unwrap_or(argument)).unwrap_or(0);
            // RFC 9111 §1.2.2: a larger number counts as this.
            Duration::from_secs(seconds.min(1 << 31))
        };
        match name.trim_ascii().to_ascii_lowercase().as_slice() {
            b"no-store" => self.no_store = true,
            b"private" => self.private = true,
            b"no-cache" => self.no_cache = true,
            b"public" => self.public = true,
            b"must-understand" => self.must_understand = true,
            b"must-revalidate" | b"proxy-revalidate" => self.must_revalidate = true,
            b"no-transform" => self.no_transform = true,
            // The first of several counts (RFC 9111 §4.2.1 leaves the choice).
            b"max-age" => self.max_age = self.max_age.or_else(|| Some(seconds())),
            b"s-maxage" => self.s_maxage = self.s_maxage.or_else(|| Some(seconds())),
            b"stale-while-revalidate" => self.stale_while_revalidate = Some(seconds()),
            b"stale-if-error" => self.stale_if_error = Some(seconds()),
            _ => {}
        }
    }
}

/// The content codings that select among responses of an origin, in the order of their normal form.
const CODINGS: [&str; 3] = ["br", "gzip", "zstd"];

/// The value of a request's field in a normal form that values of the same meaning share, as far as that is known;
/// `None` if it is empty or longer than 256 bytes.
pub fn normalised<'v>(name: &str, values: impl Iterator<Item = &'v [u8]>) -> Option<String> {
    const BYTES_MAX: usize = 256;
    let lines = values.map(str::from_utf8).collect::<Result<Vec<_>, _>>().ok()?;
    let elements = || lines.iter().flat_map(|line| line.split(',')).map(str::trim_ascii);
    let parts: Vec<&str> = match name {
        "accept-encoding" => CODINGS.into_iter().filter(|coding| accepts(elements(), coding)).collect(),
        _ => elements().filter(|element| !element.is_empty()).collect(),
    };
    let value = match name {
        "accept-language" => parts.into_iter().map(cased_language).collect::<Vec<_>>().join(", "),
        _ => parts.join(", "),
    };
    (!value.is_empty() && value.len() <= BYTES_MAX).then_some(value)
}

/// A member of Accept-Language with its tag in the case that RFC 5646 §2.1.1 recommends: `EN-latn-us` becomes `en-Latn-US`.
/// Tags that differ in case mean the same.
fn cased_language(member: &str) -> String {
    let (range, weight) = member.split_at(member.find(';').unwrap_or(member.len()));
    // A language, or what follows the `x` of a private use.
    let mut is_lowercase = true;
    let subtags = range.split('-').map(|subtag| {
        let mut cased = subtag.to_ascii_lowercase();
        match cased.len() {
            2 if !is_lowercase => cased.make_ascii_uppercase(),
            4 if !is_lowercase && cased.is_ascii() => cased[..1].make_ascii_uppercase(),
            _ => {}
        }
        is_lowercase = cased.len() == 1;
        cased
    });
    subtags.collect::<Vec<_>>().join("-") + weight
}

/// Whether a member of Vary is `*`: then no later request matches the response (RFC 9111 §4.1).
pub fn varies_by_everything<'v>(values: impl Iterator<Item = &'v [u8]>) -> bool {
    let mut values = values;
    values.any(|value| elements(value).any(|element| element == b"*"))
}

/// The parts of a response that decide about caching.
#[derive(Clone, Copy, Debug)]
pub struct Response<'r> {
    /// Status code.
    pub status: u16,
    /// Its Cache-Control.
    pub directives: Directives,
    /// Whether it has Set-Cookie.
    pub sets_cookie: bool,
    /// Whether a member of Vary is `*`.
    pub varies_by_everything: bool,
    /// Value of Expires.
    pub expires: Option<&'r str>,
    /// Value of Date.
    pub date: Option<&'r str>,
    /// Value of Age: its first line.
    pub age: Option<&'r str>,
}

/// Lifetimes of responses whose origin names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultLifetimes {
    /// Of this response, whatever its status is; `None` if its status decides.
    pub of_status: Option<Duration>,
    /// Whether the directives and Expires of the origin do not count.
    pub ignore_origin: bool,
    /// How long behind its freshness anything is used while a newer version is fetched.
    pub stale_while_revalidate: Duration,
    /// Of a 200, 203, 204 or 300, and of redirections that are permanent.
    pub found: Duration,
    /// Of a 404, 405, 410, 414 or 501.
    pub missing: Duration,
    /// How long behind its freshness anything stands in for an origin that fails.
    pub stale_if_error: Duration,
}

/// Whether and for how long a response may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// For the client that asked for it only.
    Private,
    /// For clients that ask at the same time, and for no later one.
    Passing,
    /// For all clients.
    Shared(Lifetime),
}

/// How long a response may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// How long it is fresh, from now; zero means that it has to be validated before each use.
    pub fresh: Duration,
    /// How old it was when it came.
    pub age: Duration,
    /// How long behind its freshness it may be used while a newer one is fetched.
    pub stale_while_revalidate: Duration,
    /// How long behind its freshness it may be used if its origin fails.
    pub stale_if_error: Duration,
}

/// What a redirection allows of the response that it leads to; the least of several counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HopBound {
    /// For one client only.
    NotStored,
    /// Fresh for at most this time.
    Fresh(Duration),
    /// What the response itself says.
    #[default]
    Unbounded,
}

/// The values of Cache-Control as one, with a lifetime of `most` in place of its own.
pub fn limited<'v>(values: impl Iterator<Item = &'v [u8]>, most: Duration) -> Vec<u8> {
    let is_lifetime = |element: &&[u8]| {
        let name = element.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
        name.eq_ignore_ascii_case(b"max-age") || name.eq_ignore_ascii_case(b"s-maxage")
    };
    let others = values.flat_map(elements).filter(|element| !is_lifetime(element));
    let mut control = others.collect::<Vec<_>>().join(&b", "[..]);
    let separator = if control.is_empty() { "" } else { ", " };
    control.extend_from_slice(format!("{separator}max-age={}", most.as_secs()).as_bytes());
    control
}

impl<'r> Response<'r> {
    /// Reads the fields of a response. A targeted CDN-Cache-Control replaces Cache-Control and Expires (RFC 9213 §2.2).
    pub fn read(status: u16, fields: impl Iterator<Item = (&'r [u8], &'r [u8])> + Clone) -> Self {
        let all = |name: &'static str| {
            fields
                .clone()
                .filter(move |(given, _)| given.eq_ignore_ascii_case(name.as_bytes()))
                .map(|(_, value)| value)
        };
        let first = |name| all(name).next().and_then(|value| str::from_utf8(value).ok());
        let targeted = Directives::parse_targeted(all("cdn-cache-control"));
        Self {
            status,
            directives: targeted.unwrap_or_else(|| Directives::parse(all("cache-control"))),
            sets_cookie: all("set-cookie").next().is_some(),
            varies_by_everything: varies_by_everything(all("vary")),
            expires: first("expires").filter(|_| targeted.is_none()),
            date: first("date"),
            age: first("age"),
        }
    }

    /// Decides by RFC 9111 §3 and §4.2. A request with Authorization needs more; see there.
    ///
    /// The age of a response is what its Age says. A Date in the past adds nothing to it (`apparent_age`), which §4.2.3
    /// leaves to the cache: that is for paths with caches that do not write Age, and a clock that is behind is more common.
    pub fn storage(&self, now: SystemTime, default: DefaultLifetimes) -> Storage {
        if default.ignore_origin {
            let silent = Self { directives: Directives::default(), expires: None, ..*self };
            return silent.storage(now, DefaultLifetimes { ignore_origin: false, ..default });
        }
        let directives = &self.directives;
        if self.is_for_one_client() {
            return Storage::Private;
        }
        let usual = match self.status {
            _ if default.of_status.is_some() => default.of_status,
            200 | 203 | 204 | 300 | 301 | 308 => Some(default.found),
            404 | 405 | 410 | 414 | 501 => Some(default.missing),
            _ => None,
        };
        let explicit = self.explicit_lifetime(now);
        if self.status == 206 || self.status < 200 {
            return Storage::Passing;
        }
        let Some(total) = explicit.or(usual).filter(|_| self.status != 304) else {
            return Storage::Passing;
        };
        let age = self.age();
        let total = if directives.no_cache { Duration::ZERO } else { total };
        let beyond = |extra: Duration| match directives.must_revalidate || directives.no_cache {
            true => Duration::ZERO,
            false => extra,
        };
        // `s-maxage` implies `proxy-revalidate` (§5.2.2.10): only the origin itself can allow stale use then.
        let stale = |said: Option<Duration>, default| match (said, directives.s_maxage) {
            (Some(said), _) => beyond(said),
            (None, Some(_)) => Duration::ZERO,
            (None, None) => beyond(default),
        };
        Storage::Shared(Lifetime {
            fresh: total.saturating_sub(age),
            age,
            stale_while_revalidate: stale(directives.stale_while_revalidate, default.stale_while_revalidate),
            stale_if_error: stale(directives.stale_if_error, default.stale_if_error),
        })
    }

    fn is_for_one_client(&self) -> bool {
        let Directives { no_store, private, must_understand, .. } = self.directives;
        let unknown = must_understand && !self.is_understood();
        // For caches that know the status, `no-store` beside it is for others (RFC 9111 §5.2.2.3).
        let no_store = no_store && !must_understand;
        // 425 is about how one client asked (RFC 8470 §5.2).
        no_store || private || unknown || self.sets_cookie || self.varies_by_everything || self.status == 425
    }

    /// Whether RFC 9110 §15 describes the status, as `must-understand` asks (RFC 9111 §5.2.2.3).
    fn is_understood(&self) -> bool {
        matches!(self.status, 200..=206 | 300..=305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505)
    }

    /// What this redirection allows of the response that it leads to, if both are one response for clients. A lifetime that it
    /// does not name is no bound: a redirection without one is for this request, and so asked again for the next one.
    pub fn as_hop(&self, now: SystemTime) -> HopBound {
        if self.is_for_one_client() {
            return HopBound::NotStored;
        }
        match self.explicit_lifetime(now) {
            _ if self.directives.no_cache => HopBound::Fresh(Duration::ZERO),
            Some(lifetime) => HopBound::Fresh(lifetime.saturating_sub(self.age())),
            None => HopBound::Unbounded,
        }
    }

    /// If the origin names a lifetime that ends later than `most` from now, the lifetime that ends then.
    pub fn excess(&self, most: Duration, now: SystemTime) -> Option<Duration> {
        let allowed = most.saturating_add(self.age());
        (self.explicit_lifetime(now)? > allowed).then_some(allowed)
    }

    /// How old the response was when it came. The first member of a list counts (RFC 9111 §5.1).
    fn age(&self) -> Duration {
        let first = self.age.and_then(|age| age.split(',').next());
        let seconds = first.and_then(|age| saturating_decimal(age.trim().as_bytes())).unwrap_or(0);
        Duration::from_secs(seconds.min(1 << 31))
    }

    /// The freshness lifetime that the origin names (RFC 9111 §4.2.1).
    fn explicit_lifetime(&self, now: SystemTime) -> Option<Duration> {
        if let Some(seconds) = self.directives.s_maxage.or(self.directives.max_age) {
            return Some(seconds);
        }
        let expires = self.expires?;
        // A date that cannot be read means a time in the past (RFC 9111 §5.3).
        let Some(expires) = date::parse(expires) else { return Some(Duration::ZERO) };
        let date = self.date.and_then(date::parse).unwrap_or(now);
        Some(expires.duration_since(date).unwrap_or(Duration::ZERO))
    }
}

#[cfg(test)]
mod tests;
