//! `penstock sign`: a token, and the URL with it.

mod formats;

use penstock_edge::tokens::makers::{decoded, encode};

use crate::arguments::{SignArgs, TokenPlace};
use crate::failure::Failure;
use crate::terminal;
use formats::Made;

pub(crate) fn run(arguments: &SignArgs) -> Result<(), Failure> {
    let url = Url::parse(&arguments.url)?;
    let path = match &arguments.prefix {
        Some(prefix) => prefix_of(prefix, &url)?,
        None => url.decoded_path.clone(),
    };
    let made = formats::make(arguments, &url, &path)?;
    for line in url.with(&made, &path, arguments)? {
        terminal::say(&line);
    }
    Ok(())
}

/// A prefix that contains the URL's path, or the token would not allow the URL.
fn prefix_of(prefix: &str, url: &Url<'_>) -> Result<String, Failure> {
    if !prefix.starts_with('/') || !prefix.ends_with('/') {
        return Err(Failure::Usage(format!(
            "--prefix {prefix} is not a directory: write it with slashes at both ends, such as /vod/123/"
        )));
    }
    if !url.decoded_path.starts_with(prefix) {
        return Err(Failure::Usage(format!("{} does not lie below --prefix {prefix}", url.decoded_path)));
    }
    Ok(prefix.to_owned())
}

/// A URL in pieces.
struct Url<'u> {
    text: &'u str,
    /// Scheme and host; empty for a path alone.
    site: &'u str,
    path: &'u str,
    query: Option<&'u str>,
    decoded_path: String,
}

impl<'u> Url<'u> {
    fn parse(url: &'u str) -> Result<Self, Failure> {
        let wrong = || {
            Failure::Usage(format!(
                "{url} is not a URL: write one such as https://video.example.com/vod/film.mp4, or its path"
            ))
        };
        let start = url.find("://").map_or(0, |scheme| scheme + 3);
        let (site, rest) = url.split_at(url[start..].find('/').map(|slash| start + slash).ok_or_else(wrong)?);
        if (start == 0) != site.is_empty() || url.contains('#') || !url.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err(wrong());
        }
        let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
        let decoded_path = decoded(path).ok_or_else(wrong)?.into_owned();
        Ok(Self { text: url, site, path, query, decoded_path })
    }

    /// The host without its port; empty for a path alone.
    fn host(&self) -> &'u str {
        let authority = self.site.split_once("://").map_or("", |(_, authority)| authority);
        match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => authority,
        }
    }

    /// The URL with a token, or the cookies for it.
    fn with(&self, made: &Made, allowed: &str, arguments: &SignArgs) -> Result<Vec<String>, Failure> {
        let Self { site, path, query, .. } = self;
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let whole = made.whole();
        Ok(match (arguments.place, whole) {
            (TokenPlace::Query, _) => {
                let parameters: Vec<_> =
                    made.parts.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
                let mark = if query.is_empty() { '?' } else { '&' };
                vec![format!("{site}{path}{query}{mark}{}", parameters.join("&"))]
            }
            (TokenPlace::Path, Some((name, token))) => {
                vec![format!("{site}/{name}={}{path}{query}", encode(&token))]
            }
            (TokenPlace::Path, None) => {
                return Err(Failure::Usage(
                    "this format has no tokens in paths: write --in query".to_owned(),
                ));
            }
            (TokenPlace::Cookie, whole) => {
                let seconds = arguments.expires.as_secs();
                let path = encode(allowed).replace("%2F", "/");
                let cookies = match whole {
                    Some(whole) => vec![whole],
                    None => {
                        let own = made.parts.iter();
                        own.map(|(name, value)| (format!("CloudFront-{name}"), value.clone())).collect()
                    }
                };
                let line = |(name, value): (String, String)| {
                    let value = encode(&value);
                    format!("{name}={value}; Path={path}; Max-Age={seconds}; Secure; HttpOnly")
                };
                cookies.into_iter().map(line).collect()
            }
        })
    }
}
