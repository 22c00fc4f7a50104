//! Fields that an origin gets in requests beside those of the client.

use http::header::{HeaderName, HeaderValue};
use penstock_config::template::Variable;
use penstock_config::{FieldRule, FieldRules};
use penstock_origin::http::Fetch;

/// Changes the fields of a request to an origin. `value_of` appends what a variable stands for: nothing for origins whose responses
/// are cached. Values may be secret: they are marked as such, so that no other server gets them by a redirect.
pub(crate) fn change_request(
    rules: &FieldRules,
    fetch: &mut Fetch,
    mut value_of: impl FnMut(&Variable, &mut String),
) {
    for name in rules.remove.iter().chain(rules.set.iter().map(|rule| &rule.name)) {
        fetch.fields.remove(name.as_str());
    }
    for FieldRule { name, value } in rules.set.iter().chain(&rules.add) {
        let text = value.filled(&mut value_of);
        // The configuration has names and values of fields only.
        if let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name), HeaderValue::try_from(text)) {
            value.set_sensitive(true);
            fetch.fields.append(name, value);
        }
    }
}
