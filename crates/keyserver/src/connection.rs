//! One connection of a client: requests in, answers out, in any order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use penstock_config::limits;
use penstock_keys::protocol::{ErrorCode, HEADER_BYTES, ProtocolError, decode_body, decode_header};
use penstock_tls::{MutualServer, OutboundStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use crate::request::{self, Reply};
use crate::shared::KeyserverState;

/// An answer, and its place among those that wait to be written.
type SentAnswer = (Vec<u8>, OwnedSemaphorePermit);

/// A verified client with its connection.
pub(crate) struct Connection {
    pub(crate) shared: Arc<KeyserverState>,
    pub(crate) name: String,
    pub(crate) peer: SocketAddr,
    /// True once the keyserver drains.
    pub(crate) draining: watch::Receiver<bool>,
    pub(crate) admission: Admission,
}

/// What a client's certificate was verified by, and for how long that holds.
pub(crate) struct Admission {
    /// The rules of the handshake.
    pub(crate) by: Arc<MutualServer>,
    /// Those in force.
    pub(crate) rules: Arc<ArcSwap<MutualServer>>,
    pub(crate) until: Option<SystemTime>,
}

impl Admission {
    /// Whether the client has to show a certificate again, and why.
    fn has_ended(&self, now: SystemTime) -> Option<&'static str> {
        if self.until.is_some_and(|until| until < now) {
            return Some("its certificate has expired");
        }
        (!self.rules.load().admits_as(&self.by)).then_some("other certificates are admitted since")
    }
}

impl Connection {
    /// Serves the connection until the client closes it, breaks the protocol or stalls, or the keyserver drains.
    pub(crate) async fn serve(self, stream: OutboundStream, answers_max: usize) {
        let (mut reader, writer) = split(stream);
        let (answers, queue) = unbounded_channel();
        // Answers that were not written hold their places: a client that does not read gets nothing more.
        let places = Arc::new(Semaphore::new(answers_max));
        let mut draining = self.draining.clone();
        let writing = write(writer, queue);
        let reading = async {
            let reason = tokio::select! {
                reason = receive_all(&self, &mut reader, &answers, &places) => reason,
                _ = drained(&mut draining) => "draining".to_owned(),
            };
            // Operations under way have clones of the sender, so that writing ends after their answers.
            drop(answers);
            reason
        };
        tokio::pin!(writing);
        let reason = tokio::select! {
            // A client that stalls or is gone gets no more answers.
            reason = &mut writing => reason,
            reason = reading => {
                writing.await;
                reason
            }
        };
        tracing::debug!("connection of {} at {} has ended: {reason}", self.name, self.peer);
    }
}

async fn drained(draining: &mut watch::Receiver<bool>) {
    // The sender lives as long as the runtime.
    drop(draining.wait_for(|draining| *draining).await);
}

async fn receive_all(
    connection: &Connection,
    reader: &mut ReadHalf<OutboundStream>,
    answers: &UnboundedSender<SentAnswer>,
    places: &Arc<Semaphore>,
) -> String {
    let mut body = Vec::new();
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(places).acquire_owned().await else { return "closed".to_owned() };
        if let Err(reason) = receive(connection, reader, &mut body, answers, place).await {
            return reason;
        }
    }
}

/// Receives one message and has it answered.
async fn receive(
    connection: &Connection,
    reader: &mut ReadHalf<OutboundStream>,
    body: &mut Vec<u8>,
    answers: &UnboundedSender<SentAnswer>,
    place: OwnedSemaphorePermit,
) -> Result<(), String> {
    let Connection { shared, name, peer, admission, .. } = connection;
    let idle = Duration::from_secs(limits::KEYSERVER_IDLE_SECONDS);
    let whole = Duration::from_secs(limits::KEYSERVER_MESSAGE_SECONDS);
    let failed = |error: io::Error| error.to_string();
    let mut header = [0; HEADER_BYTES];
    let first = timeout(idle, reader.read(&mut header[..1])).await.map_err(|_| "it was idle".to_owned())?;
    if first.map_err(failed)? == 0 {
        return Err("the client has closed it".to_owned());
    }
    let message = async {
        reader.read_exact(&mut header[1..]).await.map_err(failed)?;
        let header = match decode_header(header) {
            Ok(header) => header,
            Err(error) => return Ok(Err(error)),
        };
        body.resize(header.body_bytes, 0);
        reader.read_exact(body).await.map_err(failed)?;
        Ok::<_, String>(Ok(header))
    };
    let header = timeout(whole, message).await.map_err(|_| "a message took too long".to_owned())??;
    // A reload may have changed what the client may do, or removed it.
    if let Some(why) = admission.has_ended(SystemTime::now()) {
        return Err(why.to_owned());
    }
    let clients = shared.clients.load();
    let client = clients.get(name).ok_or_else(|| "it is no client any more".to_owned())?;
    let sender = answers.clone();
    let reply: Reply = Box::new(move |answer| {
        // The connection may have ended meanwhile.
        drop(sender.send((answer, place)));
    });
    match header.map(|header| (header.id, decode_body(header.id, body))) {
        Ok((_, Ok(message))) => request::answer(shared, client, *peer, &message, reply),
        Ok((id, Err(_))) => reply(request::refuse(shared, client, *peer, id, ErrorCode::Malformed)),
        Err(error) => {
            // What follows cannot be told apart any more.
            let code = match error {
                ProtocolError::Version => ErrorCode::VersionMismatch,
                ProtocolError::TooLong | ProtocolError::Malformed => ErrorCode::Malformed,
            };
            reply(request::refuse(shared, client, *peer, 0, code));
            return Err(error.to_string());
        }
    }
    Ok(())
}

/// Writes answers until the queue ends, then closes the connection. Returns why it has ended.
async fn write(mut writer: WriteHalf<OutboundStream>, mut queue: UnboundedReceiver<SentAnswer>) -> String {
    let patience = Duration::from_secs(limits::KEYSERVER_MESSAGE_SECONDS);
    while let Some((mut batch, place)) = queue.recv().await {
        let mut places = vec![place];
        while let Ok((answer, place)) = queue.try_recv() {
            batch.extend_from_slice(&answer);
            places.push(place);
        }
        let written = async {
            writer.write_all(&batch).await?;
            writer.flush().await
        };
        match timeout(patience, written).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error.to_string(),
            Err(_) => return "the client does not read".to_owned(),
        }
    }
    match timeout(patience, writer.shutdown()).await {
        Ok(Err(error)) => error.to_string(),
        Ok(Ok(())) | Err(_) => "it is over".to_owned(),
    }
}
