//! Sites whose bytes come from HTTP origins: found in the cache, or filled into it and followed.
//!
//! A reader is given an object and follows its slices; where a slice is missing, the reader starts a fill that belongs to
//! nobody's connection and follows that. Only what is for one client alone goes another way: [`flow`].

mod answer;
mod audience;
mod blocking;
pub mod contents;
mod description;
mod fill;
mod find;
mod flow;
mod follow;
mod live;
mod manifest;
mod outcome;
mod pass;
mod pour;
mod prefetch;
mod purge;
mod recall;
mod tiers;
mod unsteady;
mod variants;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use penstock_cache::purge::Purges;
use penstock_cache::{Index, Key, MemoryTier};
use penstock_config::{Cache, SiteCache, limits};
use penstock_http::Request;
use penstock_http::caching::DefaultLifetimes;
use penstock_http::query::QueryRules;
use penstock_origin::http::{Checks, HealthLimits, HttpOrigin, OriginLimits, OriginSettings, S3Bucket};

use crate::server::StartError;
pub(crate) use answer::respond_from_cache;
pub(crate) use description::Description;
pub use description::WrittenObject;
#[doc(hidden)]
pub use description::{fuzz_description, fuzz_origin_response};
pub(crate) use follow::{Following, Stretch};
use live::LiveDirectories;
pub(crate) use outcome::Outcome;
pub(crate) use pass::{Passing, respond_passed};
use prefetch::Successors;
pub use purge::{PurgeFailure, PurgeOrder, PurgeWhat, Purged};
use unsteady::Unsteady;
use variants::{Fields, Variants};

use crate::metrics::Prefetches;

/// What was fetched, for all workers and all sites; a clone is the same store.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) index: Arc<Index<Description>>,
    pub(crate) tier: Arc<MemoryTier>,
    pub(crate) purges: Arc<Purges>,
    variants: Arc<Variants>,
    unsteady: Arc<Unsteady>,
    pub(crate) prefetches: Arc<Prefetches>,
    written: Cache,
}

impl Store {
    /// Opens the tiers; blocks for a moment.
    ///
    /// # Errors
    /// [`StartError::Cache`] or [`StartError::Disk`].
    pub(crate) fn open(written: &Cache) -> Result<Self, StartError> {
        let (tier, restored) = tiers::open(written)?;
        // On disks too: what lies there outlives a reboot.
        let mut directories = vec![written.memory.directory.clone()];
        let disks = tier.disks().map(|disks| disks.counters()).unwrap_or_default();
        directories.extend(disks.into_iter().filter(|disk| disk.in_service).map(|disk| disk.directory));
        let directories: Vec<&Path> = directories.iter().map(PathBuf::as_path).collect();
        let purges = purge::open(&directories).map_err(StartError::Cache)?;
        Ok(Self {
            index: Index::new(limits::OBJECTS, restored),
            tier,
            purges,
            variants: Arc::new(Variants::new()),
            unsteady: Arc::default(),
            prefetches: Arc::default(),
            written: written.clone(),
        })
    }

    /// The process is about to end: what is kept stays where it is, for the next one.
    pub(crate) fn leave(&self) {
        self.tier.leave();
    }

    /// Whether it was opened as this configuration asks.
    pub(crate) fn is_as_written(&self, written: &Cache) -> bool {
        self.written == *written
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("tier", &self.tier).finish_non_exhaustive()
    }
}

/// A site with an HTTP origin.
#[derive(Debug)]
pub(crate) struct HttpSite {
    origin: Arc<HttpOrigin>,
    /// Tells the objects of one origin from those of another.
    name: String,
    lifetimes: DefaultLifetimes,
    /// Fields of requests that go to the origin, in lower case.
    passes: Arc<[String]>,
    /// What of the query tells objects apart.
    query: QueryRules,
    live: LiveDirectories,
    /// Bytes of a body whose length its origin does not announce.
    max_unannounced: u64,
    /// Segments that are fetched ahead.
    prefetch: usize,
    next: Successors,
}

impl HttpSite {
    /// A site with an origin; one of `known` if that is the same, with what is known of its servers.
    pub(crate) fn new<'k>(
        origin: &penstock_config::HttpOrigin,
        cache: &SiteCache,
        mut known: impl Iterator<Item = &'k Arc<HttpOrigin>>,
    ) -> Arc<Self> {
        let settings = settings(origin);
        let first = origin.targets.first();
        let mut name = first.map(|(url, _)| format!("{}{}", url.authority(), url.base())).unwrap_or_default();
        if let Some(host) = &origin.host {
            name = format!("{host} {name}");
        }
        if let Some(s3) = &origin.s3 {
            name = format!("s3 {} {} {}", s3.endpoint, s3.bucket, s3.prefix);
        }
        let same = known.find(|known| known.is_of(&settings)).cloned();
        Arc::new(Self {
            origin: same.unwrap_or_else(|| HttpOrigin::new(settings)),
            name,
            query: cache.query.clone(),
            passes: cache.vary.clone().into(),
            lifetimes: DefaultLifetimes {
                found: cache.default_ttl,
                missing: cache.missing_ttl,
                stale_if_error: Duration::ZERO,
            },
            live: LiveDirectories::default(),
            max_unannounced: origin.max_unannounced,
            prefetch: cache.prefetch,
            next: Successors::default(),
        })
    }

    /// Its servers.
    pub(crate) fn origin(&self) -> &Arc<HttpOrigin> {
        &self.origin
    }

    /// What the origin is asked for, and the key of the answer.
    fn asked(&self, request: &Request<'_>, early: bool, moment: u64) -> Asked {
        let asked = self.asked_for(self.target(request.raw_path(), request.query()), early, moment);
        if self.passes.is_empty() {
            return asked;
        }
        let fields = variants::fields(request, &self.passes);
        let key = variants::key_of(&self.name, &asked.target, &fields, &[]);
        Asked { key, primary: key, fields, passes: Arc::clone(&self.passes), ..asked }
    }

    /// The same for a reference that stands in a manifest and has become a target.
    fn asked_in_manifest(&self, target: &str, moment: u64) -> Asked {
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        self.asked_for(self.target(path, query), false, moment)
    }

    /// The same for a target that stands in a manifest, or was made of one that was asked for.
    fn asked_for(&self, target: String, early: bool, moment: u64) -> Asked {
        let fields = Fields::default();
        let key = variants::key_of(&self.name, &target, &fields, &[]);
        let path = target.split('?').next().unwrap_or_default();
        let is_manifest = path.ends_with(".m3u8") || path.ends_with(".mpd");
        let passes = Arc::default();
        Asked { key, primary: key, fields, passes, is_manifest, target, early, moment }
    }

    /// Path and query as far as it counts.
    fn target(&self, path: &str, query: Option<&str>) -> String {
        match self.query.apply(query) {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        }
    }
}

fn settings(written: &penstock_config::HttpOrigin) -> OriginSettings {
    let timeouts = written.timeouts;
    OriginSettings {
        targets: written.targets.clone(),
        host: written.host.clone(),
        authorities: written.authorities.clone(),
        s3: written.s3.as_ref().map(|s3| S3Bucket {
            endpoint: s3.endpoint.clone(),
            bucket: s3.bucket.clone(),
            region: s3.region.clone(),
            path_style: s3.path_style,
            prefix: s3.prefix.clone(),
            access_key: s3.access_key.clone(),
            secret_key: Arc::clone(&s3.secret_key),
        }),
        checks: written
            .health
            .check
            .as_ref()
            .map(|path| Checks { path: path.clone(), interval: written.health.interval }),
        limits: OriginLimits {
            connect: timeouts.connect,
            first_byte: timeouts.first_byte,
            between_bytes: timeouts.between_bytes,
            head_bytes: limits::ORIGIN_HEAD_BYTES,
            read_bytes: limits::ORIGIN_READ_BYTES,
            head_fields: limits::ORIGIN_HEAD_FIELDS,
            idle_connections: limits::ORIGIN_IDLE_CONNECTIONS,
            connections: written.connections,
            waiting: limits::ORIGIN_WAITING,
            retries: written.retries,
            redirects: written.follow_redirects,
            sessions: limits::ORIGIN_TLS_SESSIONS,
            health: HealthLimits {
                unhealthy_after: written.health.unhealthy_after,
                healthy_after: written.health.healthy_after,
                backoff: Duration::from_millis(limits::ORIGIN_BACKOFF_MILLISECONDS),
                backoff_max: Duration::from_secs(limits::ORIGIN_BACKOFF_SECONDS_MAX),
                checked: written.health.check.is_some(),
            },
        },
    }
}

/// What is asked of an origin.
#[derive(Clone, Debug)]
struct Asked {
    key: Key,
    /// The same as long as nobody knows what its answers differ by.
    primary: Key,
    /// Fields of the request that go to the origin.
    fields: Fields,
    /// Which could go there.
    passes: Arc<[String]>,
    /// Path and query.
    target: String,
    /// When it was asked for, as purges count time.
    moment: u64,
    /// Whether the client that asked first may have been a replay.
    early: bool,
    /// Manifests are small and change: they are asked for whole.
    is_manifest: bool,
}
