//! Who may use a site: by address, by the page that refers to it, and by name and password.

mod passwords;
mod refusal;
mod tokens;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use penstock_config::{
    AddressList, CertificateName, Countries, CountryCode, CountryRules, NetworkSet, Referers,
};
use penstock_origin::io_threads::IoThreads;

use super::followed::Followed;
pub(crate) use passwords::Passwords;
pub(crate) use passwords::VerifiedPasswords;
pub use refusal::AccessRefusal;
pub(crate) use tokens::Tokens;

/// Who may use a site.
#[derive(Debug)]
pub(crate) struct Access {
    allow: Option<Addresses>,
    deny: Addresses,
    countries: Option<CountryAccess>,
    referers: Option<Referers>,
    certificates: Option<Vec<CertificateName>>,
    pub(crate) passwords: Option<Passwords>,
    pub(crate) tokens: Option<Tokens>,
}

impl Access {
    /// The rules of a configuration; `None` if there are none.
    pub(crate) fn new(
        raw: &penstock_config::Access,
        verified: &Arc<VerifiedPasswords>,
        now: Instant,
    ) -> Option<Self> {
        if *raw == penstock_config::Access::default() {
            return None;
        }
        Some(Self {
            allow: raw.allow.as_ref().map(|list| Addresses::new(list, now)),
            deny: Addresses::new(&raw.deny, now),
            countries: raw.countries.as_ref().map(|rules| CountryAccess::new(rules, now)),
            referers: raw.referers.clone(),
            certificates: raw.certificates.clone(),
            passwords: raw.basic.as_ref().map(|basic| Passwords::new(basic, verified, now)),
            tokens: raw.jwt.as_ref().map(|jwt| Tokens::new(jwt, verified, now)),
        })
    }

    /// Whether a client at this address may use the site.
    pub(crate) fn address(&self, client: IpAddr, io: &IoThreads, now: Instant) -> Result<(), AccessRefusal> {
        let denied = self.deny.contain(client, io, now);
        let allowed = self.allow.as_ref().is_none_or(|allow| allow.contain(client, io, now));
        if denied || !allowed {
            return Err(AccessRefusal::Address);
        }
        let is_fine = self.countries.as_ref().is_none_or(|rules| rules.admit(client, io, now));
        if is_fine { Ok(()) } else { Err(AccessRefusal::Country) }
    }

    /// The country of a client; `None` if no rule has a database, or that does not know the address.
    pub(crate) fn country(&self, client: IpAddr, io: &IoThreads, now: Instant) -> Option<CountryCode> {
        self.countries.as_ref()?.database.contents(io, now).of(client)
    }

    /// Whether a client with a certificate of this name may use the site.
    pub(crate) fn certificate(&self, name: Option<&str>) -> Result<(), AccessRefusal> {
        let Some(names) = &self.certificates else { return Ok(()) };
        let is_fine = name.is_some_and(|name| names.iter().any(|one| one.is_for(name)));
        if is_fine { Ok(()) } else { Err(AccessRefusal::Certificate) }
    }

    /// Whether the page of this Referer may use the site.
    pub(crate) fn referer(&self, referer: Option<&[u8]>) -> Result<(), AccessRefusal> {
        let Some(rules) = &self.referers else { return Ok(()) };
        let is_fine = match referer {
            None => rules.none,
            Some(referer) => host_of(referer).is_some_and(|host| {
                rules.hosts.contains(&host)
                    || rules.under.iter().any(|domain| host.ends_with(domain.as_str()))
            }),
        };
        if is_fine { Ok(()) } else { Err(AccessRefusal::Referer) }
    }
}

/// Countries whose addresses may use a site.
#[derive(Debug)]
struct CountryAccess {
    database: Followed<Countries>,
    allow: Option<Vec<CountryCode>>,
    deny: Vec<CountryCode>,
}

impl CountryAccess {
    fn new(raw: &CountryRules, now: Instant) -> Self {
        let database = Followed::new(&raw.file, raw.database.clone(), Countries::read, now);
        Self { database, allow: raw.allow.clone(), deny: raw.deny.clone() }
    }

    fn admit(&self, client: IpAddr, io: &IoThreads, now: Instant) -> bool {
        match self.database.contents(io, now).of(client) {
            Some(country) => {
                !self.deny.contains(&country)
                    && self.allow.as_ref().is_none_or(|allow| allow.contains(&country))
            }
            None => self.allow.is_none(),
        }
    }
}

/// The host of a URL in lower case, without port.
fn host_of(url: &[u8]) -> Option<String> {
    let (scheme, rest) = str::from_utf8(url).ok()?.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http") {
        return None;
    }
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = match host.strip_prefix('[') {
        Some(_) => &host[..=host.find(']')?],
        None => host.split(':').next()?,
    };
    Some(host.trim_end_matches('.').to_ascii_lowercase())
}

/// The body of the fuzz target `access_fields`: the fields Referer and Authorization of a request, one a line. A host is plain and
/// the same in a URL of its own, and credentials are the same after they were written again.
///
/// # Panics
/// When that does not hold.
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub fn fuzz_access_fields(input: &[u8]) {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    let mut lines = input.splitn(2, |byte| *byte == b'\n');
    let (referer, authorization) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    if let Some(host) = host_of(referer) {
        assert!(
            !host.contains(['/', '?', '#', '\\', '@'])
                && !host.contains(|one: char| one.is_ascii_uppercase())
        );
        assert!(host.starts_with('[') || !host.contains(':'), "{host}");
        assert_eq!(host_of(format!("HTTPS://a:b@{host}:1/x").as_bytes()).as_ref(), Some(&host));
    }
    if let Some((name, password)) = passwords::credentials(authorization) {
        assert!(!name.contains(':'));
        let written = STANDARD.encode([name.as_bytes(), b":", &password].concat());
        assert_eq!(passwords::credentials(format!("basic {written}").as_bytes()), Some((name, password)));
    }
    if let Some(token) = tokens::bearer(authorization) {
        assert_eq!(tokens::bearer(format!("bearer {token}").as_bytes()), Some(token));
    }
}

/// Networks, of which some are in files.
#[derive(Debug)]
struct Addresses {
    networks: NetworkSet,
    files: Vec<Followed<NetworkSet>>,
}

impl Addresses {
    fn new(raw: &AddressList, now: Instant) -> Self {
        let files = raw
            .files
            .iter()
            .map(|(path, networks)| Followed::new(path, networks.clone(), NetworkSet::read, now));
        Self { networks: raw.networks.clone(), files: files.collect() }
    }

    fn contain(&self, client: IpAddr, io: &IoThreads, now: Instant) -> bool {
        self.networks.contains(client)
            || self.files.iter().any(|file| file.contents(io, now).contains(client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_certificates_that_are_listed_may_use_the_site_and_no_others() {
        let rules = |none| Access {
            allow: None,
            deny: Addresses { networks: NetworkSet::default(), files: Vec::new() },
            countries: None,
            referers: Some(Referers {
                none,
                hosts: vec!["player.example".to_owned(), "[2001:db8::1]".to_owned()],
                under: vec![".cdn.example".to_owned()],
            }),
            certificates: Some(vec![
                CertificateName::Exact("player".to_owned()),
                CertificateName::Ending(".edge.example".to_owned()),
            ]),
            passwords: None,
            tokens: None,
        };
        for fine in [
            "https://player.example/watch?x=1",
            "http://PLAYER.example:8080",
            "https://a.b.cdn.example/",
            "https://[2001:db8::1]:443/x",
            "https://player.example./",
        ] {
            assert_eq!(rules(false).referer(Some(fine.as_bytes())), Ok(()), "{fine}");
        }
        for wrong in [
            "https://cdn.example/",
            "https://evilplayer.example/",
            "https://player.example.evil.test/",
            "https://evil.test/https://player.example/",
            "https://player.example@evil.test/",
            "https://evil.test\\@player.example/",
            "ftp://player.example/",
            "player.example",
            "",
            "https://",
        ] {
            assert_eq!(rules(true).referer(Some(wrong.as_bytes())), Err(AccessRefusal::Referer), "{wrong}");
        }
        for (name, is_fine) in [
            (Some("player"), true),
            (Some("a.edge.example"), true),
            (Some(".edge.example"), false),
            (Some("player2"), false),
            (Some(""), false),
            (None, false),
        ] {
            assert_eq!(rules(true).certificate(name).is_ok(), is_fine, "{name:?}");
        }
        assert_eq!(
            (rules(true).referer(None), rules(false).referer(None)),
            (Ok(()), Err(AccessRefusal::Referer))
        );
    }
}
