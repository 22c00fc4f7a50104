//! The meaning of a configuration: plain structs whose values are valid.
//!
//! Users of a [`Config`] need not check again: addresses are addresses, keys belong to their certificates,
//! directories existed when the file was read, and every limit lies in its range.

mod access;
mod access_log;
mod acme;
mod admin;
mod cache;
mod client_table;
mod cluster;
mod field_rules;
mod fleet;
mod keys;
mod keyserver;
mod limits;
mod origin;
mod players;
mod qlog;
mod route;
mod site;
mod titles;
mod tls;
mod tokens;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use penstock_sys::socket::ListenOptions;
use penstock_tls::HttpVersions;

pub use self::access::{
    Access, AddressList, BasicAccess, Bounds, CertificateName, ClientKind, CountryRules, JwtAccess, Pace,
    PaceRate, Referers, RequestRate, SiteLimits,
};
pub use self::access_log::{AccessLog, LogFormat, LogSample};
pub use self::acme::{Acme, AcmeChallenge, AcmeKey, ExternalAccount};
pub(crate) use self::admin::UNIX;
pub use self::admin::{Admin, AdminAddress};
pub use self::cache::{Cache, DiskTier, MemoryTier};
pub use self::client_table::{ClientTable, CountedMetrics};
pub use self::cluster::{Cluster, ClusterNode, ClusterSource, ClusterTls};
pub use self::field_rules::{FieldRule, FieldRules};
pub use self::fleet::{Fleet, StorePlace, StoreUrl};
pub use self::keys::{KeyserverAccess, RemoteKeyPlace, TokenAccess};
pub use self::keyserver::{KeyserverClient, KeyserverConfig};
pub use self::limits::{HandshakeRateLimit, Limits};
pub use self::origin::{
    Balance, Health, HttpOrigin, Origin, OriginServer, OriginTimeouts, S3, SpreadBy, Uncached, Upgrades,
};
pub use self::players::{CmcdRules, Pathway, PlayerRules, Steering};
pub use self::qlog::Qlog;
pub use self::route::{
    Canonical, Condition, ConditionTest, ErrorPage, FixedResponse, HttpsPort, Redirect, Rewrite, RouteMatcher,
};
pub use self::site::{
    Bypass, CachePolicy, Cors, CorsOrigins, DotFiles, EarlyRequests, Headers, HostPattern, Hsts, Route, Site,
    SiteSettings, StatusTimes,
};
pub(crate) use self::titles::TITLE;
pub use self::titles::TitlePatterns;
pub use self::tls::{
    CertificateDirectory, ConfiguredCertificate, EarlyData, KernelTls, Ocsp, SessionCache, StrikePlace,
    Tickets, Tls,
};
pub use self::tokens::{
    AkamaiTokens, ClaimRules, ExpiredAnswer, JwtTokens, LinkExpression, LinkPart, PublicKey, SecureLink,
    TokenFormat, TokenRules,
};
use crate::fault::Fault;
use crate::places::ConfigPart;
use crate::section::Position;
use crate::users::User;

/// Everything the server needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Worker threads, one runtime each.
    pub workers: NonZeroUsize,
    /// Whether worker `i` is pinned to the `i`-th core this process may use.
    pub affinity: bool,
    /// The user that the server becomes after a start as root; `None` changes nothing.
    pub user: Option<User>,
    /// Where clients connect; at least one, no address twice.
    pub listeners: Vec<Listener>,
    /// The TLS policy of all HTTPS listeners.
    pub tls: Tls,
    /// Sites by host; at least one.
    pub sites: Vec<Site>,
    /// The cache of HTTP origins; used only if a site has one.
    pub cache: Cache,
    /// Other servers that share their caches with this one; `None` if there are none.
    pub cluster: Option<Cluster>,
    /// The fleet that this edge belongs to; `None` if it shares nothing.
    pub fleet: Option<Fleet>,
    /// The admin listener; `None` if there is none.
    pub admin: Option<Admin>,
    /// Logs other than the program's own on stderr.
    pub log: Log,
    /// What is counted, and how.
    pub metrics: CountedMetrics,
    /// Client limits.
    pub limits: Limits,
    /// Probable mistakes that do not keep the server from starting, such as an expired certificate.
    pub warnings: Vec<Fault>,
    /// The files and the positions in them.
    pub(crate) source: ConfigSource,
}

impl Config {
    /// Reads every certificate of every directory with its key, and returns the faults of those that cannot be used.
    ///
    /// The server reads a key only when a client needs it.
    #[must_use]
    pub fn verify_directories(&self) -> Vec<Fault> {
        let wrong = self.tls.certificate_directories.iter().flat_map(|directory| {
            directory.found.iter().filter_map(|found| {
                let error = found.files.load().err()?;
                let what = format!("directory: {}: {error}", found.files.chain.display());
                let instead = "it is left out until the fault is mended".to_owned();
                Some(Fault { instead, ..self.source.fault(directory.position, what) })
            })
        });
        wrong.collect()
    }

    /// The settings of all sites and of their routes.
    pub fn settings(&self) -> impl Iterator<Item = &SiteSettings> {
        self.sites
            .iter()
            .flat_map(|site| site.routes.iter().map(|route| &route.settings).chain([&site.settings]))
    }

    /// Whether a site has an origin whose responses are cached.
    #[must_use]
    pub fn uses_cache(&self) -> bool {
        self.settings().any(|one| matches!(&one.origin, Origin::Http(http) if http.uncached.is_none()))
    }

    /// Whether a site relays without the cache.
    #[must_use]
    pub fn relays(&self) -> bool {
        self.settings().any(|one| matches!(&one.origin, Origin::Http(http) if http.uncached.is_some()))
    }

    /// The files and directories that a reload reads again: the configuration itself, and those that it names.
    pub fn read_again(&self) -> impl Iterator<Item = &Path> {
        let own = [&self.cache.memory.directory].into_iter();
        let own: Vec<_> = own.chain(self.cache.disks.iter().map(|disk| &disk.directory)).collect();
        let state = self.fleet.as_ref().and_then(|fleet| fleet.state.as_ref());
        let named = self.source.paths.iter().filter(move |path| !own.contains(path) && Some(*path) != state);
        named.chain(&self.source.files).map(PathBuf::as_path)
    }

    /// A fault that was found when the server started. It has the line of `address`, or none without one.
    #[must_use]
    pub fn fault_at(&self, address: Option<SocketAddr>, what: String) -> Fault {
        match address {
            Some(address) => self.fault_of(ConfigPart::Address(address), what),
            None => self.source.fault(Position::NONE, what),
        }
    }

    /// A fault of a part of the configuration, at its line. Without a line if the part is not written.
    #[must_use]
    pub fn fault_of(&self, place: ConfigPart, what: String) -> Fault {
        let position = self.source.places.iter().find(|(known, _)| *known == place);
        let position = position.map_or(Position::NONE, |(_, position)| *position);
        self.source.fault(position, what)
    }

    /// The files that the configuration was read from; the one given with `-c` is the first.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.source.files
    }
}

/// The files of a configuration and positions in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigSource {
    /// The file given with `-c`, or the option of the command line; then the included files.
    pub(crate) files: Vec<PathBuf>,
    /// Parts that are checked after the configuration was read, such as addresses to listen on.
    pub(crate) places: Vec<(ConfigPart, Position)>,
    /// Files and directories that it names to be read.
    pub(crate) paths: Vec<PathBuf>,
}

impl ConfigSource {
    fn fault(&self, position: Position, what: String) -> Fault {
        let file = self.files.get(position.file).cloned().unwrap_or_default();
        Fault { file, line: position.line, column: position.column, what, instead: String::new() }
    }
}

/// One address that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// IP address and port; port 0 lets the system choose one.
    pub address: SocketAddr,
    /// Its name, for sites that answer on some listeners only.
    pub name: Option<String>,
    /// The port of HTTPS to which all its requests are redirected.
    pub redirect: Option<HttpsPort>,
    /// HTTPS if true, plain HTTP otherwise.
    pub tls: bool,
    /// Versions of HTTP; at least one.
    pub protocols: HttpVersions,
    /// Whether each connection starts with a PROXY protocol header (version 1 or 2).
    pub proxy_protocol: bool,
    /// The path on which the server answers health checks itself.
    pub health: Option<String>,
    /// Options of the socket.
    pub socket: ListenOptions,
}

/// Logs other than the program's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Whether its lines have the JA4 fingerprint of the client.
    pub ja4: bool,
    /// The access log; `None` is off.
    pub access: Option<AccessLog>,
    /// The log of QUIC connections; `None` is off.
    pub qlog: Option<Qlog>,
}
