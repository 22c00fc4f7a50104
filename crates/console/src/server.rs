//! The console's thread.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::backend::Backend;
use crate::connections::{ConsoleLimits, accept};
use crate::feed::Feed;

/// The running console. Dropping it closes the listener and ends the thread.
pub struct Console {
    address: SocketAddr,
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
        listener: TcpListener,
        backend: Arc<dyn Backend>,
        limits: ConsoleLimits,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        // One purge at a time, each on the blocking thread.
        let runtime =
            Builder::new_current_thread().enable_io().enable_time().max_blocking_threads(1).build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let feed = Arc::new(Feed::new(backend.series(), limits.points, limits.listeners));
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(&listener, &backend, &feed, limits) => {}
                    () = feed.run(&*backend, limits.interval) => {}
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

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

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
