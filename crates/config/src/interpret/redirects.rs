//! Redirects, rewrites, and responses without an origin.

use std::convert::Infallible;

use penstock_http::Status;
use penstock_http::uri::normalise;
use serde_saphyr::Spanned;

use super::hosts::pattern;
use super::reader::Reader;
use crate::limits;
use crate::model::{Canonical, FixedResponse, HostPattern, HttpsPort, Redirect, Rewrite};
use crate::pattern::PathPattern;
use crate::raw;
use crate::section::{Position, Text, WordOr, position};
use crate::template::{Template, Variable};

/// Reads `redirect: https` and `canonical_host`.
pub(super) fn canonical(
    raw: &raw::SiteSettings,
    https: HttpsPort,
    canonical: &mut Canonical,
    reader: &mut Reader<'_>,
) {
    if let Some(Spanned { value: WordOr::Word(word), referenced, .. }) = &raw.redirect {
        match word.as_str() {
            "https" => canonical.https = Some(https),
            "off" | "false" => canonical.https = None,
            other => {
                let what = format!("redirect: `{}` is unknown", other.escape_debug());
                reader.fault((*referenced).into(), what, "write https, or {to: /new/{rest}}");
            }
        }
    }
    if let Some(text) = &raw.canonical_host {
        match pattern(&text.value) {
            Ok(HostPattern::Exact(host)) => canonical.host = Some(host),
            Ok(_) => {
                let what = format!("canonical_host: `{}` is no single host", text.value);
                reader.fault(position(text), what, "write a host name such as video.example.com");
            }
            Err((what, instead)) => reader.fault(position(text), format!("canonical_host: {what}"), instead),
        }
    }
}

/// Reads the path for the origin.
pub(super) fn rewrite(text: &Text, from: &PathPattern, reader: &mut Reader<'_>) -> Option<Rewrite> {
    let is_allowed = |variable: &Variable| matches!(variable, Variable::Path | Variable::Capture(_));
    let to = template("rewrite", text, from, is_allowed, reader)?;
    let begins_well = to.beginning().starts_with('/') || text.value.starts_with("{path}");
    if !begins_well || text.value.contains('?') {
        let what = format!("rewrite: `{}` is not a path", text.value.escape_debug());
        reader.fault(position(text), what, "write a path such as /vod/{rest}; the query stays as it is");
        return None;
    }
    Some(Rewrite { from: from.clone(), to })
}

/// Reads a redirect of all requests.
pub(super) fn redirect(
    raw: &raw::Redirect,
    here: Position,
    from: &PathPattern,
    reader: &mut Reader<'_>,
) -> Option<Redirect> {
    let status = status(raw.status.as_ref(), reader);
    let Some(text) = &raw.to else {
        reader.fault(here, "redirect: it does not say where to", "add to: /new/{rest}");
        return None;
    };
    let is_allowed = |variable: &Variable| {
        matches!(variable, Variable::Path | Variable::Query | Variable::Host | Variable::Capture(_))
    };
    let to = template("to", text, from, is_allowed, reader)?;
    let url = to.beginning().strip_prefix("https://").or_else(|| to.beginning().strip_prefix("http://"));
    // A host that a client could choose by its path would send viewers anywhere.
    let names_host = url.is_some_and(|rest| match to.variables().next() {
        Some(Variable::Host) => rest.is_empty() || rest.contains('/'),
        Some(_) => rest.contains('/'),
        None => !rest.is_empty(),
    });
    let is_path = to.beginning().starts_with('/') && !to.beginning().starts_with("//");
    if !(names_host || is_path || text.value.starts_with("{path}")) {
        let what = format!("to: `{}` is neither a path nor a URL with a host", text.value.escape_debug());
        reader.fault(position(text), what, "write /new/{rest} or https://video.example.com{path}");
        return None;
    }
    Some(Redirect { from: from.clone(), to, status })
}

fn status(text: Option<&Text>, reader: &mut Reader<'_>) -> Status {
    let Some(text) = text else { return Status::PermanentRedirect };
    match text.value.as_str() {
        "301" => Status::MovedPermanently,
        "302" => Status::Found,
        "303" => Status::SeeOther,
        "307" => Status::TemporaryRedirect,
        "308" => Status::PermanentRedirect,
        _ => {
            let what = format!("status: `{}` is not the status of a redirect", text.value.escape_debug());
            reader.fault(position(text), what, "write 301, 302, 303, 307 or 308");
            Status::PermanentRedirect
        }
    }
}

/// Reads a text with variables of a path.
fn template(
    key: &str,
    text: &Text,
    from: &PathPattern,
    is_allowed: impl Fn(&Variable) -> bool,
    reader: &mut Reader<'_>,
) -> Option<Template> {
    let parsed = Template::parse(&text.value, |name| Ok::<_, Infallible>(Err(Variable::named(name))));
    let template = match parsed {
        Ok(template) => template,
        Err(Ok(fault)) => {
            let what = format!("{key}: `{}` has {fault}", text.value.escape_debug());
            reader.fault(position(text), what, "write {rest}");
            return None;
        }
        Err(Err(never)) => match never {},
    };
    for variable in template.variables() {
        let what = match variable {
            Variable::Capture(name) if !from.captures(name) => {
                format!("{key}: the path `{from}` captures no `{name}`")
            }
            known if !is_allowed(known) => format!("{key}: `{}` has a variable of other texts", text.value),
            _ => continue,
        };
        let instead = "write {path}, {rest} for what `*` stands for, or {name} of a segment of the path";
        reader.fault(position(text), what, instead);
        return None;
    }
    let plain = template.filled(|_, _| {});
    if normalise(&plain) != plain {
        let what = format!("{key}: `{}` has characters that no URL has", text.value.escape_debug());
        reader.fault(position(text), what, "percent-encode them");
        return None;
    }
    Some(template)
}

/// Reads a response without an origin.
pub(super) fn fixed(section: &Spanned<raw::Respond>, reader: &mut Reader<'_>) -> FixedResponse {
    let raw = &section.value;
    let status = reader.number("status", raw.status.as_ref(), &(200..=599), 200);
    if let (204 | 205 | 304, Some(body)) = (status, &raw.body) {
        let what = format!("body: a response with status {status} has no content");
        reader.fault(position(body), what, "remove it, or write another status");
    }
    let body = raw.body.as_ref().map_or("", |text| text.value.as_str());
    if let Some(text) = raw.body.as_ref().filter(|_| body.len() > limits::FIXED_BODY_BYTES_MAX) {
        let what = format!("body: it has {} bytes", body.len());
        let instead = format!("write at most {}, or serve a file", limits::FIXED_BODY_BYTES_MAX);
        reader.fault(position(text), what, instead);
    }
    let content_type = raw.type_.as_ref().and_then(|text| media_type(text, reader));
    FixedResponse {
        status,
        content_type: content_type.unwrap_or(PLAIN_TEXT).to_owned(),
        body: body.as_bytes().into(),
    }
}

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// The response of a site to which no request comes.
pub(super) fn nothing() -> FixedResponse {
    FixedResponse { status: 404, content_type: PLAIN_TEXT.to_owned(), body: [].into() }
}

/// A value of Content-Type.
pub(super) fn media_type<'t>(text: &'t Text, reader: &mut Reader<'_>) -> Option<&'t str> {
    let value = text.value.as_str();
    let is_plain = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if is_plain && value.split_once('/').is_some_and(|(kind, rest)| !kind.is_empty() && !rest.is_empty()) {
        return Some(value);
    }
    let what = format!("type: `{}` is not a media type", value.escape_debug());
    reader.fault(position(text), what, "write one such as text/html; charset=utf-8");
    None
}
