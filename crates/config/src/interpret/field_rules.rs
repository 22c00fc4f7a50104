//! Changes to fields of requests and responses.

use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::model::{FieldRule, FieldRules, Origin, SiteSettings};
use crate::raw;
use crate::section::{Pairs, Position, Text, position};
use crate::signing::read_key_file;
use crate::template::{Template, Variable};

/// Which messages are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Request,
    Response,
}

/// Fields of one connection, and of framing (RFC 9110 §7.6.1, RFC 9112 §6), with those that name them.
const OF_CONNECTION: [&str; 11] = [
    "connection",
    "content-length",
    "content-encoding",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields of requests by which a response is selected, or that this server writes.
const OF_REQUESTS: [&str; 12] = [
    "accept-encoding",
    "cdn-loop",
    "early-data",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
    "via",
];

/// Fields of responses that tell what the content is, or that the connection writes.
const OF_RESPONSES: [&str; 5] = ["age", "content-range", "content-type", "date", "strict-transport-security"];

/// Reads the rules of one direction.
pub(super) fn field_rules(
    section: &Spanned<raw::FieldRules>,
    direction: Direction,
    reader: &mut Reader<'_>,
) -> FieldRules {
    let raw = &section.value;
    let mut rules = FieldRules::default();
    for text in raw.remove.iter().flat_map(|list| &list.value) {
        if is_allowed(text, direction, reader) {
            rules.remove.push(text.value.clone());
        }
    }
    rules.set = pairs(raw.set.as_ref(), direction, reader);
    rules.add = pairs(raw.add.as_ref(), direction, reader);
    let twice = raw
        .remove
        .iter()
        .flat_map(|list| &list.value)
        .find(|text| rules.set.iter().any(|rule| rule.name.eq_ignore_ascii_case(&text.value)));
    if let Some(text) = twice {
        let what = format!("remove: `{}` is set as well, which removes it first", text.value);
        reader.fault(position(text), what, "keep one of them");
    }
    if [rules.remove.len(), rules.set.len(), rules.add.len()].iter().any(|len| *len > limits::FIELD_RULES_MAX)
    {
        let what = "headers: there are too many rules of one kind";
        reader.fault(position(section), what, format!("write at most {}", limits::FIELD_RULES_MAX));
    }
    rules
}

/// Checks that what a cached origin sees is the same for all clients: its responses are.
pub(super) fn check_request_rules(
    raw: &raw::SiteSettings,
    settings: &SiteSettings,
    here: Position,
    reader: &mut Reader<'_>,
) {
    let rules = &settings.headers.request;
    let written = raw.headers.as_ref().and_then(|headers| headers.value.request.as_ref());
    let here = written.map_or(here, position);
    match &settings.origin {
        Origin::Http(http) if http.uncached.is_some() => {}
        Origin::Http(http) => {
            let varies = |rule: &&FieldRule| rule.value.fixed().is_none();
            if let Some(rule) = rules.set.iter().chain(&rules.add).find(varies) {
                let what = format!(
                    "request: `{}` has a value of each client, and the responses of this origin are cached for all",
                    rule.name
                );
                reader.fault(here, what, "use forwarded: or cache.vary:, or write cache: off in the origin");
            }
            if http.s3.is_some() && !rules.is_empty() {
                reader.fault(here, "request: requests to a bucket are signed as they are", "remove it");
            }
        }
        _ if written.is_some() => {
            reader.fault(here, "request: there is no HTTP origin", "remove it");
        }
        _ => {}
    }
}

/// Whether a field may be changed.
fn is_allowed(text: &Text, direction: Direction, reader: &mut Reader<'_>) -> bool {
    let name = text.value.to_ascii_lowercase();
    let token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let (what, instead) = if name.is_empty() || !name.bytes().all(token_byte) {
        ("cannot be the name of a field", "write a name such as X-Cache")
    } else if OF_CONNECTION.contains(&&*name) {
        ("belongs to one connection or to the framing of the content", "remove it")
    } else if direction == Direction::Request && OF_REQUESTS.contains(&&*name) {
        ("is written by this server, which decides by it", "remove it; Host is the key host of the origin")
    } else if direction == Direction::Response && OF_RESPONSES.contains(&&*name) {
        ("is written by this server", "remove it; hsts is a key of its own")
    } else if name.starts_with("penstock-") {
        ("is of the nodes of a cluster", "write another name")
    } else {
        return true;
    };
    reader.fault(position(text), format!("headers: `{}` {what}", text.value.escape_debug()), instead);
    false
}

fn pairs(pairs: Option<&Pairs>, direction: Direction, reader: &mut Reader<'_>) -> Vec<FieldRule> {
    let mut rules = Vec::new();
    for (name, value) in pairs.iter().flat_map(|pairs| &pairs.value.0) {
        if is_allowed(name, direction, reader)
            && let Some(template) = template(value, direction, reader)
        {
            rules.push(FieldRule { name: name.value.clone(), value: template });
        }
    }
    rules
}

/// A fault and its remedy.
type Fault = (String, &'static str);

fn template(text: &Text, direction: Direction, reader: &mut Reader<'_>) -> Option<Template> {
    let parsed = Template::parse(&text.value, |name| value(name, text, direction, reader));
    let fault = match parsed {
        Ok(template) => {
            let plain = template.filled(|_, _| {});
            let is_sendable = plain.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
            if is_sendable && plain.len() <= limits::FIELD_VALUE_BYTES {
                return Some(template);
            }
            (
                "has characters that no field has, or is too long".to_owned(),
                "write up to 4096 plain characters",
            )
        }
        Err(Ok(what)) => (format!("has {what}"), "close it, or leave it out"),
        Err(Err(fault)) => fault,
    };
    reader.fault(position(text), format!("headers: `{}` {}", text.value.escape_debug(), fault.0), fault.1);
    None
}

/// What stands in place of a name: the text of a secret, or a variable of requests.
fn value(
    name: &str,
    text: &Text,
    direction: Direction,
    reader: &mut Reader<'_>,
) -> Result<Result<String, Variable>, Fault> {
    let variables =
        "write {host}, {path}, {client}, {request_id}, {env.NAME}, in responses also {cache_status}";
    if let Some(name) = name.strip_prefix("env.") {
        let found = std::env::var(name).map_err(|_| {
            (format!("needs the environment variable {name}"), "set it where the server is started")
        })?;
        return Ok(Ok(found));
    }
    if let Some(path) = name.strip_prefix("file.") {
        if direction == Direction::Response {
            return Err(("has the content of a file, which is for origins only".to_owned(), variables));
        }
        let path = reader.path(&Spanned::new(path.to_owned(), text.referenced, text.defined));
        let (bytes, readable_by_others) = read_key_file(&path).map_err(|error| {
            (format!("needs {}, which {error}", path.display()), "write the path of a file")
        })?;
        if readable_by_others {
            let what = format!("headers: {} may be read by every user of this machine", path.display());
            reader.warning(position(text), what, "run chmod 600 on it");
        }
        return match String::from_utf8(bytes) {
            Ok(secret) => Ok(Ok(secret.trim_end_matches(['\r', '\n']).to_owned())),
            Err(_) => Err((format!("needs {}, which is not text", path.display()), "write one line into it")),
        };
    }
    match (Variable::named(name), direction) {
        (variable @ (Variable::Host | Variable::Path | Variable::Client | Variable::RequestId), _)
        | (variable @ Variable::CacheStatus, Direction::Response) => Ok(Err(variable)),
        _ => Err((format!("has the unknown variable `{name}`"), variables)),
    }
}
