//! Players, each with a connection of its own to each server that its manifest names, for each of its lines.

use std::cell::RefCell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::requests::{self, Kept};
use tokio::sync::Notify;

use crate::failure::Failure;
use crate::player::{Action, Fetch, Habits, Kind, Line, Manifest, Player};
use crate::run::Worker;
use crate::target::Target;

/// A larger manifest is none, nor is a larger index.
const READ_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A viewer: comes, watches, leaves, and comes again, until the run is over. `place` is the share of all viewers that
/// come before this one, from 0 to 1.
pub(super) async fn slot(worker: &Worker, habits: Habits, place: f64) {
    tokio::time::sleep(habits.ramp.mul_f64(place)).await;
    while worker.next_start().await.is_some() {
        watch(worker, habits).await;
        worker.leave();
    }
}

/// One player from its coming to its leaving.
async fn watch(worker: &Worker, habits: Habits) {
    let began = worker.shared.began;
    let wall =
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(began.elapsed());
    let player = Player::new(habits, worker.plan.target.clone(), began.elapsed()).at(wall);
    let viewer = Viewer { worker, player: RefCell::new(player), news: Notify::new() };
    let mut kept: [Connections; Line::ALL.len()] = Default::default();
    let [main, sound, picture_list, sound_list] = &mut kept;
    let storm = habits.storm.map(|period| began + next_storm(began.elapsed(), period));
    let end = [storm, worker.shared.deadline()].into_iter().flatten().min();
    tokio::select! {
        biased;
        // A viewer who leaves does not wait for the rest of a segment.
        () = time_to_leave(worker, end) => {}
        () = viewer.follow(Line::Main, main) => {}
        () = viewer.follow(Line::Sound, sound) => {}
        () = viewer.follow(Line::PictureList, picture_list) => {}
        () = viewer.follow(Line::SoundList, sound_list) => {}
    }
    kept.into_iter().for_each(Connections::close);
    let totals = viewer.player.into_inner().leave(began.elapsed());
    worker.tally().playback.add(&totals);
}

/// A player, and what its lines tell each other.
struct Viewer<'w> {
    worker: &'w Worker,
    player: RefCell<Player>,
    news: Notify,
}

impl Viewer<'_> {
    /// Does what the player wants of one of its lines, until the player leaves.
    async fn follow(&self, line: Line, kept: &mut Connections) {
        let began = self.worker.shared.began;
        loop {
            let news = self.news.notified();
            let action = self.player.borrow_mut().act(line, began.elapsed());
            match action {
                Action::Leave => return,
                Action::Idle => news.await,
                Action::Wait(then) => {
                    tokio::select! {
                        () = tokio::time::sleep_until((began + then).into()) => {}
                        () = news => {}
                    }
                }
                Action::Fetch(fetch) => {
                    // Most lines of most players never fetch anything: what that takes is not theirs all the time.
                    Box::pin(fetch_one(self, line, kept, &fetch)).await;
                    self.news.notify_waiters();
                }
            }
        }
    }
}

/// Ready when the viewer has to leave, whatever the film.
async fn time_to_leave(worker: &Worker, end: Option<Instant>) {
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

/// When all leave the next time.
fn next_storm(now: Duration, period: Duration) -> Duration {
    let period = period.max(Duration::from_millis(1));
    let passed = now.as_nanos() / period.as_nanos();
    period.saturating_mul(u32::try_from(passed + 1).unwrap_or(u32::MAX))
}

/// More servers at the same time are not kept connections to.
const SERVERS_MAX: usize = 4;

/// A player's connections, one to each server.
#[derive(Default)]
struct Connections(Vec<(Target, Option<Kept>)>);

impl Connections {
    /// The place of the connection to the server of this target.
    fn to(&mut self, target: &Target) -> &mut Option<Kept> {
        let place = match self.0.iter().position(|(server, _)| server.same_server(target)) {
            Some(place) => place,
            None => {
                if self.0.len() >= SERVERS_MAX
                    && let (_, Some(kept)) = self.0.remove(0)
                {
                    kept.close();
                }
                self.0.push((target.clone(), None));
                self.0.len() - 1
            }
        };
        &mut self.0[place].1
    }

    fn close(self) {
        self.0.into_iter().filter_map(|(_, kept)| kept).for_each(Kept::close);
    }
}

async fn fetch_one(viewer: &Viewer<'_>, line: Line, kept: &mut Connections, fetch: &Fetch) {
    let worker = viewer.worker;
    let began = worker.shared.began;
    let start = Instant::now();
    let body = RefCell::new(Vec::new());
    let length = std::cell::Cell::new(0);
    let keep = |bytes: &[u8]| {
        length.set(length.get() + bytes.len() as u64);
        if fetch.kind != Kind::Media && body.borrow().len() + bytes.len() <= READ_BYTES_MAX {
            body.borrow_mut().extend_from_slice(bytes);
        }
    };
    let is_here = fetch.target.same_server(&worker.plan.target);
    let elsewhere = (!is_here).then_some(&fetch.target);
    let workload = &worker.plan.workload;
    let request = match elsewhere {
        None => workload.request("GET", &fetch.target.path, fetch.range.as_deref()),
        Some(target) => workload.request_at(&target.authority(), "GET", &target.path, fetch.range.as_deref()),
    };
    let outcome = requests::fetch(worker, kept.to(&fetch.target), elsewhere, &request, &keep).await;
    let now = began.elapsed();
    let mut player = viewer.player.borrow_mut();
    let taken = match outcome {
        // Already counted by its status, and so is an index that came with all of its file.
        Ok(status) if !matches!(status, 200 | 206) || (fetch.kind == Kind::Index && status == 200) => None,
        Ok(_) => {
            Some(take(&mut player, line, now, fetch, Body { bytes: body.into_inner(), length: length.get() }))
        }
        Err(failure) => Some(Err(failure)),
    };
    match taken {
        Some(Ok(())) => worker.tally().finish(start.elapsed()),
        Some(Err(failure)) => worker.tally().fail(failure),
        None => {}
    }
    if !matches!(taken, Some(Ok(()))) {
        player.fail(line, now);
    }
}

/// What came: its bytes if they are to be read, and how many there were.
struct Body {
    bytes: Vec<u8>,
    length: u64,
}

/// Tells the player what came.
fn take(player: &mut Player, line: Line, now: Duration, fetch: &Fetch, body: Body) -> Result<(), Failure> {
    match fetch.kind {
        Kind::Manifest => {
            let manifest =
                str::from_utf8(&body.bytes).ok().and_then(|text| Manifest::parse(text, &fetch.target));
            let is_played = manifest.is_some_and(|manifest| player.take_manifest(line, now, manifest));
            if is_played { Ok(()) } else { Err(Failure::ManifestInvalid) }
        }
        Kind::Index if !player.take_index(now, &body.bytes) => Err(Failure::IndexInvalid),
        Kind::Index => Ok(()),
        Kind::Media => {
            player.take_media(line, now, body.length);
            Ok(())
        }
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
