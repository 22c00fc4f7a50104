//! A request to the cache, and to the origin on a miss.

use std::borrow::Cow;
use std::sync::Arc;

use penstock_cache::Key;

/// Fields of a request that go to the origin, normalised.
pub(crate) type RequestFields = Arc<[(String, String)]>;

/// One object as a request asks for it.
#[derive(Clone, Debug)]
pub(crate) struct CacheRequest<'t> {
    /// The key of the object.
    pub(crate) key: Key,
    /// The key before it is known which request fields the object varies by.
    pub(crate) primary: Key,
    /// Fields of the request that go to the origin.
    pub(crate) fields: RequestFields,
    /// Names of the fields that may go to the origin.
    pub(crate) forwarded: Arc<[String]>,
    /// Path and query, normalised by the site's query rules.
    pub(crate) target: Cow<'t, str>,
    /// When the client asked, as purges count time.
    pub(crate) stamp: u64,
    /// Whether the request may be a replay of early data.
    pub(crate) early: bool,
    /// Whether the target names a manifest: manifests are small and change, so they are fetched whole.
    pub(crate) is_manifest: bool,
}

impl<'t> CacheRequest<'t> {
    /// A request whose fields do not concern the origin.
    pub(crate) fn new(key: Key, target: Cow<'t, str>, early: bool, stamp: u64) -> Self {
        let (path, _) = split_target(&target);
        let is_manifest = path.ends_with(".m3u8") || path.ends_with(".mpd");
        let (fields, forwarded) = (RequestFields::default(), Arc::default());
        Self { key, primary: key, fields, forwarded, target, stamp, early, is_manifest }
    }
}

impl CacheRequest<'_> {
    /// The same request with a target of its own, for tasks that outlive the client's request.
    pub(crate) fn into_owned(self) -> CacheRequest<'static> {
        let Self { key, primary, fields, forwarded, target, stamp, early, is_manifest } = self;
        let target = Cow::Owned(target.into_owned());
        CacheRequest { key, primary, fields, forwarded, target, stamp, early, is_manifest }
    }
}

/// What a request to an origin says of one client, beside the fields that select a variant. The answer may be about these
/// words: a success is for all, anything else for clients with the same words only.
#[derive(Clone, Debug)]
pub(crate) struct OwnWords {
    /// Whether the request is marked as early data (RFC 8470 §5.1).
    pub(crate) early: bool,
    /// CDN-Loop of the client's request (RFC 8586).
    pub(crate) loops: Option<Arc<str>>,
    /// Forwarded fields by which the response does not vary.
    pub(crate) fields: Vec<(String, String)>,
}

impl OwnWords {
    /// Whether the request says more of its client than forwarded fields do.
    pub(crate) fn is_marked(&self) -> bool {
        self.early || self.loops.is_some()
    }
}

/// Path and query of a target.
pub(crate) fn split_target(target: &str) -> (&str, Option<&str>) {
    target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)))
}
