//! A connection of HTTP/2 that several requests share. The framing is that of the crate `h2`.

mod exchange;
mod transport;

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::transport::{SharedLink, Transport};
use super::link::ClientConnection;
use crate::failure::LoadFailure;
use crate::plan::ConnectionEnding;
use crate::response::HEAD_BYTES_MAX;

/// The flow-control windows that a client offers (RFC 9113 §5.2, RFC 9000 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    pub(super) stream: u32,
    pub(super) connection: u32,
}

/// 1.3 Gbit/s over a path with a round trip of 100 ms. Browsers offer 6 to 12 MiB.
const STREAM_WINDOW_BYTES: u32 = 16 * 1024 * 1024;
/// Also the most bytes that a connection holds for streams which do not read.
const CONNECTION_WINDOW_BYTES: u32 = 32 * 1024 * 1024;
/// How often something is looked for that the task of a connection may have read.
const TASK_PERIOD: Duration = Duration::from_millis(1);
/// The initial window of RFC 9113 §6.9.2.
const INITIAL_WINDOW_BYTES: u32 = 65_535;

impl Windows {
    /// The windows of this many streams, whose bodies are read at this rate (bits per second) or at full speed. A body
    /// that is read slowly has a window of one second: with a larger one the server would be done long before.
    pub(crate) fn new(streams: usize, bitrate: Option<u64>) -> Self {
        let second = |bitrate: u64| u32::try_from(bitrate / 8).unwrap_or(u32::MAX);
        let stream = bitrate.map_or(STREAM_WINDOW_BYTES, second);
        let stream = stream.clamp(INITIAL_WINDOW_BYTES, STREAM_WINDOW_BYTES);
        let connection = stream.saturating_mul(u32::try_from(streams).unwrap_or(u32::MAX));
        Self { stream, connection: connection.min(CONNECTION_WINDOW_BYTES) }
    }
}

/// A connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Http2Connection {
    sender: SendRequest<Bytes>,
    link: Rc<SharedLink>,
    driver: Rc<Driver>,
}

/// The task that reads and writes. It ends with the last clone of the connection.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Http2Connection {
    /// Starts HTTP/2 on an open connection. Does not wait for the server's SETTINGS.
    pub(crate) async fn start(link: ClientConnection, windows: Windows) -> Result<Self, LoadFailure> {
        let link = Rc::new(SharedLink::new(link));
        let settings = Builder::new()
            // More than one only once the server has said how many it takes.
            .initial_max_send_streams(1)
            .initial_window_size(windows.stream)
            .initial_connection_window_size(windows.connection)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            .enable_push(false)
            .handshake(Transport::new(Rc::clone(&link)));
        let (sender, connection) = settings.await.map_err(|_| LoadFailure::RequestNotSent)?;
        let driver = tokio::task::spawn_local(async move {
            // Each request learns the error by itself.
            drop(connection.await);
        });
        Ok(Self { sender, link, driver: Rc::new(Driver(driver)) })
    }

    /// Whether the connection has not ended.
    pub(crate) fn is_open(&self) -> bool {
        !self.driver.0.is_finished()
    }

    /// Whether both are the same connection.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.driver, &other.driver)
    }

    /// Calls this with the connection below.
    pub(crate) fn with_link<T>(&self, call: impl FnOnce(&ClientConnection) -> T) -> T {
        call(&self.link.connection())
    }

    /// Waits until this is true or the connection has ended, while its task reads.
    pub(crate) async fn wait_until(&self, is_enough: impl Fn() -> bool) {
        while !is_enough() && self.is_open() {
            tokio::time::sleep(TASK_PERIOD).await;
        }
    }

    /// Sends GOAWAY and ends the connection, unless other clones still use it.
    pub(crate) async fn end(self, ending: ConnectionEnding, limit: Duration) {
        let Self { sender, link, driver } = self;
        let Ok(mut driver) = Rc::try_unwrap(driver) else { return };
        drop(sender);
        if ending == ConnectionEnding::Reset || timeout(limit, &mut driver.0).await.is_err() {
            driver.0.abort();
            // The task has dropped the connection when this is ready.
            drop((&mut driver.0).await);
        }
        if let Some(link) = Rc::into_inner(link) {
            link.into_connection().end(ending, limit).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_follow_the_bitrate_and_the_number_of_streams_within_limits() {
        let mib = 1024 * 1024;
        for (streams, bitrate, stream, connection) in [
            (1, None, 16 * mib, 16 * mib),
            (100, None, 16 * mib, 32 * mib),
            (1, Some(8_000_000), 1_000_000, 1_000_000),
            (3, Some(8_000_000), 1_000_000, 3_000_000),
            (usize::MAX, Some(u64::MAX), 16 * mib, 32 * mib),
            (1, Some(8), 65_535, 65_535),
        ] {
            assert_eq!(
                Windows::new(streams, bitrate),
                Windows { stream, connection },
                "{streams} {bitrate:?}"
            );
        }
    }
}
