//! HTTP origins: other servers as a source of bytes (RFC 9110, RFC 9112).
//!
//! An [`HttpOrigin`] is what was configured and what is known of its servers; all workers share it. [`Connections`]
//! are those that one worker keeps open. [`Connections::fetch`] asks for something, [`Connections::pass`] passes a
//! request with a body on.

mod answer;
mod balance;
mod body;
mod checks;
mod connections;
mod dial;
mod error;
mod fetch;
mod fuzz;
mod redirect;
mod s3;
mod target;

pub use answer::Answer;
pub use balance::{HealthLimits, Tried};
pub use body::{BodySender, NobodyTakes, RequestBody, request_body};
pub use checks::Checks;
pub use connections::Connections;
pub use error::OriginError;
pub use fetch::{Fetch, Method};
#[doc(hidden)]
pub use fuzz::fuzz_answer;
pub use s3::S3Bucket;
pub use target::{HttpOrigin, OriginLimits, OriginSettings, TargetSeen};

/// Whether a target says with it that it cannot answer now, and another might.
fn is_gateway_error(status: u16) -> bool {
    matches!(status, 502..=504)
}
