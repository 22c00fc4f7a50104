//! Cross-origin resource sharing: which pages of other origins may read the responses of a site (Fetch §3.2).

use penstock_config::CorsOrigins;
use penstock_http::{Fields, Method, Request};

/// What a site says to pages of other origins.
#[derive(Debug)]
pub(crate) struct Cors {
    origins: CorsOrigins,
    credentials: bool,
    /// Access-Control-Allow-Headers.
    allow: String,
    /// Access-Control-Expose-Headers.
    expose: String,
    /// Access-Control-Max-Age.
    max_age: String,
}

/// Request fields that every site allows: those of parts and conditions, and what players tell about themselves (CTA-5004).
const ALLOWED: &str = "Range, If-Range, If-None-Match, If-Modified-Since, CMCD-Object, CMCD-Request, CMCD-Session, \
                       CMCD-Status";
/// Response fields that every site exposes.
const EXPOSED: &str = "Content-Length, Content-Range, Date, ETag, Age, Cache-Status, CMSD-Static, \
                       CMSD-Dynamic";

impl Cors {
    pub(crate) fn new(raw: &penstock_config::Cors) -> Self {
        let list = |known: &str, more: &[String]| {
            [known].into_iter().chain(more.iter().map(String::as_str)).collect::<Vec<_>>().join(", ")
        };
        Self {
            origins: raw.origins.clone(),
            credentials: raw.credentials,
            allow: list(ALLOWED, &raw.allow),
            expose: list(EXPOSED, &raw.expose),
            max_age: raw.max_age.as_secs().to_string(),
        }
    }

    /// Appends the fields of a response. `methods` are those of the site.
    pub(crate) fn write(&self, request: &Request<'_>, methods: &str, fields: &mut Fields) {
        let allowed = match &self.origins {
            CorsOrigins::Same(origin) => origin,
            CorsOrigins::Listed(listed) => {
                // Caches in front have to keep the responses apart, also for origins that are not in the list.
                fields.field("Vary", "Origin");
                match listed.iter().find(|known| request.origin() == Some(known.as_str())) {
                    Some(origin) => origin,
                    None => return,
                }
            }
        };
        fields.field("Access-Control-Allow-Origin", allowed);
        if self.credentials {
            fields.field("Access-Control-Allow-Credentials", "true");
        }
        if request.method() == Method::Options {
            fields
                .field("Access-Control-Allow-Methods", methods)
                .field("Access-Control-Allow-Headers", &self.allow)
                .field("Access-Control-Max-Age", &self.max_age);
        }
        fields.field("Access-Control-Expose-Headers", &self.expose);
    }
}
