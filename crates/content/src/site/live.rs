//! Live streams: what a body turned out to be, how long it stays fresh, and which directories are live.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_http::caching::{DefaultLifetimes, Storage};
use penstock_http::manifest::{Manifest, resolve};
use penstock_sys::lock::Unpoisoned;

/// The kind of a response body, as far as the cache must know.
#[derive(Clone, Debug)]
pub(crate) enum BodyKind {
    /// No manifest.
    Other,
    /// Named a manifest by type or target, but not readable as one.
    UnreadableManifest,
    /// A manifest.
    Manifest(Manifest),
}

impl BodyKind {
    pub(crate) fn manifest(self) -> Option<Manifest> {
        match self {
            Self::Manifest(manifest) => Some(manifest),
            Self::Other | Self::UnreadableManifest => None,
        }
    }

    /// The word in the metrics.
    pub(crate) fn label(&self) -> Option<&'static str> {
        Some(match self {
            Self::Other => return None,
            Self::UnreadableManifest => "unread",
            Self::Manifest(Manifest::Multivariant) => "hls_multivariant",
            Self::Manifest(Manifest::Media(playlist)) if playlist.ended => "hls",
            Self::Manifest(Manifest::Media(_)) => "hls_live",
            Self::Manifest(Manifest::Dash { live: true, .. }) => "dash_live",
            Self::Manifest(Manifest::Dash { live: false, .. }) => "dash",
        })
    }
}

/// How long a response is fresh: by default, and at most, whatever its origin says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreshnessBounds {
    pub(crate) default: DefaultLifetimes,
    pub(crate) most: Option<Duration>,
}

impl FreshnessBounds {
    /// Cuts what the fields of a response allow.
    pub(crate) fn of(&self, storage: Storage) -> Storage {
        match (storage, self.most) {
            (Storage::Shared(mut lifetime), Some(most)) => {
                lifetime.fresh = lifetime.fresh.min(most);
                Storage::Shared(lifetime)
            }
            (storage, _) => storage,
        }
    }
}

/// The directories in which live streams grow, with the moment each was last known to.
#[derive(Debug, Default)]
pub(crate) struct LiveDirectories(Mutex<HashMap<String, Instant>>);

impl LiveDirectories {
    /// A live manifest was read: its directory and that of its newest segment are live.
    pub(crate) fn note(&self, target: &str, manifest: &Manifest, now: Instant) {
        let newest = manifest.media().and_then(|playlist| playlist.segments.last());
        let newest = newest.and_then(|uri| resolve(target, uri));
        let mut known = self.known();
        for target in [Some(target), newest.as_deref()].into_iter().flatten() {
            let Some(directory) = directories(target).next() else { continue };
            if known.len() >= limits::LIVE_DIRECTORIES && !known.contains_key(directory) {
                known.retain(|_, noted| still(*noted, now));
                if known.len() >= limits::LIVE_DIRECTORIES {
                    return;
                }
            }
            match known.get_mut(directory) {
                Some(noted) => *noted = now,
                None => drop(known.insert(directory.to_owned(), now)),
            }
        }
    }

    /// Whether something lies in such a directory, or below one.
    pub(crate) fn has(&self, target: &str, now: Instant) -> bool {
        let known = self.known();
        directories(target)
            .take(limits::LIVE_DIRECTORY_LEVELS)
            .any(|directory| known.get(directory).is_some_and(|noted| still(*noted, now)))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unpoisoned()
    }
}

fn still(noted: Instant, now: Instant) -> bool {
    now.saturating_duration_since(noted) < Duration::from_secs(limits::LIVE_DIRECTORY_SECONDS)
}

/// The directory of a target, and those above it.
fn directories(target: &str) -> impl Iterator<Item = &str> {
    let path = target.split('?').next().unwrap_or_default();
    let above = |path: &'_ str| path.rfind('/');
    std::iter::successors(above(path).map(|end| &path[..end]), move |inner| {
        above(inner).map(|end| &inner[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Manifest {
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n../../media/a/1.ts\n";
        Manifest::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_lies_beside_a_live_manifest_or_its_segments_or_below_is_live() {
        let directories = LiveDirectories::default();
        let now = Instant::now();
        directories.note("/live/a/index.m3u8?token=x", &live(), now);
        for target in ["/live/a/2.ts", "/live/a/720p/2.ts?x=/y", "/media/a/2.ts"] {
            assert!(directories.has(target, now), "{target}");
        }
        for target in ["/live/b/2.ts", "/live/2.ts", "/media/2.ts", "/2.ts", "/live/ab/2.ts"] {
            assert!(!directories.has(target, now), "{target}");
        }
        let later = now + Duration::from_secs(limits::LIVE_DIRECTORY_SECONDS);
        assert!(!directories.has("/live/a/2.ts", later), "its manifest was last read long ago");
    }

    #[test]
    fn directories_are_bounded() {
        let directories = LiveDirectories::default();
        let now = Instant::now();
        for number in 0..limits::LIVE_DIRECTORIES + 100 {
            directories.note(&format!("/{number}/a.m3u8"), &live(), now);
        }
        assert!(directories.known().len() <= limits::LIVE_DIRECTORIES);
        let later = now + Duration::from_secs(limits::LIVE_DIRECTORY_SECONDS);
        directories.note("/new/a.m3u8", &live(), later);
        assert!(directories.has("/new/1.ts", later), "old ones make space");
    }
}
