//! Buckets of S3-compatible stores as origins: requests signed by AWS Signature Version 4, in the query.
//!
//! Only GET and HEAD are signed: other requests of viewers must not use the operator's keys.

use std::fmt;
use std::time::Duration;

use hyper::Method;
use rusty_s3::actions::{GetObject, HeadObject, S3Action};
use rusty_s3::{Bucket, Credentials, UrlStyle};

use super::error::OriginError;
use super::fetch::Fetch;
use super::settings::S3Bucket;

/// How long a signature holds: the clocks of both sides may differ by some minutes.
const SIGNATURE_LIFETIME: Duration = Duration::from_secs(900);

/// Signs requests for a bucket.
pub(super) struct Signer {
    bucket: Bucket,
    credentials: Credentials,
    prefix: String,
}

impl Signer {
    /// `None` if the bucket cannot be named in a URL.
    pub(super) fn new(settings: &S3Bucket) -> Option<Self> {
        let endpoint = settings.endpoint.to_string().parse().ok()?;
        let style = if settings.path_style { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let secret = str::from_utf8(settings.secret_key.expose()).ok()?;
        Some(Self {
            bucket: Bucket::new(endpoint, style, settings.bucket.clone(), settings.region.clone()).ok()?,
            credentials: Credentials::new(settings.access_key.clone(), secret),
            prefix: settings.prefix.clone(),
        })
    }

    /// The same request with a signature, and the Host it was made for. Queries of viewers stay behind: they could ask
    /// for other things than the object.
    ///
    /// # Errors
    /// [`OriginError::Unsendable`] if no object of the bucket has the name that the target names.
    pub(super) fn sign(&self, fetch: &Fetch) -> Result<(Fetch, String), OriginError> {
        let path = fetch.target.split('?').next().unwrap_or_default();
        let path = path.strip_prefix('/').ok_or(OriginError::Unsendable)?;
        let name = unescape(path).ok_or(OriginError::Unsendable)?;
        // A URL with these would lead out of the bucket.
        if name.split('/').any(|segment| segment == "." || segment == "..") {
            return Err(OriginError::Unsendable);
        }
        let object = format!("{}{name}", self.prefix);
        // The URL of the bucket lists all objects; some stores ignore further slashes at its end.
        if object.bytes().all(|byte| byte == b'/') {
            return Err(OriginError::Unsendable);
        }
        let credentials = Some(&self.credentials);
        let url = match fetch.method {
            Method::GET => GetObject::new(&self.bucket, credentials, &object).sign(SIGNATURE_LIFETIME),
            Method::HEAD => HeadObject::new(&self.bucket, credentials, &object).sign(SIGNATURE_LIFETIME),
            _ => self.bucket.object_url(&object),
        };
        let host = url.host_str().ok_or(OriginError::Unsendable)?;
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        // Stores know If-Match, and most of them not If-Range; either tells of another version.
        let known = fetch.known.clone().map(|(name, value)| match name {
            "if-range" if value.starts_with('"') => ("if-match", value),
            name => (name, value),
        });
        Ok((Fetch { target, known, ..fetch.clone() }, host))
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("bucket", &self.bucket.name()).finish_non_exhaustive()
    }
}

/// Decodes a path; names of objects are UTF-8.
fn unescape(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use penstock_http::OriginUrl;
    use penstock_sys::traffic::Secret;

    use super::*;

    fn signer(path_style: bool) -> Signer {
        signer_below("vod/", path_style)
    }

    fn signer_below(prefix: &str, path_style: bool) -> Signer {
        Signer::new(&S3Bucket {
            endpoint: OriginUrl::parse("https://store.example:9000").unwrap(),
            bucket: "video".to_owned(),
            region: "eu-1".to_owned(),
            path_style,
            prefix: prefix.to_owned(),
            access_key: "AK".to_owned(),
            secret_key: Arc::new(Secret::new(b"SK".to_vec())),
        })
        .unwrap()
    }

    #[test]
    fn a_signed_request_names_bucket_prefix_and_object_and_nothing_of_the_viewers_query() {
        let (fetch, host) = signer(true).sign(&Fetch::get("/a%20b/c%2b.mp4?acl&versionId=1")).unwrap();
        assert_eq!(host, "store.example:9000");
        let (path, query) = fetch.target.split_once('?').unwrap();
        assert_eq!(path, "/video/vod/a%20b/c%2B.mp4");
        assert!(query.contains("X-Amz-Signature="), "{query}");
        assert!(query.contains("X-Amz-Credential=AK%2F"), "{query}");
        assert!(!query.contains("acl") && !query.contains("versionId"), "{query}");
        let (fetch, host) = signer(false).sign(&Fetch::get("/x")).unwrap();
        assert_eq!(host, "video.store.example:9000");
        assert!(fetch.target.starts_with("/vod/x?"));
    }

    #[test]
    fn nothing_leads_out_of_the_bucket_and_only_reading_is_signed() {
        for target in ["/../other/x", "/a/%2e%2e/%2E%2E/other", "x", "/%ff", "/%4"] {
            let error = signer(true).sign(&Fetch::get(target)).unwrap_err();
            assert_eq!(error, OriginError::Unsendable, "{target}");
        }
        let delete = Fetch { method: Method::DELETE, ..Fetch::get("/x") };
        assert_eq!(signer(true).sign(&delete).unwrap().0.target, "/video/vod/x");
    }

    #[test]
    fn the_bucket_itself_is_never_asked_for() {
        let targets = ["/", "/?list-type=2", "//", "///?acl", "/%2F", "/%2f%2F", "/.", "/%2e", "/%2E//"];
        for (target, path_style) in targets.iter().flat_map(|target| [(target, true), (target, false)]) {
            for method in [Method::GET, Method::HEAD, Method::POST] {
                let fetch = Fetch { method, ..Fetch::get(*target) };
                let error = signer_below("", path_style).sign(&fetch).map(|(fetch, _)| fetch.target);
                assert_eq!(error, Err(OriginError::Unsendable), "{} {target}", fetch.method);
            }
        }
        // Names of objects, which a store does not list.
        let objects = [
            ("vod/", "/", "/video/vod/"),
            ("", "//a", "/video//a"),
            ("", "/a/", "/video/a/"),
            ("", "/a//b", "/video/a//b"),
            ("", "/a%5C..%5Cb%09", "/video/a%5C..%5Cb%09"),
            ("", "/%252e%252e/b", "/video/%252e%252e/b"),
        ];
        for (prefix, target, path) in objects {
            let (fetch, _) = signer_below(prefix, true).sign(&Fetch::get(target)).unwrap();
            assert_eq!(fetch.target.split('?').next(), Some(path), "{target}");
        }
    }

    #[test]
    fn the_condition_of_later_slices_is_one_that_stores_know() {
        let fetch = Fetch { known: Some(("if-range", "\"v1\"".to_owned())), ..Fetch::get("/x") };
        assert_eq!(signer(true).sign(&fetch).unwrap().0.known, Some(("if-match", "\"v1\"".to_owned())));
    }
}
