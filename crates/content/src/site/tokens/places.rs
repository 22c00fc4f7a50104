//! Where tokens are in a request.

use std::borrow::Cow;

use penstock_config::{TokenFormat, TokenRules, limits};
use penstock_http::Request;

use crate::site::bare_path::{UnsignedTarget, split_path};
use crate::site::cookies::cookies_of;
use crate::site::token_fields::TokenFields;

/// The parameters of CloudFront, of which Policy or Expires is there.
pub(super) const CLOUDFRONT: [&str; 5] = ["Policy", "Expires", "Signature", "Key-Pair-Id", "Hash-Algorithm"];

/// The places of the tokens of a site.
#[derive(Debug)]
pub(super) struct Places {
    /// Parameters of the query, one for each part of a token.
    pub(super) parameters: Vec<String>,
    /// The parameter in front of a path.
    pub(super) in_path: Option<String>,
    /// Cookies, one for each part, or one for all, and a field of the request.
    pub(super) fields: TokenFields,
    /// Whether cookies are given for tokens of other places.
    pub(super) gives_cookies: bool,
    /// The parameter whose value logs do not show. Those of tokens that end with `hmac=` show the rest.
    hidden: Option<String>,
}

/// A token as it was found.
#[derive(Debug)]
pub(super) struct ShownToken<'r> {
    /// Its parts, as they were written.
    pub(super) parts: Vec<Option<&'r str>>,
    /// Where it was.
    pub(super) origin: Origin,
}

/// Where a token was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// In the query.
    Query,
    /// In front of the path.
    Path,
    /// In a cookie.
    Cookie,
    /// In a field.
    Field,
}

impl Places {
    pub(super) fn new(rules: &TokenRules) -> Self {
        let is_cloudfront = matches!(rules.format, TokenFormat::CloudFront(_));
        let parameters = match &rules.format {
            TokenFormat::CloudFront(_) => CLOUDFRONT.map(str::to_owned).into(),
            TokenFormat::SecureLink(link) => vec![rules.parameter.clone(), link.expires.clone()],
            _ => vec![rules.parameter.clone()],
        };
        let cookies = match is_cloudfront {
            true => CLOUDFRONT.map(|name| format!("CloudFront-{name}")).into(),
            false => rules.cookie.iter().cloned().collect(),
        };
        let hidden = match &rules.format {
            TokenFormat::Penstock(_) | TokenFormat::Akamai(_) => None,
            TokenFormat::CloudFront(_) => Some("Signature".to_owned()),
            TokenFormat::SecureLink(_) | TokenFormat::Jwt(_) | TokenFormat::Cat(_) => {
                Some(rules.parameter.clone())
            }
        };
        let fields = TokenFields { cookies, field: rules.field.clone(), parameters: parameters.clone() };
        Self {
            hidden,
            parameters,
            in_path: (!is_cloudfront).then(|| rules.parameter.clone()),
            fields,
            gives_cookies: rules.sets_cookie,
        }
    }

    /// The target of a request without tokens, and the tokens in the order in which they are tried.
    pub(super) fn take<'r>(&self, request: &'r Request<'r>) -> (UnsignedTarget<'r>, Vec<ShownToken<'r>>) {
        let mut shown = Vec::new();
        let query = request.query().map(|query| self.take_from_query(query, &mut shown));
        let in_path = self.in_path.as_ref().and_then(|name| split_path(request.raw_path(), name));
        let path = in_path.map_or_else(|| request.raw_path(), |(_, rest)| rest);
        let whole = |token| vec![Some(token)];
        if let Some((token, _)) = in_path {
            shown.push(ShownToken { parts: whole(token), origin: Origin::Path });
        }
        self.look_at_cookies(request, &mut shown);
        if let Some(name) = &self.fields.field {
            let values = request.values(name).filter_map(|value| str::from_utf8(value).ok());
            let fields = values.take(limits::TOKENS_PER_REQUEST).map(str::trim_ascii);
            shown.extend(fields.map(|token| ShownToken { parts: whole(token), origin: Origin::Field }));
        }
        (UnsignedTarget { path: Cow::Borrowed(path), query: query.flatten() }, shown)
    }

    /// A target or a URL without what opens it.
    pub(super) fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(name) = self.hidden.as_ref().filter(|name| text.contains(name.as_str())) else {
            return Cow::Borrowed(text);
        };
        let mut shown = String::with_capacity(text.len());
        for piece in text.split_inclusive(['/', '?', '&']) {
            let end = piece.len() - usize::from(piece.ends_with(['/', '?', '&']));
            match piece[..end].strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('=')) {
                Some(_) => shown.extend([name, "=hidden", &piece[end..]]),
                None => shown.push_str(piece),
            }
        }
        Cow::Owned(shown)
    }

    fn take_from_query<'r>(&self, query: &'r str, shown: &mut Vec<ShownToken<'r>>) -> Option<Cow<'r, str>> {
        let name = |parameter: &'r str| parameter.split_once('=').map_or(parameter, |(name, _)| name);
        let is_token = |parameter: &&'r str| self.parameters.iter().any(|one| one == name(parameter));
        let mut parts = vec![None; self.parameters.len()];
        for parameter in query.split('&').filter(is_token) {
            let place = self.parameters.iter().position(|one| one == name(parameter)).unwrap_or_default();
            let value = parameter.split_once('=').map_or("", |(_, value)| value);
            parts[place].get_or_insert(value);
        }
        if parts.iter().all(Option::is_none) {
            return Some(Cow::Borrowed(query));
        }
        shown.push(ShownToken { parts, origin: Origin::Query });
        let rest: Vec<&str> = query.split('&').filter(|parameter| !is_token(parameter)).collect();
        (!rest.is_empty()).then(|| Cow::Owned(rest.join("&")))
    }

    /// A browser sends the cookies of the longest path first, those of each name in the same order.
    fn look_at_cookies<'r>(&self, request: &'r Request<'r>, shown: &mut Vec<ShownToken<'r>>) {
        let names = &self.fields.cookies;
        let mut values: Vec<_> = names.iter().map(|name| cookies_of(request, name)).collect();
        for _ in 0..limits::TOKENS_PER_REQUEST {
            let parts: Vec<_> = values.iter_mut().map(Iterator::next).collect();
            if parts.iter().all(Option::is_none) {
                break;
            }
            shown.push(ShownToken { parts, origin: Origin::Cookie });
        }
    }
}
