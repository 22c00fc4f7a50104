//! The loop of one connection.

mod ask;
mod handshakes;
mod playback;
mod requests;
mod route;

use std::rc::Rc;

use crate::plan::LoadMode;
use crate::worker::LoadThread;

/// Runs connection `number` of this thread until there is nothing more to do.
pub(crate) async fn slot(worker: &Rc<LoadThread>, number: usize) {
    match worker.plan.mode {
        LoadMode::Handshakes { request } => handshakes::slot(worker, request).await,
        LoadMode::Requests => requests::slot(worker, None).await,
        LoadMode::Download { bitrate } => requests::slot(worker, Some(requests::Pacing { bitrate })).await,
        LoadMode::Playback(config) => playback::slot(worker, config, worker.place(number)).await,
    }
}
