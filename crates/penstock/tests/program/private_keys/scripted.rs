//! A keyserver that misbehaves as a test tells it.

use std::fs;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use penstock_keys::protocol::{HEADER_BYTES, Message, Opcode, decode_body, decode_header, encode};
use penstock_testkit::{ReservedAddress, Server};
use penstock_tls::certificate::Certificate;
use penstock_tls::digest_signer::DigestSigner;
use penstock_tls::{
    ClientCertificateLimits, ClientCertificateMode, ClientCertificates, MutualServer, OutboundStream,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, WriteHalf, split};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

/// What it does with an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Script {
    /// Signs after this many operations have come, the last one first.
    Gather(usize),
    /// Signs another digest.
    Wrong,
    /// Answers with bytes that are no signature.
    Garbage,
    /// Answers with this error.
    Error(u8),
    /// Answers the first operations of a connection, and then none any more.
    SilentAfter(u64),
    /// Signs each operation after this time, without regard to others.
    Slow(Duration),
}

/// A running scripted keyserver. Pings are answered.
pub(crate) struct Scripted {
    pub(crate) address: ReservedAddress,
    /// Operations that it got.
    operations: Arc<AtomicU64>,
    script: Arc<Mutex<Script>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Scripted {
    /// Starts it with the certificate `ec` and the keys `ec` and `rsa` of a server.
    pub(crate) fn start(server: &Server, script: Script) -> Self {
        let file = |name: &str| fs::read(server.certificates().path(name)).unwrap();
        let certificate = Certificate::from_pem(&file("ec.crt"), &file("ec.key")).unwrap();
        let limits = ClientCertificateLimits { depth: 4, name_bytes: 100, authority_names_bytes: 1000 };
        let clients =
            ClientCertificates::new(&file("authority.crt"), ClientCertificateMode::Required, limits).unwrap();
        let tls = MutualServer::new(&certificate, &clients).unwrap();
        let keys = ["ec.key", "rsa.key"].map(|name| DigestSigner::from_pem(&file(name)).unwrap());
        let address = ReservedAddress::reserve();
        let listener = address.listen();
        listener.set_nonblocking(true).unwrap();
        let operations = Arc::new(AtomicU64::new(0));
        let script = Arc::new(Mutex::new(script));
        let (counted, followed) = (Arc::clone(&operations), Arc::clone(&script));
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            LocalSet::new().block_on(&runtime, async move {
                let listener = TcpListener::from_std(listener).unwrap();
                let shared = Rc::new(Shared { keys, operations: counted, script: followed });
                let accepting = async {
                    loop {
                        let (socket, _) = listener.accept().await.unwrap();
                        let (tls, shared) = (tls.clone(), Rc::clone(&shared));
                        spawn_local(async move {
                            if let Ok((stream, _)) = tls.accept(socket).await {
                                serve(stream, &shared).await;
                            }
                        });
                    }
                };
                tokio::select! {
                    () = accepting => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, operations, script, stop: Some(stop), thread: Some(thread) }
    }

    /// Does something else with the operations that come from now on.
    pub(crate) fn follow(&self, script: Script) {
        *self.script.lock().unwrap() = script;
    }

    pub(crate) fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take().filter(|_| !thread::panicking()) {
            thread.join().unwrap();
        }
    }
}

/// What its connections share.
struct Shared {
    keys: [DigestSigner; 2],
    operations: Arc<AtomicU64>,
    script: Arc<Mutex<Script>>,
}

async fn serve(stream: OutboundStream, shared: &Shared) {
    let (mut reader, writer) = split(stream);
    let writer = Rc::new(Writer::new(writer));
    let (mut seen, mut waiting) = (0, Vec::new());
    loop {
        let mut header = [0; HEADER_BYTES];
        if reader.read_exact(&mut header).await.is_err() {
            return;
        }
        let header = decode_header(header).unwrap();
        let mut body = vec![0; header.body_bytes];
        reader.read_exact(&mut body).await.unwrap();
        let message = decode_body(header.id, &body).unwrap();
        if message.opcode == Opcode::PING {
            reply(&writer, &Message::new(message.id, Opcode::PONG, message.payload)).await;
            continue;
        }
        shared.operations.fetch_add(1, Ordering::Relaxed);
        seen += 1;
        let kind = message.opcode.signature().unwrap();
        let key = shared.keys.iter().find(|key| Some(key.id()) == message.key).unwrap();
        let sign = |digest: &[u8]| (Opcode::RESPONSE, key.sign(kind, digest).unwrap());
        let script = *shared.script.lock().unwrap();
        let (opcode, payload) = match script {
            Script::Gather(_) | Script::Slow(_) => sign(message.payload),
            Script::Wrong => sign(&vec![7; message.payload.len()]),
            Script::Garbage => (Opcode::RESPONSE, vec![7; 256]),
            Script::Error(code) => (Opcode::ERROR, vec![code]),
            Script::SilentAfter(count) if seen > count => continue,
            Script::SilentAfter(_) => sign(message.payload),
        };
        if let Script::Slow(delay) = script {
            let (id, writer) = (message.id, Rc::clone(&writer));
            spawn_local(async move {
                sleep(delay).await;
                reply(&writer, &Message::new(id, opcode, &payload)).await;
            });
            continue;
        }
        waiting.push((message.id, opcode, payload));
        if matches!(script, Script::Gather(count) if waiting.len() < count) {
            continue;
        }
        while let Some((id, opcode, payload)) = waiting.pop() {
            reply(&writer, &Message::new(id, opcode, &payload)).await;
        }
    }
}

/// Operations that take time answer beside the others.
type Writer = tokio::sync::Mutex<WriteHalf<OutboundStream>>;

async fn reply(writer: &Writer, message: &Message<'_>) {
    let bytes = encode(message).unwrap();
    let mut writer = writer.lock().await;
    // The client may have left.
    if writer.write_all(&bytes).await.is_ok() {
        drop(writer.flush().await);
    }
}
