//! What was written in the configuration, and what it means.
//!
//! [`Config::load`] reads a file once and gives either a [`Config`] that cannot be wrong or every [`Fault`] in it.
//! [`limits`] holds every limit of the program.
//!
//! This crate has never opened a socket: whether a port is free turns out when the server starts.
#![forbid(unsafe_code)]

pub mod certificate_files;
mod fault;
mod interpret;
pub mod limits;
mod load;
mod meaning;
pub mod passing;
mod raw;
mod reference;
mod section;
pub mod signing;
mod syntax;
mod units;

pub use fault::Fault;
#[doc(hidden)]
pub use load::fuzz_config;
pub use meaning::{
    Admin, Cache, CertificateDirectory, Config, ConfiguredCertificate, DiskTier, EarlyData, EarlyRequests,
    Headers, Health, HostPattern, Hsts, HttpOrigin, KernelTls, Limits, Listener, Log, MemoryTier, Ocsp,
    Origin, OriginTimeouts, S3, SessionCache, Site, SiteCache, Tickets, Tls,
};
pub use passing::Forwarded;
pub use reference::reference;
pub use signing::{SignedUrls, SigningKey};
pub use units::time;
