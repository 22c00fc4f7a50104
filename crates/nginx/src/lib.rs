//! Reads configurations of nginx, and translates them with remarks on what could not be translated.
//!
//! ```
//! let directives = penstock_nginx::parse("server { listen 80; root /srv/video; }", "nginx.conf", &|_| Ok(Vec::new()))?;
//! let translation = penstock_nginx::translate(directives, &|_key| true);
//! assert!(translation.yaml.contains("directory: /srv/video"));
//! # Ok::<(), penstock_nginx::SyntaxFault>(())
//! ```
//!
//! The crate opens no file: its caller finds those that a configuration includes, and knows which keys Penstock has.
#![forbid(unsafe_code)]

mod caching;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod guards;
mod http;
mod listen;
mod location;
mod names;
mod origin;
mod parse;
mod remarks;
mod rules;
mod scope;
mod server;
mod units;
mod yaml;

#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use fuzz::fuzz_nginx;
pub use http::{Translation, translate};
pub use parse::{Directive, Finder, SyntaxFault, parse};
pub use remarks::Remark;
