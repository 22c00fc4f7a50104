//! The configuration: parsed, validated, and with every fault at its line. [`limits`] has every limit of the program.
//!
//! ```no_run
//! match penstock_config::Config::load(std::path::Path::new("/etc/penstock/penstock.yaml")) {
//!     Ok(config) => println!("{} sites, {} warnings", config.sites.len(), config.warnings.len()),
//!     Err(faults) => faults.iter().for_each(|fault| eprintln!("{fault}")), // FILE:LINE: fault; remedy
//! }
//! ```
//!
//! The crate reads the files that a configuration names and opens no socket.
#![forbid(unsafe_code)]

mod accounts;
pub mod certificate_files;
mod client_groups;
mod consistency;
mod countries;
mod fault;
pub mod forwarding;
mod interpret;
mod key_paths;
pub mod limits;
mod load;
mod model;
mod networks;
pub mod pattern;
mod places;
mod raw;
mod reference;
mod revoked;
mod section;
pub mod signing;
mod sources;
mod syntax;
pub mod template;
mod token_keys;
mod units;
mod users;
mod variables;

pub use accounts::Accounts;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use accounts::fuzz_accounts;
pub use client_groups::{Network, client_number};
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use countries::fuzz_countries;
pub use countries::{Countries, CountryCode};
pub use fault::Fault;
pub use forwarding::{Forwarded, RequestIds};
pub use interpret::exposes;
pub use key_paths::KeyPaths;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use load::fuzz_config;
pub use model::{
    Access, AccessLog, Acme, AcmeChallenge, AcmeKey, AddressList, Admin, AdminAddress, AkamaiTokens, Balance,
    BasicAccess, Bounds, Bypass, Cache, CachePolicy, Canonical, CertificateDirectory, CertificateName,
    ClaimRules, ClientKind, ClientTable, Cluster, ClusterNode, ClusterSource, ClusterTls, CmcdRules,
    Condition, ConditionTest, Config, ConfiguredCertificate, Cors, CorsOrigins, CountedMetrics, CountryRules,
    DiskTier, DotFiles, EarlyData, EarlyRequests, ErrorPage, ExpiredAnswer, ExternalAccount, FieldRule,
    FieldRules, FixedResponse, Fleet, HandshakeRateLimit, Headers, Health, HostPattern, Hsts, HttpOrigin,
    HttpsPort, JwtAccess, JwtTokens, KernelTls, KeyserverAccess, KeyserverClient, KeyserverConfig, Limits,
    LinkExpression, LinkPart, Listener, Log, LogFormat, LogSample, MemoryTier, Ocsp, Origin, OriginServer,
    OriginTimeouts, Pace, PaceRate, Pathway, PlayerRules, PublicKey, Qlog, Redirect, Referers,
    RemoteKeyPlace, RequestRate, Rewrite, Route, RouteMatcher, S3, SecureLink, SessionCache, Site,
    SiteLimits, SiteSettings, SpreadBy, StatusTimes, Steering, StorePlace, StoreUrl, StrikePlace, Tickets,
    TitlePatterns, Tls, TokenAccess, TokenFormat, TokenRules, Uncached, Upgrades,
};
pub use networks::NetworkSet;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use networks::fuzz_networks;
pub use places::ConfigPart;
pub use reference::{has_key, keyserver_reference, reference};
pub use revoked::RevokedTokens;
pub use signing::{SecretForm, SigningKey};
pub use sources::{read_file, read_files};
pub use token_keys::{TokenAlgorithm, TokenKey, TokenKeyKind, TokenKeys};
pub use units::time;
pub use users::User;
pub use variables::Environment;
