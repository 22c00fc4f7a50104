//! Players, each with its own connections to the servers that its manifest names: one for each of its fetch slots, or one
//! of HTTP/2 for all of them.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

use super::ask::BodyHandling;
use super::requests;
use super::route::{Route, SharedConnection};
use crate::failure::LoadFailure;
use crate::net::{BodyPace, HttpConnection};
use crate::plan::HttpProtocol;
use crate::player::config::PlayerConfig;
use crate::player::manifest::ParsedManifest;
use crate::player::policy::{Fetch, FetchKind, FetchSlot, ManifestFault, Player, PlayerAction};
use crate::player::totals::PlayerReport;
use crate::target::TargetUrl;
use crate::worker::LoadThread;

/// The largest manifest or index that is read.
const READ_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How often a player reports while it plays.
const REPORT_PERIOD: Duration = Duration::from_secs(1);

/// Viewers one after the other: each arrives, watches and leaves, until the run is over. `place` is the share of all
/// viewers that arrive before this one, from 0 to 1.
pub(super) async fn slot(worker: &LoadThread, config: PlayerConfig, place: f64) {
    tokio::time::sleep(config.ramp.mul_f64(place)).await;
    while worker.next_start().await.is_some() {
        let routes = watch(worker, config).await;
        worker.leave();
        let connections = routes.into_iter().flat_map(Routes::into_connections).collect();
        worker.end_connections(connections).await;
    }
}

/// One viewer, from arrival to departure. Returns the connections that are left.
async fn watch(worker: &LoadThread, config: PlayerConfig) -> [Routes; FetchSlot::ALL.len()] {
    let began = worker.shared.began;
    let wall =
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(began.elapsed());
    let player = Player::new(config, worker.plan.target.clone(), began.elapsed()).at(wall);
    let viewer = Viewer {
        worker,
        player: RefCell::new(player),
        shared: SharedConnections::default(),
        is_stalled: Cell::new(false),
        news: Notify::new(),
    };
    let mut routes: [Routes; FetchSlot::ALL.len()] = Default::default();
    let [main, audio, video_list, audio_list, steering] = &mut routes;
    let storm = config.storm.map(|period| began + next_storm(began.elapsed(), period));
    let end = [storm, worker.shared.deadline()].into_iter().flatten().min();
    tokio::select! {
        biased;
        // A viewer that leaves does not wait for the rest of a segment.
        () = time_to_leave(worker, end) => {}
        () = viewer.follow(FetchSlot::Main, main) => {}
        () = viewer.follow(FetchSlot::Audio, audio) => {}
        () = viewer.follow(FetchSlot::VideoList, video_list) => {}
        () = viewer.follow(FetchSlot::AudioList, audio_list) => {}
        () = viewer.follow(FetchSlot::Steering, steering) => {}
        () = viewer.report() => {}
    }
    viewer.leave();
    routes
}

/// A player, and how its slots wake each other.
struct Viewer<'w> {
    worker: &'w LoadThread,
    player: RefCell<Player>,
    shared: SharedConnections,
    /// Whether the totals count this player as stalled.
    is_stalled: Cell<bool>,
    news: Notify,
}

impl Viewer<'_> {
    /// Carries out the actions of one slot, until the player leaves.
    async fn follow(&self, slot: FetchSlot, routes: &mut Routes) {
        let began = self.worker.shared.began;
        loop {
            let news = self.news.notified();
            let action = self.player.borrow_mut().act(slot, began.elapsed());
            match action {
                PlayerAction::Leave => return,
                PlayerAction::Idle => news.await,
                PlayerAction::Wait(then) => {
                    tokio::select! {
                        () = tokio::time::sleep_until((began + then).into()) => {}
                        () = news => {}
                    }
                }
                PlayerAction::Fetch(fetch) => {
                    // Most slots never fetch; boxing the future keeps it out of their size.
                    Box::pin(fetch_one(self, slot, routes, &fetch)).await;
                    self.news.notify_waiters();
                }
            }
        }
    }

    /// How a slot reaches a server: over HTTP/2 and HTTP/3 on the connection that the other slots use.
    fn route(&self, target: &TargetUrl) -> Route {
        match self.worker.plan.protocol {
            HttpProtocol::Http1 => Route::Alone(None),
            HttpProtocol::Http2 { .. } | HttpProtocol::Http3 { .. } => self.shared.to(target),
        }
    }

    /// Adds to the totals while the viewer watches. Never ends.
    #[expect(clippy::infinite_loop, reason = "the viewer drops it when it leaves")]
    async fn report(&self) {
        loop {
            tokio::time::sleep(REPORT_PERIOD).await;
            let report = self.player.borrow_mut().report(self.worker.shared.began.elapsed());
            self.note(&report);
        }
    }

    /// Adds the rest to the totals.
    fn leave(self) {
        let last = self.player.borrow_mut().report(self.worker.shared.began.elapsed());
        self.note(&PlayerReport { is_stalled: false, ..last });
    }

    fn note(&self, report: &PlayerReport) {
        let mut tally = self.worker.tally();
        report.live_distance.iter().for_each(|distance| tally.recent_distance.note(*distance));
        tally.playback.note(report);
        tally.playback.stalled_now += u64::from(report.is_stalled);
        tally.playback.stalled_now -= u64::from(self.is_stalled.replace(report.is_stalled));
    }
}

/// Ready when the viewer must leave, whatever is playing.
async fn time_to_leave(worker: &LoadThread, end: Option<Instant>) {
    let passed = async {
        match end {
            Some(end) => tokio::time::sleep_until(end.into()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = passed => {}
        () = worker.stopped() => {}
    }
}

/// The next time at which all viewers leave.
fn next_storm(now: Duration, period: Duration) -> Duration {
    let period = period.max(Duration::from_millis(1));
    let passed = now.as_nanos() / period.as_nanos();
    period.saturating_mul(u32::try_from(passed + 1).unwrap_or(u32::MAX))
}

/// The most servers to which a slot keeps connections.
const SERVERS_MAX: usize = 4;

/// How a slot reaches servers.
#[derive(Default)]
struct Routes(Vec<(TargetUrl, Route)>);

impl Routes {
    /// The route to the server of this URL. `make` makes one.
    fn to(&mut self, target: &TargetUrl, make: impl FnOnce() -> Route) -> &mut Route {
        let place = match self.0.iter().position(|(server, _)| server.same_server(target)) {
            Some(place) => place,
            None => {
                if self.0.len() >= SERVERS_MAX {
                    drop(self.0.remove(0));
                }
                self.0.push((target.clone(), make()));
                self.0.len() - 1
            }
        };
        &mut self.0[place].1
    }

    fn into_connections(self) -> impl Iterator<Item = HttpConnection> {
        self.0.into_iter().filter_map(|(_, route)| route.into_connection())
    }
}

/// The connections that the slots of a viewer share, one to each server. Slots drop them when they are done with them.
#[derive(Default)]
struct SharedConnections(RefCell<Vec<(TargetUrl, Weak<SharedConnection>)>>);

impl SharedConnections {
    fn to(&self, target: &TargetUrl) -> Route {
        let mut all = self.0.borrow_mut();
        all.retain(|(_, shared)| shared.strong_count() > 0);
        let same = all.iter().find(|(server, _)| server.same_server(target));
        let shared = same.and_then(|(_, shared)| shared.upgrade()).unwrap_or_else(|| {
            let shared = Rc::default();
            all.push((target.clone(), Rc::downgrade(&shared)));
            shared
        });
        Route::Shared(shared)
    }
}

/// The body of a manifest or an index, up to a limit.
#[derive(Default)]
struct ReadBody {
    bytes: RefCell<Vec<u8>>,
    length: Cell<u64>,
    is_too_large: Cell<bool>,
}

impl ReadBody {
    fn take(&self, kind: FetchKind, piece: &[u8]) {
        self.length.set(self.length.get() + piece.len() as u64);
        if kind == FetchKind::Media {
            return;
        }
        let mut bytes = self.bytes.borrow_mut();
        if bytes.len() + piece.len() > READ_BYTES_MAX {
            self.is_too_large.set(true);
        } else {
            bytes.extend_from_slice(piece);
        }
    }
}

async fn fetch_one(viewer: &Viewer<'_>, slot: FetchSlot, routes: &mut Routes, fetch: &Fetch) {
    let worker = viewer.worker;
    let began = worker.shared.began;
    let start = Instant::now();
    let body = ReadBody::default();
    let keep = |bytes: &[u8]| body.take(fetch.kind, bytes);
    // A manifest or index without end is given up.
    let pace = |_: u64| if body.is_too_large.get() { BodyPace::Stop } else { BodyPace::Go };
    let is_here = fetch.target.same_server(&worker.plan.target);
    let elsewhere = (!is_here).then_some(&fetch.target);
    let workload = &worker.plan.workload;
    let mut request = match elsewhere {
        None => workload.request("GET", &fetch.target.path, fetch.range.as_deref()),
        Some(target) => workload.request_at(&target.authority(), "GET", &target.path, fetch.range.as_deref()),
    };
    request.is_delta = fetch.kind == FetchKind::DeltaManifest;
    if let Some(said) = &fetch.cmcd {
        request.fields.push(("CMCD-Request".to_owned(), said.clone()));
    }
    let handling = BodyHandling { keep: &keep, pace: &pace, ..BodyHandling::DROP };
    let route = routes.to(&fetch.target, || viewer.route(&fetch.target));
    let answered = requests::fetch(worker, route, elsewhere, &request, &handling).await;
    let now = began.elapsed();
    let mut player = viewer.player.borrow_mut();
    let taken = match answered {
        Ok(_) | Err(LoadFailure::ResponseTimeout) if body.is_too_large.get() => {
            Err(Some(if fetch.kind == FetchKind::Index {
                LoadFailure::IndexInvalid
            } else {
                LoadFailure::ManifestInvalid
            }))
        }
        Ok(400) if request.is_delta => {
            // Counted by its status.
            player.refuse_delta(slot);
            return;
        }
        // Counted by its status; an index that came with its whole file is unusable.
        Ok(status) if !matches!(status, 200 | 206) || (fetch.kind == FetchKind::Index && status == 200) => {
            Err(None)
        }
        Ok(_) => take(&mut player, slot, now, fetch, &body).map_err(Some),
        Err(failure) => Err(Some(failure)),
    };
    match taken {
        Ok(()) => worker.tally().finish(start.elapsed()),
        Err(failure) => {
            if let Some(failure) = failure {
                worker.tally().fail(failure);
            }
            match failure {
                Some(LoadFailure::DeltaMismatch) => player.refuse_delta(slot),
                // It stays where it is.
                _ if fetch.kind == FetchKind::Steering => {
                    player.take_steering(now, b"");
                }
                _ => player.fail(slot, now),
            }
        }
    }
}

/// Gives the player what was fetched.
fn take(
    player: &mut Player,
    slot: FetchSlot,
    now: Duration,
    fetch: &Fetch,
    body: &ReadBody,
) -> Result<(), LoadFailure> {
    let bytes = body.bytes.borrow();
    match fetch.kind {
        FetchKind::Manifest | FetchKind::DeltaManifest => {
            let text = str::from_utf8(&bytes).map_err(|_| LoadFailure::ManifestInvalid)?;
            let manifest = ParsedManifest::parse(text, &fetch.target).ok_or(LoadFailure::ManifestInvalid)?;
            player.take_manifest(slot, now, manifest).map_err(|fault| match fault {
                ManifestFault::Unplayable => LoadFailure::ManifestInvalid,
                ManifestFault::DeltaMismatch => LoadFailure::DeltaMismatch,
            })
        }
        FetchKind::Index if !player.take_index(now, &bytes) => Err(LoadFailure::IndexInvalid),
        FetchKind::Index => Ok(()),
        FetchKind::Media => {
            player.take_media(slot, now, body.length.get());
            Ok(())
        }
        FetchKind::Steering if !player.take_steering(now, &bytes) => Err(LoadFailure::SteeringInvalid),
        FetchKind::Steering => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storms_come_at_the_same_moment_for_all() {
        let second = Duration::from_secs(1);
        assert_eq!(next_storm(Duration::ZERO, 10 * second), 10 * second);
        assert_eq!(next_storm(9 * second, 10 * second), 10 * second);
        assert_eq!(next_storm(10 * second, 10 * second), 20 * second);
        assert_eq!(next_storm(second * 25, 10 * second), 30 * second);
    }
}
