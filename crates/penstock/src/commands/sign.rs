//! `penstock sign`: a token, and the URL with it.

use std::time::SystemTime;

use penstock_config::SigningKey;
use penstock_config::signing::{is_key_id, read_key_file, secret_of_file};
use penstock_edge::signed_urls::{decoded, encode, sign};

use crate::arguments::{SignArgs, TokenPlace};
use crate::failure::Failure;
use crate::terminal;

pub(crate) fn run(arguments: &SignArgs) -> Result<(), Failure> {
    let key = key(arguments)?;
    let url = Url::parse(&arguments.url)?;
    let path = match &arguments.prefix {
        Some(prefix) => prefix_of(prefix, &url)?,
        None => url.decoded_path.clone(),
    };
    let expires = SystemTime::now() + arguments.expires;
    let token = sign(&key, &path, expires).ok_or_else(|| Failure::Usage("there is no memory".to_owned()))?;
    terminal::say(&url.with(&encode(&token), &path, arguments));
    Ok(())
}

fn key(arguments: &SignArgs) -> Result<SigningKey, Failure> {
    let id = &arguments.key_id;
    if !is_key_id(id) {
        return Err(Failure::Usage(format!(
            "--key-id {id} has characters that are not allowed in a URL: write letters, digits, - and _"
        )));
    }
    let file = &arguments.key_file;
    let read = read_key_file(file).map_err(Failure::machine(format!("read {}", file.display())))?;
    let secret = secret_of_file(read.0).ok_or_else(|| {
        Failure::Usage(format!(
            "{} has less than 16 bytes: make a key with openssl rand -hex 32",
            file.display()
        ))
    })?;
    Ok(SigningKey { id: id.clone(), secret })
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
        Ok(Self { site, path, query, decoded_path })
    }

    fn with(&self, token: &str, allowed: &str, arguments: &SignArgs) -> String {
        let Self { site, path, query, .. } = self;
        let name = &arguments.parameter;
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        match arguments.place {
            TokenPlace::Query if query.is_empty() => format!("{site}{path}?{name}={token}"),
            TokenPlace::Query => format!("{site}{path}{query}&{name}={token}"),
            TokenPlace::Path => format!("{site}/{name}={token}{path}{query}"),
            TokenPlace::Cookie => {
                let seconds = arguments.expires.as_secs();
                let path = encode(allowed).replace("%2F", "/");
                format!("{name}={token}; Path={path}; Max-Age={seconds}; Secure; HttpOnly")
            }
        }
    }
}
