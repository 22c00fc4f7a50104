//! Cookies that stand in for a token of the query, so that relative URLs of a playlist need none.

use penstock_config::limits;

use super::asked::{Asked, Grant, Scope};
use super::places::{Places, ShownToken};
use super::text::encode;

impl Places {
    /// The values of Set-Cookie for a good token: none, if it opens one path only, or has come from where it is inherited.
    pub(super) fn given_cookies(
        &self,
        token: &ShownToken<'_>,
        grant: &Grant,
        asked: &Asked<'_>,
    ) -> Vec<String> {
        let Scope::Below(directory) = &grant.scope else { return Vec::new() };
        if !self.gives_cookies || !token.is_of_one_request {
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
        let end = grant.end.saturating_add(asked.leeway);
        let seconds = end.saturating_sub(asked.seconds());
        let secure = if asked.visitor.is_secure { "; Secure; SameSite=None" } else { "" };
        let path = encoded_path(directory);
        let cookies: Vec<_> = parts
            .into_iter()
            .map(|(name, value)| {
                let value = cookie_value(&value);
                format!("{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly{secure}")
            })
            .collect();
        let has_space = cookies.iter().all(|cookie| cookie.len() <= limits::TOKEN_COOKIE_BYTES);
        if has_space { cookies } else { Vec::new() }
    }
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

/// A decoded path as clients write it.
fn encoded_path(path: &str) -> String {
    encode(path).replace("%2F", "/")
}
