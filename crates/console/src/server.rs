//! The console's thread.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::backend::{Backend, Look};
use crate::connections::{ConsoleLimits, accept};
use crate::feed::Feed;
use crate::socket::AdminSocket;

/// The running console. Dropping it closes the listener and ends the thread.
pub struct Console {
    address: String,
    /// Closed to end the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Console {
    /// Starts to serve on a listener.
    ///
    /// # Errors
    /// When the thread or its runtime cannot be started.
    pub fn start(
        socket: impl Into<AdminSocket>,
        backend: Arc<dyn Backend>,
        limits: ConsoleLimits,
    ) -> io::Result<Self> {
        let socket = socket.into();
        let address = socket.name()?;
        // One purge at a time, each on the blocking thread.
        let runtime =
            Builder::new_current_thread().enable_io().enable_time().max_blocking_threads(1).build()?;
        let listener = {
            let _inside = runtime.enter();
            socket.listen()?
        };
        let feed = Arc::new(Feed::new(backend.series(), limits.points, limits.listeners));
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(&listener, &backend, &feed, limits) => {}
                    () = feed.run(&*backend, limits.interval) => {}
                    () = look_often(backend.look()) => {}
                    // Closed without a message: the console is dropped.
                    _ = stopped => {}
                }
            });
            drop(listener);
            // A purge under way ends on its own thread.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("console".to_owned()).spawn(serve)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens: `127.0.0.1:9600`, or `unix:` with a path.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// Looks about a hundred times a second, never twice after the same pause: work that comes back at a fixed pace would be seen
/// always or never.
#[expect(clippy::infinite_loop, reason = "ended by dropping it")]
async fn look_often(look: Option<Look>) {
    let Some(look) = look else { return std::future::pending().await };
    let mut pause = LOOK_PAUSES.iter().cycle();
    loop {
        tokio::time::sleep(Duration::from_millis(*pause.next().unwrap_or(&10))).await;
        look();
    }
}

/// Milliseconds between looks; ten on average.
const LOOK_PAUSES: [u64; 7] = [7, 12, 9, 13, 8, 11, 10];

impl Drop for Console {
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the console thread panicked");
        }
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Console").field("address", &self.address).finish_non_exhaustive()
    }
}
