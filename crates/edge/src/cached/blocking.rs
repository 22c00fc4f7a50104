//! Low-latency HLS: a player asks for a playlist with a part that does not exist yet, and the answer is held back until
//! it does (RFC 8216, second edition, §6.2.5.2).
//!
//! The origin does the holding. Here all who wait for the same part wait for one request, and what comes back takes the
//! place of the playlist that is known: whoever is late finds the part in it. So there is one object for each playlist,
//! and one for each kind of delta, whatever numbers clients ask for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_cache::{LookUp, Object, Resolved};
use penstock_config::limits;
use penstock_http::Status;
use penstock_http::manifest::{Delivery, Manifest, Playlist, Position, Reach};

use super::description::Quality;
use super::find::{Found, Outcome, Search};
use super::{Asked, Description};

/// What the origin is asked for so that it holds its answer back.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// Path, query and delivery directives.
    pub(super) target: String,
    /// How long it may.
    pub(super) longest: Duration,
}

/// The playlist a request is about, and how it wants it.
struct Directed {
    path: String,
    rest: String,
    delivery: Delivery,
}

impl Search {
    /// Finds the object of a request that may have delivery directives.
    ///
    /// # Errors
    /// As [`Self::find`], and 400 for directives that no player means.
    pub(super) async fn find_or_hold(&self) -> Result<Found, Status> {
        let directed = match Directed::of(&self.asked) {
            Ok(Some(directed)) => directed,
            Ok(None) => return self.find().await,
            Err(status) => {
                self.worker.shard.reload("bad");
                return Err(status);
            }
        };
        let playlist = self.instead(directed.without(Delivery::default()), None);
        let Delivery { wanted, skip } = directed.delivery;
        let variant = match skip {
            Some(_) => self.instead(directed.without(Delivery { wanted: None, skip }), None),
            None => playlist.clone(),
        };
        let Some(wanted) = wanted else { return variant.find().await };
        let newest = match newest(variant.media(), playlist.media()) {
            Some(known) => known,
            None => {
                let found = playlist.find().await?;
                if media(&found.object).is_none() {
                    // No playlist, or one of playlists: nothing to hold back.
                    return Ok(found);
                }
                found.object
            }
        };
        let control = media(&newest).cloned().unwrap_or_default();
        if control.ended || !control.can_block {
            return variant.find().await;
        }
        let mine = variant.media();
        match reach(mine.as_ref().unwrap_or(&newest), wanted) {
            Reach::Within => {
                self.worker.shard.reload("at_once");
                variant.find().await
            }
            Reach::TooFar if !playlist.agrees_that_it_is_too_far(&newest, wanted).await => {
                self.worker.shard.reload("too_far");
                Err(Status::BadRequest)
            }
            Reach::Next | Reach::TooFar => {
                self.worker.shard.reload("held");
                let longest = control.longest_hold() + Duration::from_secs(limits::HOLD_GRACE_SECONDS);
                let held = Held { target: directed.target(), longest };
                variant.instead(variant.asked.clone(), Some(held)).hold().await
            }
        }
    }

    /// The same request for something else.
    fn instead(&self, target: impl Into<Target>, held: Option<Held>) -> Self {
        let asked = match target.into() {
            Target::New(target) => self.site.asked_for(target, self.asked.early, self.asked.moment),
            Target::Known(asked) => asked,
        };
        Self { asked, held, ..self.clone() }
    }

    /// The playlist that is known.
    fn media(&self) -> Option<Arc<Object<Description>>> {
        let known = self.store.index.known(&self.asked.key)?;
        (!self.store.is_purged(&known) && media(&known).is_some()).then_some(known)
    }

    /// Whether a position that is far beyond a playlist is worth asking for: not if the playlist is as new as can be.
    async fn agrees_that_it_is_too_far(&self, newest: &Arc<Object<Description>>, wanted: Position) -> bool {
        if newest.description().quality(Instant::now()) == Quality::Fresh {
            return false;
        }
        let renewed = self.find().await;
        renewed.is_ok_and(|found| reach(&found.object, wanted) != Reach::TooFar)
    }

    /// Waits for the one request that is held back, or makes it.
    async fn hold(&self) -> Result<Found, Status> {
        let Some(held) = &self.held else { return self.find().await };
        let key = self.site.asked_for(held.target.clone(), self.asked.early, self.asked.moment).key;
        for _ in 0..limits::ORIGIN_ATTEMPTS {
            let pending = match self.store.index.look_up(&key) {
                LookUp::Missing(claim) => return self.fetch(Some(claim), None).await,
                LookUp::Known(object) => return Ok(Found::shared(object, Outcome::Hit)),
                LookUp::Pending(pending) => pending,
            };
            if self.is_crowd(pending.waiters()) {
                return Err(Status::ServiceUnavailable);
            }
            match pending.resolved().await {
                Some(Resolved::Shared(object)) => return Ok(Found::shared(object, Outcome::Collapsed)),
                Some(Resolved::Alone) => return self.fetch(None, None).await,
                None => {}
            }
        }
        Err(Status::BadGateway)
    }

    /// What was held back takes the place of an older playlist.
    pub(super) fn keep_if_newer(&self, object: &Arc<Object<Description>>) {
        let Some(new) = media(object) else { return };
        let is_newer = |known: &Object<Description>| {
            media(known).is_none_or(|known| end(known) <= end(new)) || new.ended
        };
        self.store.index.put(object, is_newer);
    }
}

enum Target {
    New(String),
    Known(Asked),
}

impl From<String> for Target {
    fn from(target: String) -> Self {
        Self::New(target)
    }
}

impl From<Asked> for Target {
    fn from(asked: Asked) -> Self {
        Self::Known(asked)
    }
}

impl Directed {
    /// `None` if there are no directives.
    fn of(asked: &Asked) -> Result<Option<Self>, Status> {
        let Some((path, query)) = asked.target.split_once('?') else { return Ok(None) };
        if !query.contains("_HLS_") {
            return Ok(None);
        }
        let (delivery, rest) = Delivery::take(query).map_err(|_| Status::BadRequest)?;
        if delivery == Delivery::default() {
            return Ok(None);
        }
        Ok(Some(Self { path: path.to_owned(), rest, delivery }))
    }

    fn target(&self) -> String {
        self.without(self.delivery)
    }

    /// The target with these directives and no others.
    fn without(&self, delivery: Delivery) -> String {
        match delivery.query(&self.rest).as_str() {
            "" => self.path.clone(),
            query => format!("{}?{query}", self.path),
        }
    }
}

fn media(object: &Object<Description>) -> Option<&Playlist> {
    object.description().manifest().and_then(Manifest::media)
}

/// How far a playlist goes.
fn end(playlist: &Playlist) -> (u64, u64) {
    (playlist.open_segment, playlist.open_parts)
}

fn newest(
    one: Option<Arc<Object<Description>>>,
    other: Option<Arc<Object<Description>>>,
) -> Option<Arc<Object<Description>>> {
    let end_of = |object: &Arc<Object<Description>>| media(object).map(end);
    one.into_iter().chain(other).max_by_key(end_of)
}

fn reach(object: &Object<Description>, wanted: Position) -> Reach {
    media(object).map_or(Reach::Next, |playlist| playlist.reach(wanted))
}
