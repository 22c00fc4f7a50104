//! A site whose bytes come from HTTP origins.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderName;
use penstock_cluster::{BLOCK_BYTES, block_of};
use penstock_config::{Balance, Bypass, CachePolicy, FieldRules, OriginServer, limits};
use penstock_http::caching::DefaultLifetimes;
use penstock_http::manifest::{Delivery, Manifest, resolve};
use penstock_http::{OriginUrl, Request};
use penstock_origin::http::{
    BalanceBy, HealthCheck, HealthLimits, HttpOrigin, MinimumRate, OriginLimits, OriginSettings, S3Bucket,
    ServerId, ServerSettings, SiteCounters,
};
use penstock_sys::digest::sha256;

use tokio::time::sleep;

use crate::peers::{LoopMember, Peers, Route, hexadecimal};
use crate::requester::Requester;
use crate::site::cache_request::{CacheRequest, RequestFields, split_target};
use crate::site::cookies::cookies_of;
use crate::site::known_keys::KnownKeys;
use crate::site::live::{BodyKind, FreshnessBounds, LiveDirectories};
use crate::site::spread::Spread;
use crate::site::successors::Successors;
use crate::site::upgrades::SiteUpgrades;
use crate::site::variants;

/// A site with an HTTP origin: its servers, its rules for keys and freshness, and what its playlists told.
#[derive(Debug)]
pub struct HttpSite {
    origin: Arc<HttpOrigin>,
    /// Its requests to each server of the origin, which other sites may share.
    pub(crate) counters: SiteCounters,
    /// Distinguishes the objects of one origin, asked with certain fields of clients, from those of another.
    pub(crate) name: String,
    /// Distinguishes the objects of one origin from those of another, for the choice of their node.
    place: String,
    policy: CachePolicy,
    /// Request fields that go to the origin, in lowercase letters.
    forwarded: Arc<[String]>,
    /// Cookies with tokens, which are neither part of a key nor for the origin.
    token_cookies: Vec<String>,
    /// Whether Origin is the only one.
    forwards_origin_only: bool,
    /// Changes to the fields of requests to its servers.
    pub(crate) request_rules: FieldRules,
    live: Arc<LiveDirectories>,
    /// Maximum length in bytes of a body whose length the origin does not announce.
    pub(crate) max_unannounced: u64,
    /// Segments that are fetched ahead.
    pub(crate) prefetch: usize,
    /// Whether names with numbers say what comes next, where no playlist does.
    pub(crate) prefetches_numbers: bool,
    /// Connections to a server that may fetch ahead.
    pub(crate) prefetch_connections: usize,
    pub(crate) next: Arc<Successors>,
    /// The nodes that share its objects.
    pub(crate) sharing: Option<Sharing>,
    /// How requests choose a server; `None` takes each in turn.
    pub(crate) spread: Option<Spread>,
    /// Whether servers are asked by the host that the client asked.
    keeps_host: bool,
    /// What requests for its servers have in CDN-Loop.
    pub(crate) loop_member: LoopMember,
    /// Protocols to which connections may switch.
    pub(crate) upgrades: Option<SiteUpgrades>,
}

/// The nodes of the cluster that share the objects of a site.
#[derive(Debug)]
pub(crate) struct Sharing {
    pub(crate) peers: Arc<Peers>,
    /// A digest of what the keys of its objects are made of. Nodes with another one have other objects.
    pub(crate) identity: String,
    /// Names of the nodes through which misses go to the origin.
    pub(crate) shield: Vec<String>,
}

impl Sharing {
    fn new(
        site: &str,
        origin: &penstock_config::HttpOrigin,
        cache: &CachePolicy,
        peers: &Arc<Peers>,
    ) -> Self {
        let mut rules = format!("{:?} {:?}", cache.vary, cache.query);
        if !cache.cookies.is_empty() {
            rules = format!("{rules} {:?}", cache.cookies);
        }
        let digest = sha256(&[b"penstock site", site.as_bytes(), rules.as_bytes()]);
        let identity = hexadecimal(&digest[..16]);
        Self { peers: Arc::clone(peers), identity, shield: origin.shield.clone() }
    }
}

impl HttpSite {
    /// Opens a site whose tokens come in these cookies. It shares its origin with the one of `known` that has the same
    /// settings, and with it health and limits of the servers. What its playlists tell it shares with the other routes of its
    /// site that have the same objects: `of_site` is its first host with these.
    pub fn new<'k>(
        origin: &penstock_config::HttpOrigin,
        cache: &CachePolicy,
        token_cookies: &[String],
        mut known: impl Iterator<Item = &'k Arc<HttpOrigin>>,
        peers: Option<&Arc<Peers>>,
        request_rules: &FieldRules,
        of_site: (&str, &[Arc<Self>]),
    ) -> Arc<Self> {
        let (host, siblings) = of_site;
        let settings = settings(origin);
        let first = origin.targets.first();
        let mut name = first.map(|server| name_of(&server.url)).unwrap_or_default();
        if origin.targets.iter().all(|server| server.url.is_secure()) {
            // Bytes that may have come in the clear are not for a site that asks for TLS.
            name = format!("https://{name}");
        }
        if let Some(host) = &origin.host {
            name = format!("{host} {name}");
        }
        if let Some(s3) = &origin.s3 {
            name = format!("s3 {} {} {}", s3.endpoint, s3.bucket, s3.prefix);
        }
        if origin.follow_redirects > 0 {
            // What a redirect leads to is another object than the redirect.
            name = format!("{name} redirects to {}", origin.redirect_hosts.join(" "));
        }
        if !request_rules.is_empty() {
            // What an origin is told can change its response. Of secrets the name counts: a new value is for the same bytes.
            let digest = sha256(&[request_rules.written().as_bytes()]);
            name = format!("{name} fields {}", hexadecimal(&digest[..16]));
        }
        let of_sibling = siblings.iter().map(|sibling| &sibling.origin).find(|known| known.is_of(&settings));
        let same = of_sibling.or_else(|| known.find(|known| known.is_of(&settings))).cloned();
        let peers = peers.filter(|_| origin.peers);
        let sharing = peers.map(|peers| Sharing::new(&name, origin, cache, peers));
        let loop_member = match &sharing {
            Some(sharing) => LoopMember::of_node(sharing.peers.own_name()),
            None => LoopMember::of_site(&name),
        };
        let place = name.clone();
        if !cache.vary.is_empty() {
            // Asked with other fields, an origin selects other variants.
            name = format!("{name} {}", cache.vary.join(","));
        }
        if !cache.cookies.is_empty() {
            name = format!("{name} of {}", cache.cookies.join(","));
        }
        let sibling = siblings.iter().find(|sibling| sibling.name == name);
        let http_origin = same.unwrap_or_else(|| HttpOrigin::new(settings));
        Arc::new(Self {
            request_rules: request_rules.clone(),
            live: sibling.map(|sibling| Arc::clone(&sibling.live)).unwrap_or_default(),
            next: sibling.map(|sibling| Arc::clone(&sibling.next)).unwrap_or_default(),
            loop_member,
            sharing,
            spread: origin.spread.map(|by| Spread::new(by, &origin.targets)),
            keeps_host: origin.uncached.is_some() && origin.host.is_none(),
            counters: http_origin.counters_of(host),
            origin: http_origin,
            name,
            place,
            token_cookies: token_cookies.to_vec(),
            forwards_origin_only: cache.vary == ["origin"],
            forwarded: cache.vary.clone().into(),
            max_unannounced: origin.max_unannounced,
            upgrades: origin.upgrades.as_ref().map(SiteUpgrades::new),
            prefetch: cache.prefetch,
            prefetches_numbers: cache.prefetch_numbers,
            prefetch_connections: origin.connections / limits::PREFETCH_CONNECTIONS_SHARE,
            policy: cache.clone(),
        })
    }

    /// Whether a request goes past the cache.
    pub(crate) fn bypasses(&self, request: &Request<'_>) -> bool {
        let Bypass { fields, cookies, query } = &self.policy.bypass;
        let has_field = |name: &String| request.values(name).next().is_some();
        let has_cookie = |name: &String| cookies_of(request, name).next().is_some();
        let has_parameter = |parameter: &str| {
            let name = parameter.split('=').next().unwrap_or_default();
            query.iter().any(|known| known == name)
        };
        self.upgrade_of(request).is_some()
            || fields.iter().any(has_field)
            || cookies.iter().any(has_cookie)
            || (!query.is_empty() && request.query().is_some_and(|text| text.split('&').any(has_parameter)))
    }

    /// The protocol to which the client asks to switch, if the site passes that on.
    pub(crate) fn upgrade_of(&self, request: &Request<'_>) -> Option<&Arc<str>> {
        self.upgrades.as_ref()?.asked_by(request)
    }

    /// How long behind its freshness an object stands in for servers that are down.
    pub(crate) fn grace(&self) -> Duration {
        self.policy.grace
    }

    /// Whether a request waits for a response that another one has asked for.
    pub(crate) fn coalesces(&self) -> bool {
        self.policy.coalescing
    }

    /// The site's servers.
    pub fn origin(&self) -> &Arc<HttpOrigin> {
        &self.origin
    }

    /// The server that a cached target is fetched from, if the site says how to choose it.
    pub(crate) fn server_of(&self, target: &str) -> Option<ServerId> {
        let index = self.spread.as_ref()?.server_of(target)?;
        Some(self.origin.server_id(index))
    }

    /// The host to ask a server by in place of its own, for a client's request: a site without cache stands in front of
    /// servers with several hosts.
    pub(crate) fn host_for(&self, request: &Request<'_>) -> Option<String> {
        self.keeps_host.then(|| request.authority().to_owned())
    }

    /// The fields of a request that go to the origin, by which its response may vary.
    pub(crate) fn forwarded_fields(&self, request: &Request<'_>) -> RequestFields {
        if self.forwards_origin_only && request.origin().is_none() {
            return RequestFields::default();
        }
        variants::fields(request, &self.forwarded, (&self.token_cookies, &self.policy.cookies))
    }

    /// The request to the cache for a client's request.
    pub(crate) fn request<'r>(
        &self,
        known: &KnownKeys,
        request: &'r Request<'_>,
        early: bool,
        stamp: u64,
    ) -> CacheRequest<'r> {
        let target = self.target(request.raw_path(), request.query());
        let fields = self.forwarded_fields(request);
        let key = match variants::has_personal(&fields) {
            false => known.get(&self.name, &target),
            true => variants::key_of(&self.name, &target, &fields, &[]),
        };
        let forwarded = Arc::clone(&self.forwarded);
        CacheRequest { fields, forwarded, ..CacheRequest::new(key, target, early, stamp) }
    }

    /// The same for a normalised target that no client's request names: one of a manifest, or one derived from another.
    pub(crate) fn request_for<'t>(&self, target: Cow<'t, str>, early: bool, stamp: u64) -> CacheRequest<'t> {
        let key = variants::key_of(&self.name, &target, &[], &[]);
        CacheRequest::new(key, target, early, stamp)
    }

    /// The same for the client of another request: with its fields that go to the origin, and its stamp.
    pub(crate) fn request_like<'t>(
        &self,
        other: &CacheRequest<'_>,
        target: Cow<'t, str>,
    ) -> CacheRequest<'t> {
        let (fields, forwarded) = (Arc::clone(&other.fields), Arc::clone(&other.forwarded));
        let key = variants::key_of(&self.name, &target, &fields, &[]);
        CacheRequest { fields, forwarded, ..CacheRequest::new(key, target, other.early, other.stamp) }
    }

    /// Path and query, as far as the query distinguishes objects.
    pub(crate) fn target<'t>(&self, path: &'t str, query: Option<&str>) -> Cow<'t, str> {
        // The query of a request to a bucket does not reach the store.
        let query = query.filter(|_| !self.origin.ignores_query());
        match self.policy.query.apply(path, query) {
            Some(query) => Cow::Owned(format!("{path}?{query}")),
            None => Cow::Borrowed(path),
        }
    }

    /// Where the nodes of the cluster look for a byte of an object. All versions of a playlist that delivery directives name
    /// belong to one node.
    pub(crate) fn route(&self, target: &str, byte: u64) -> Route {
        let (path, query) = split_target(target);
        let rest = query.filter(|query| query.contains("_HLS_")).and_then(|query| Delivery::take(query).ok());
        let key = match rest {
            Some((_, rest)) if rest.is_empty() => variants::key_of(&self.place, path, &[], &[]),
            Some((_, rest)) => variants::key_of(&self.place, &format!("{path}?{rest}"), &[], &[]),
            None => variants::key_of(&self.place, target, &[], &[]),
        };
        Route::new(key, byte)
    }

    /// The end of the bytes from `start` on that have the same owner.
    pub(crate) fn end_of_block(&self, start: u64) -> u64 {
        match self.sharing {
            Some(_) => (block_of(start) + 1).saturating_mul(BLOCK_BYTES),
            None => u64::MAX,
        }
    }

    /// Waits until this node asks the owner of a block for it, for a requester that must not wait then: the two could wait
    /// for each other. Never ends for clients.
    pub(crate) async fn until_asking(&self, requester: Requester, target: &str, byte: u64) {
        let (Some(sharing), Requester::Peer(_)) = (&self.sharing, requester) else {
            return std::future::pending().await;
        };
        let route = self.route(target, byte);
        while !sharing.peers.is_asking(route) {
            sleep(Duration::from_millis(limits::PEER_CYCLE_CHECK_MILLISECONDS)).await;
        }
    }

    /// Whether a target lies where a live stream grows.
    pub(crate) fn is_live(&self, target: &str, now: Instant) -> bool {
        self.live.has(target, now)
    }

    /// How long a response is fresh, by what it is. A live manifest is fresh for as long as it says itself, or as its
    /// origin says if that is shorter: an origin's rule for all files may be an hour.
    pub(crate) fn bounds(&self, status: u16, target: &str, kind: &BodyKind, now: Instant) -> FreshnessBounds {
        let policy = &self.policy;
        let mut default = DefaultLifetimes {
            found: policy.default_ttl,
            missing: policy.missing_ttl,
            of_status: policy.ttl.of(status),
            ignore_origin: policy.ignore_origin,
            stale_while_revalidate: policy.stale_while_revalidate,
            stale_if_error: policy.stale_if_error,
        };
        let most = match kind {
            BodyKind::Manifest(manifest) => {
                if manifest.is_live() {
                    self.live.note(target, manifest, now);
                    default.stale_if_error = Duration::from_secs(limits::LIVE_STALE_IF_ERROR_SECONDS);
                }
                manifest.fresh()
            }
            BodyKind::UnreadableManifest => Some(Duration::from_millis(limits::UNREAD_MANIFEST_MILLISECONDS)),
            BodyKind::Other if matches!(status, 404 | 410) && self.live.has(target, now) => {
                Some(Duration::from_millis(limits::LIVE_MISSING_MILLISECONDS))
            }
            BodyKind::Other => None,
        };
        if let Some(most) = most {
            default.found = most;
            default.missing = default.missing.min(most);
            default.of_status = default.of_status.map(|time| time.min(most));
        }
        FreshnessBounds { default, most }
    }

    /// Learns from a playlist at `target` which segment follows which. Of a live one only the end is read: its start is
    /// known already.
    pub(crate) fn learn(&self, target: &str, manifest: &Manifest) {
        let Some(playlist) = manifest.media().filter(|_| self.prefetch > 0) else { return };
        let most =
            if playlist.ended { limits::SUCCESSORS_OF_A_PLAYLIST } else { limits::SUCCESSORS_WHILE_LIVE };
        let segments = &playlist.segments;
        let start = if playlist.ended { 0 } else { segments.len().saturating_sub(most) };
        let targets = segments[start..].iter().take(most).filter_map(|uri| resolve(target, uri));
        let asked: Vec<_> = targets
            .map(|target| {
                let (path, query) = split_target(&target);
                self.request_for(self.target(path, query), false, 0).into_owned()
            })
            .collect();
        self.next.put(asked.windows(2).map(|two| (two[0].key, (*two[1].target).into())));
    }
}

/// What distinguishes a server's objects from those of another.
fn name_of(url: &OriginUrl) -> String {
    match url.socket() {
        Some(_) => url.to_string(),
        None => format!("{}{}", url.authority(), url.base()),
    }
}

fn server_settings(server: &OriginServer) -> ServerSettings {
    let OriginServer { url, weight, is_backup } = server.clone();
    ServerSettings { url, weight, is_backup }
}

fn settings(raw: &penstock_config::HttpOrigin) -> OriginSettings {
    let timeouts = raw.timeouts;
    OriginSettings {
        servers: raw.targets.iter().map(server_settings).collect(),
        balance: match raw.balance {
            Balance::RoundRobin => BalanceBy::Turns,
            Balance::LeastConnections => BalanceBy::LeastRequests,
        },
        hidden_fields: raw.hide.iter().filter_map(|name| HeaderName::try_from(name).ok()).collect(),
        host: raw.host.clone(),
        authorities: raw.authorities.clone(),
        identity: raw.identity.clone(),
        s3: raw.s3.as_ref().map(|s3| S3Bucket {
            endpoint: s3.endpoint.clone(),
            bucket: s3.bucket.clone(),
            region: s3.region.clone(),
            path_style: s3.path_style,
            prefix: s3.prefix.clone(),
            access_key: s3.access_key.clone(),
            secret_key: Arc::clone(&s3.secret_key),
        }),
        resolvers: raw.resolvers.as_slice().into(),
        redirect_hosts: raw.redirect_hosts.clone(),
        proxy_protocol: raw.uncached.is_some_and(|uncached| uncached.proxy_protocol),
        health_check: raw.health.check.as_ref().map(|path| HealthCheck {
            path: path.clone(),
            interval: raw.health.interval,
            note: None,
        }),
        limits: OriginLimits {
            connect: timeouts.connect,
            first_byte: timeouts.first_byte,
            between_bytes: timeouts.between_bytes,
            minimum_rate: MinimumRate {
                bytes_per_second: limits::ORIGIN_RATE_BYTES,
                window: Duration::from_secs(limits::ORIGIN_RATE_WINDOW_SECONDS),
            },
            head_bytes: limits::ORIGIN_HEAD_BYTES,
            read_bytes: limits::ORIGIN_READ_BYTES,
            head_fields: limits::ORIGIN_HEAD_FIELDS,
            idle_connections: limits::ORIGIN_IDLE_CONNECTIONS,
            connection_age: raw.connection_age,
            connections: raw.connections,
            waiting: limits::ORIGIN_WAITING,
            lookups: limits::ORIGIN_LOOKUPS,
            retries: raw.retries,
            redirects: raw.follow_redirects,
            sessions: limits::ORIGIN_TLS_SESSIONS,
            health: HealthLimits {
                unhealthy_after: raw.health.unhealthy_after,
                healthy_after: raw.health.healthy_after,
                backoff: Duration::from_millis(limits::ORIGIN_BACKOFF_MILLISECONDS),
                backoff_max: Duration::from_secs(limits::ORIGIN_BACKOFF_SECONDS_MAX),
                checked: raw.health.check.is_some(),
            },
        },
    }
}
