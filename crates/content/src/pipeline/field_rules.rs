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
    let changed = rules.set.iter().chain(&rules.add).map(|rule| &rule.name);
    if rules.remove.iter().chain(changed).any(|name| name.eq_ignore_ascii_case("Server")) {
        fields.decide_server();
    }
    for FieldRule { name, value } in rules.set.iter().chain(&rules.add) {
        let text = value.filled(|variable, out| match variable {
            Variable::CacheStatus => out.push_str(cache_status.map_or("none", CacheStatus::label)),
            other => exchange.write_variable(other, out),
        });
        fields.parsed_field(name.as_bytes(), [text.as_bytes(), b""]);
    }
}
