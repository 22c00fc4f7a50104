//! What responses over TCP say of HTTP/3 (RFC 7838).

use std::sync::Arc;

use penstock_config::limits;
use penstock_http::Fields;

/// The value of Alt-Svc for a listener on this port that speaks HTTP/3.
pub(crate) fn alternative(port: u16) -> Arc<str> {
    format!("h3=\":{port}\"; ma={}", limits::ALT_SVC_SECONDS).into()
}

/// Adds Alt-Svc, unless the origin has sent one.
pub(crate) fn name_alternative(fields: &mut Fields, alternative: Option<&str>) {
    if let Some(value) = alternative
        && !fields.has("Alt-Svc")
    {
        fields.field("Alt-Svc", value);
    }
}
