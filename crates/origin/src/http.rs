//! HTTP origins: other servers as a source of bytes (RFC 9110, RFC 9112).
//!
//! An [`HttpOrigin`] is shared by all workers. [`Connections`] belong to one worker; they fetch responses, pass requests
//! with a body on, and relay responses whose body may stay in its socket:
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use penstock_origin::http::{Connections, Fetch, HttpOrigin, OriginError};
//! # async fn first_segment(connections: &Connections, origin: &Arc<HttpOrigin>) -> Result<Vec<u8>, OriginError> {
//! let mut response = connections.fetch(origin, &Fetch::get("/live/1.m4s")).await?;
//! let mut body = Vec::new();
//! while let Some(piece) = response.next().await? {
//!     body.extend_from_slice(&piece);
//! }
//! # Ok(body)
//! # }
//! ```

mod balance;
mod body;
mod connections;
mod dial;
mod error;
mod exchange;
mod fetch;
mod framing;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod health_checks;
mod interim;
mod lookup;
mod origin;
mod pool;
mod rate;
mod redirect;
mod relay;
mod response;
mod s3;
mod server;
mod settings;
mod stream;
mod trace;
mod validators;

pub use balance::{ServerOrder, TriedServers};
pub use body::{BodySender, RequestBody, RequestEnded, request_body};
pub use connections::Connections;
pub use error::{OriginError, OriginFault};
pub use fetch::{Fetch, Method};
pub use framing::Framing;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use fuzz::fuzz_response;
pub use interim::{InterimHead, InterimHeads};
pub use origin::{HttpOrigin, ServerStatus};
pub use relay::{Moved, Outgoing, RelayedResponse, Upgraded};
pub use response::OriginResponse;
pub use server::{ServerId, SiteCounters};
pub use settings::{
    BalanceBy, HealthCheck, HealthLimits, MinimumRate, OriginLimits, OriginSettings, S3Bucket, ServerSettings,
};
pub use trace::{Upstream, UpstreamTrace};
