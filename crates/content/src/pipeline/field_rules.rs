//! Finish: fields of responses that the configuration sets, adds or removes.

use penstock_config::template::Variable;
use penstock_config::{FieldRule, FieldRules};
use penstock_http::Fields;

use crate::cache_status::CacheStatus;
use crate::response::Exchange;

/// Changes the fields of a response.
pub(super) fn change_response(
    rules: &FieldRules,
    exchange: &Exchange<'_>,
    cache_status: Option<CacheStatus>,
    fields: &mut Fields,
) {
    for name in rules.remove.iter().chain(rules.set.iter().map(|rule| &rule.name)) {
        fields.remove(|known| known.eq_ignore_ascii_case(name.as_bytes()));
    }
    for FieldRule { name, value } in rules.set.iter().chain(&rules.add) {
        let text = value.filled(|variable, out| match variable {
            Variable::CacheStatus => out.push_str(cache_status.map_or("none", CacheStatus::label)),
            Variable::Client => out.push_str(&exchange.client.address.ip().to_canonical().to_string()),
            Variable::Host => out.push_str(exchange.client.head.host()),
            // As the client sent it, without the rewrite of its route.
            Variable::Path => out.push_str(exchange.client.head.raw_path()),
            Variable::Capture(_) | Variable::Query | Variable::RequestId => {}
        });
        fields.parsed_field(name.as_bytes(), [text.as_bytes(), b""]);
    }
}
