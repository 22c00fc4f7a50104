//! Opens connections as the plan says.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use boring::error::ErrorStack;
use boring::ssl::{Ssl, SslContext, SslStream};
use penstock_sys::ssl::{self, client};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::context;
use super::link::{Input, Link, Trouble};
use super::pipe::Pipe;
use super::sessions::Sessions;
use crate::failure::Failure;
use crate::plan::{Mode, Plan, Resume, Tls};
use crate::target::Target;

/// Opens connections; each thread has one.
pub(crate) struct Connector {
    context: Option<SslContext>,
    /// For servers that a manifest named: sessions are neither offered to them nor taken from them.
    elsewhere: Option<SslContext>,
    tls: Tls,
    host: String,
    sessions: Arc<Sessions>,
    timeout: Duration,
    buffer_bytes: usize,
    /// How often a session was waited for that did not come.
    waited_in_vain: Cell<u32>,
}

/// How far a connection came on its way, and how long that took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opening {
    pub(crate) tcp: Option<Duration>,
    pub(crate) tls: Option<Duration>,
    /// A session was offered.
    pub(crate) offered: bool,
    /// Early data can be sent.
    pub(crate) early_data: bool,
}

/// How long a server may take to send a ticket when it is not asked for anything.
const SESSION_PATIENCE: Duration = Duration::from_millis(200);

/// After so many times in vain a server is one that gives none, and waiting for them would only slow the run.
const WAITS_IN_VAIN_MAX: u32 = 3;

/// What is read at once where little is read.
const SMALL_BUFFER_BYTES: usize = 17 * 1024;
/// What is read at once where much is read: many records with one system call.
const LARGE_BUFFER_BYTES: usize = 256 * 1024;

impl Connector {
    /// # Errors
    /// Which option of the plan cannot be used.
    pub(crate) fn new(plan: &Plan, sessions: Arc<Sessions>) -> Result<Self, String> {
        let context = if plan.target.tls { Some(context::build(&plan.tls, &sessions)?) } else { None };
        let elsewhere = match plan.mode {
            Mode::Playback(_) => {
                let tls = Tls { resume: Resume::None, server_name: None, ..plan.tls.clone() };
                Some(context::build(&tls, &sessions)?)
            }
            _ => None,
        };
        Ok(Self {
            context,
            elsewhere,
            tls: plan.tls.clone(),
            host: plan.target.host.clone(),
            sessions,
            timeout: plan.timeout,
            waited_in_vain: Cell::new(0),
            buffer_bytes: match plan.mode {
                Mode::Handshakes { .. } => SMALL_BUFFER_BYTES,
                Mode::Requests | Mode::Download { .. } | Mode::Playback(_) => LARGE_BUFFER_BYTES,
            },
        })
    }

    /// Opens a connection, notes in `opening` how far it came, and leaves it ready for a request. `elsewhere` is the
    /// server if it is not the plan's.
    pub(crate) async fn open(
        &self,
        elsewhere: Option<&Target>,
        address: SocketAddr,
        opening: &mut Opening,
    ) -> Result<Link, Trouble> {
        let start = Instant::now();
        let socket = match timeout(self.timeout, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return Err((Failure::of_connect(&error), error.to_string())),
            Err(_) => return Err((Failure::ConnectTimeout, format!("{:?} were not enough", self.timeout))),
        };
        // A request must not wait for the acknowledgement of the one before.
        socket.set_nodelay(true).map_err(|error| (Failure::ConnectFailed, error.to_string()))?;
        let connected = Instant::now();
        opening.tcp = Some(connected - start);
        let (context, name) = match elsewhere {
            None => (self.context.as_ref(), None),
            Some(target) => (self.elsewhere.as_ref().filter(|_| target.tls), Some(target.host.as_str())),
        };
        let Some(context) = context else { return Ok(Link::Plain(socket)) };
        let prepared = self.prepare(context, name, socket, opening);
        let stream = prepared.map_err(|error| (Failure::HandshakeInvalid, error.to_string()))?;
        let mut link = Link::Tls(Box::new(stream));
        link.handshake(self.timeout).await?;
        opening.tls = Some(connected.elapsed());
        opening.early_data = link.is_in_early_data();
        Ok(link)
    }

    fn prepare(
        &self,
        context: &SslContext,
        elsewhere: Option<&str>,
        socket: TcpStream,
        opening: &mut Opening,
    ) -> Result<SslStream<Pipe>, ErrorStack> {
        let mut ssl = Ssl::new(context)?;
        ssl::attach_notes(&mut ssl);
        let name = elsewhere.unwrap_or_else(|| server_name(&self.tls, &self.host));
        if name.parse::<std::net::IpAddr>().is_err() && !name.is_empty() {
            ssl.set_hostname(name)?;
        }
        if !self.tls.insecure {
            let expected = if name.is_empty() { &self.host } else { name };
            match expected.parse() {
                Ok(ip) => ssl.param_mut().set_ip(ip)?,
                Err(_) => ssl.param_mut().set_host(expected)?,
            }
        }
        if self.tls.resume != Resume::None
            && elsewhere.is_none()
            && let Some(session) = self.sessions.take()
        {
            client::offer_live_session(&mut ssl, &session)?;
            opening.offered = true;
            if self.tls.resume == Resume::EarlyData && client::allows_early_data(&session) {
                client::send_early_data(&mut ssl);
            }
        }
        SslStream::new(ssl, Pipe::new(socket, self.buffer_bytes))
    }

    /// If there is no session to offer the next time: reads until the server has sent one, or nothing for a while.
    pub(crate) async fn await_session(&self, link: &mut Link) {
        let in_vain = self.waited_in_vain.get();
        if self.context.is_none() || self.tls.resume == Resume::None || in_vain >= WAITS_IN_VAIN_MAX {
            return;
        }
        let mut nothing = [0; 64];
        while self.sessions.count() == 0 {
            match link.read(&mut nothing) {
                Input::Bytes(_) => {}
                // The read may have met a ticket and nothing else.
                Input::Wait(_) if self.sessions.count() > 0 => {}
                Input::Wait(waiting) if link.wait(waiting, SESSION_PATIENCE).await => {}
                _ => {
                    self.waited_in_vain.set(in_vain + 1);
                    return;
                }
            }
        }
        self.waited_in_vain.set(0);
    }
}

/// The server name that is sent: empty for none. RFC 6066 §3 allows no IP addresses in it.
pub(crate) fn server_name<'a>(tls: &'a Tls, host: &'a str) -> &'a str {
    tls.server_name.as_deref().unwrap_or(host)
}
