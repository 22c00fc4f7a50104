//! One request: checks, signature, answer, log line.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use penstock_keys::protocol::{ErrorCode, Message, Opcode, encode};
use penstock_tls::SignatureKind;
use penstock_tls::digest_signer::DigestError;
use penstock_tls::remote_key::{KeyId, RemoteKeyError};
use tokio::task::spawn_local;

use crate::access_log::Operation;
use crate::clients::{Client, Excess, OperationPlace};
use crate::counters::OperationOutcome;
use crate::keyring::{Key, Signer};
use crate::shared::KeyserverState;

/// Takes the answer to a request, on any thread.
pub(crate) type Reply = Box<dyn FnOnce(Vec<u8>) + Send>;

/// What an operation is logged and counted with.
struct Record {
    shared: Arc<KeyserverState>,
    client: Arc<Client>,
    peer: SocketAddr,
    received: Instant,
    id: u32,
    opcode: Opcode,
    key: Option<KeyId>,
    key_name: Option<String>,
    server_name: Option<String>,
    client_address: Option<IpAddr>,
}

/// A signature that may be made.
struct Permitted {
    key: Arc<Key>,
    kind: SignatureKind,
    digest: Vec<u8>,
    _place: OperationPlace,
}

/// Answers a request: at once, or from a thread that signs.
pub(crate) fn answer(
    shared: &Arc<KeyserverState>,
    client: &Arc<Client>,
    peer: SocketAddr,
    message: &Message<'_>,
    reply: Reply,
) {
    let received = Instant::now();
    if message.opcode == Opcode::PING {
        client.counters().ended(message.opcode, OperationOutcome::Ok, Duration::ZERO);
        return reply(encoded(&Message::new(message.id, Opcode::PONG, message.payload)));
    }
    let mut record = Record {
        shared: Arc::clone(shared),
        client: Arc::clone(client),
        peer,
        received,
        id: message.id,
        opcode: message.opcode,
        key: message.key,
        key_name: None,
        server_name: message.server_name.map(str::to_owned),
        client_address: message.client,
    };
    let permitted = match permit(shared, client, message, received) {
        Ok(permitted) => permitted,
        Err(outcome) => return reply(record.finish(Err(outcome))),
    };
    record.key_name = Some(permitted.key.name.clone());
    // A full queue answers through the job that comes back.
    let job = Job { record, permitted, reply };
    if let Err(job) = job.queue(shared) {
        let Job { record, reply, .. } = *job;
        reply(record.finish(Err(OperationOutcome::Busy)));
    }
}

/// Answers bytes that are no message.
pub(crate) fn refuse(
    shared: &Arc<KeyserverState>,
    client: &Arc<Client>,
    peer: SocketAddr,
    id: u32,
    code: ErrorCode,
) -> Vec<u8> {
    let record = Record {
        shared: Arc::clone(shared),
        client: Arc::clone(client),
        peer,
        received: Instant::now(),
        id,
        opcode: Opcode(0),
        key: None,
        key_name: None,
        server_name: None,
        client_address: None,
    };
    record.finish(Err(OperationOutcome::Failed(code)))
}

fn permit(
    shared: &KeyserverState,
    client: &Client,
    message: &Message<'_>,
    now: Instant,
) -> Result<Permitted, OperationOutcome> {
    if message.opcode.is_answer() {
        return Err(OperationOutcome::Failed(ErrorCode::UnexpectedOpcode));
    }
    let bad_opcode = OperationOutcome::Failed(ErrorCode::BadOpcode);
    let kind = message.opcode.signature().ok_or(bad_opcode)?;
    if kind.hash().is_some_and(|hash| hash.is_legacy()) && !shared.legacy_hashes.load(Relaxed) {
        return Err(bad_opcode);
    }
    // A client is not told which keys there are for others.
    let keyring = shared.keyring.load();
    let key = message.key.and_then(|id| keyring.get(id)).filter(|key| client.may_use(key));
    let key = key.ok_or(OperationOutcome::Failed(ErrorCode::KeyNotFound))?;
    let place = client.enter_operation(now).map_err(|excess| match excess {
        Excess::Operations => OperationOutcome::Busy,
        Excess::Rate => OperationOutcome::RateLimited,
    })?;
    Ok(Permitted { key: Arc::clone(key), kind, digest: message.payload.to_vec(), _place: place })
}

struct Job {
    record: Record,
    permitted: Permitted,
    reply: Reply,
}

impl Job {
    /// Gives the operation to a thread, or to the threads of a token; returns it if too many wait.
    fn queue(self, shared: &Arc<KeyserverState>) -> Result<(), Box<Self>> {
        let key = Arc::clone(&self.permitted.key);
        let Permitted { kind, digest, .. } = &self.permitted;
        match &key.signer {
            Signer::Token(token) => {
                // A digest of another length could be one of another hash.
                let fits = kind.hash().is_none_or(|hash| hash.length() == digest.len());
                let later = fits.then(|| token.sign_digest(*kind, digest.clone()));
                spawn_local(async move {
                    let signed = match later {
                        Some(later) => later.await.map_err(outcome_of),
                        None => Err(OperationOutcome::Failed(ErrorCode::Cryptography)),
                    };
                    self.end(signed);
                });
            }
            Signer::Memory(_) if shared.pool.is_full() => return Err(Box::new(self)),
            Signer::Memory(_) => shared.pool.run(Box::new(move || {
                let Signer::Memory(signer) = &key.signer else { return };
                let signed = signer.sign(self.permitted.kind, &self.permitted.digest).map_err(|error| {
                    OperationOutcome::Failed(match error {
                        DigestError::WrongKind => ErrorCode::BadOpcode,
                        DigestError::WrongLength | DigestError::Library => ErrorCode::Cryptography,
                    })
                });
                self.end(signed);
            })),
        }
        Ok(())
    }

    fn end(self, signed: Result<Vec<u8>, OperationOutcome>) {
        let Self { record, permitted, reply } = self;
        // The place is free before the client can know it.
        drop(permitted);
        reply(record.finish(signed));
    }
}

/// The result of an operation that a token refused.
fn outcome_of(error: RemoteKeyError) -> OperationOutcome {
    match error {
        RemoteKeyError::Overloaded => OperationOutcome::Busy,
        RemoteKeyError::Refused(code) if code == ErrorCode::BadOpcode as u8 => {
            OperationOutcome::Failed(ErrorCode::BadOpcode)
        }
        RemoteKeyError::Refused(code) if code == ErrorCode::Cryptography as u8 => {
            OperationOutcome::Failed(ErrorCode::Cryptography)
        }
        RemoteKeyError::Refused(_) => OperationOutcome::Failed(ErrorCode::KeyNotFound),
        RemoteKeyError::Unavailable | RemoteKeyError::TimedOut | RemoteKeyError::WrongSignature => {
            OperationOutcome::Failed(ErrorCode::Internal)
        }
    }
}

impl Record {
    /// Counts and logs the operation, and encodes its answer.
    fn finish(self, result: Result<Vec<u8>, OperationOutcome>) -> Vec<u8> {
        let outcome = result.as_ref().err().copied().unwrap_or(OperationOutcome::Ok);
        let time = self.received.elapsed();
        self.client.counters().ended(self.opcode, outcome, time);
        self.shared.log(|| Operation {
            time: Timestamp::now(),
            client: self.client.name().to_owned(),
            peer: self.peer,
            opcode: self.opcode,
            key: self.key,
            key_name: self.key_name,
            server_name: self.server_name,
            client_address: self.client_address,
            result: outcome.label(),
            seconds: time.as_secs_f64(),
        });
        match (&result, outcome.code()) {
            (Ok(signature), _) => encoded(&Message::new(self.id, Opcode::RESPONSE, signature)),
            (Err(_), code) => {
                let code = code.unwrap_or(ErrorCode::Internal) as u8;
                encoded(&Message::new(self.id, Opcode::ERROR, &[code]))
            }
        }
    }
}

/// A message whose payload is a signature, an error or what a client sent, all of which are short enough.
fn encoded(message: &Message<'_>) -> Vec<u8> {
    encode(message).unwrap_or_default()
}
