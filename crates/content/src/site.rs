//! What the configuration of a site makes of a request: the key of an object, its variant, what its token is worth.

mod access;
mod bare_path;
mod cache_request;
mod cookies;
mod cors;
mod followed;
mod http_site;
mod jwt;
mod known_keys;
mod limits;
mod live;
mod maintenance;
mod numbered;
mod prefix_tree;
mod request_rules;
mod rewritten;
mod route_matchers;
mod sent_cmcd;
mod signatures;
mod spread;
mod steering;
mod successors;
mod token_fields;
mod token_refusal;
pub mod tokens;
mod upgrades;
mod variants;
mod verified_secrets;

pub use access::AccessRefusal;
#[cfg(any(test, feature = "fuzz"))]
pub use access::fuzz_access_fields;
pub(crate) use access::{Access, VerifiedPasswords};
pub(crate) use bare_path::{UnsignedTarget, split_path};
pub(crate) use cache_request::{CacheRequest, OwnWords, RequestFields, split_target};
pub(crate) use cookies::without_cookies;
pub(crate) use cors::Cors;
pub use http_site::HttpSite;
pub(crate) use http_site::Sharing;
#[cfg(feature = "fuzz")]
pub use jwt::fuzz_tokens;
pub use known_keys::KnownKeys;
pub(crate) use limits::{Bandwidth, Limits, Rates};
pub use limits::{LimitReached, Permit};
pub(crate) use live::{BodyKind, FreshnessBounds};
pub(crate) use maintenance::Maintenance;
pub(crate) use numbered::neighbours;
pub(crate) use request_rules::change_request;
pub(crate) use rewritten::{rewritten_path, rewritten_prefix};
#[cfg(feature = "fuzz")]
pub use route_matchers::fuzz_routes;
pub(crate) use route_matchers::{AmbiguousPath, RouteMatchers};
pub(crate) use sent_cmcd::{SentCmcd, without_cmcd};
pub(crate) use steering::Steering;
pub(crate) use token_fields::TokenFields;
pub use token_refusal::TokenRefusal;
pub(crate) use tokens::{Admitted, TokenVerifier, Visitor};
pub(crate) use variants::{Variants, has_personal, is_same_variant, key_of, selecting};
