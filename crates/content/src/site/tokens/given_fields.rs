//! What a client gets for a good token: cookies that stand in for a token of the query, so that relative URLs of a playlist need
//! none, and a token with a later end.

use penstock_config::limits;

use super::asked::{Asked, Grant, Renewed, Scope};
use super::places::{Origin, Places, ShownToken};
use super::text::encode;

impl Places {
    /// Fields of the response. No cookie is given for a token that opens one path only, or has come from where it is inherited.
    pub(super) fn given_fields(
        &self,
        token: &ShownToken<'_>,
        grant: &Grant,
        asked: &Asked<'_>,
    ) -> Vec<(String, String)> {
        if let Some(renewed) = &grant.renewed {
            return self.renewed(renewed, token.origin, grant, asked).into_iter().collect();
        }
        if !self.gives_cookies || !matches!(token.origin, Origin::Query | Origin::Field) {
            return Vec::new();
        }
        let parts = match (&*self.fields.cookies, &*token.parts) {
            // All parts in one cookie.
            ([name], parts) => {
                let all: Vec<_> = parts.iter().flatten().copied().collect();
                vec![(name, all.join("%2C"))]
            }
            (names, parts) => {
                names.iter().zip(parts).filter_map(|(name, part)| Some((name, (*part)?.to_owned()))).collect()
            }
        };
        let seconds = grant.end.saturating_add(asked.leeway).saturating_sub(asked.seconds());
        let cookies = parts.into_iter().map(|(name, value)| cookie(name, &value, grant, seconds, asked));
        cookies.collect::<Option<_>>().unwrap_or_default()
    }

    /// A token with a later end, in a cookie or a field of this site: what a token says of its place does not make others.
    fn renewed(
        &self,
        renewed: &Renewed,
        origin: Origin,
        grant: &Grant,
        asked: &Asked<'_>,
    ) -> Option<(String, String)> {
        let (in_cookie, name, token) = match renewed {
            Renewed::AsItCame(token) => (origin == Origin::Cookie, None, token),
            Renewed::Cookie(name, token) => (true, name.as_ref(), token),
            Renewed::Field(name, token) => (false, name.as_ref(), token),
        };
        if matches!(renewed, Renewed::AsItCame(_)) && !matches!(origin, Origin::Cookie | Origin::Field) {
            return None;
        }
        let is_ours = |own: &&String| name.is_none_or(|name| name.eq_ignore_ascii_case(own));
        if in_cookie {
            let own = self.fields.cookies.first().filter(is_ours)?;
            // The token says when it ends.
            return cookie(own, token, grant, limits::RENEWED_COOKIE_SECONDS, asked);
        }
        let own = self.fields.field.as_ref().filter(is_ours)?;
        Some((own.clone(), token.clone()))
    }
}

/// A field that sets a cookie; `None` if the token is for one path, or too long.
fn cookie(
    name: &str,
    value: &str,
    grant: &Grant,
    seconds: u64,
    asked: &Asked<'_>,
) -> Option<(String, String)> {
    let Scope::Below(directory) = &grant.scope else { return None };
    let secure = if asked.visitor.is_secure { "; Secure; SameSite=None" } else { "" };
    let (value, path) = (cookie_value(value), encode(directory).replace("%2F", "/"));
    let cookie = format!("{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly{secure}");
    (cookie.len() <= limits::TOKEN_COOKIE_BYTES).then(|| ("Set-Cookie".to_owned(), cookie))
}

/// A percent-encoded text as the value of a cookie (RFC 6265 §4.1.1).
fn cookie_value(written: &str) -> String {
    let mut value = String::with_capacity(written.len());
    for byte in written.bytes() {
        match byte {
            b'"' | b',' | b';' | b'\\' => value.push_str(&format!("%{byte:02X}")),
            byte if byte.is_ascii_graphic() => value.push(char::from(byte)),
            byte => value.push_str(&format!("%{byte:02X}")),
        }
    }
    value
}
