use std::io::Write;
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use boring::pkey::PKey;
use boring::ssl::{SslAcceptor, SslMethod};
use boring::x509::X509;
use penstock_tls::{Authorities, Outbound};
use tokio::task::coop::{consume_budget, has_budget_remaining};

use super::*;

/// Connects to a server that sends a record with one byte once it is told to, and then tells that it has.
async fn connected() -> (OutboundStream, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let generated = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = generated.cert.pem();
    let mut builder = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
    builder.set_certificate(&X509::from_pem(certificate.as_bytes()).unwrap()).unwrap();
    let key = PKey::private_key_from_pem(generated.signing_key.serialize_pem().as_bytes()).unwrap();
    builder.set_private_key(&key).unwrap();
    let acceptor = builder.build();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::channel();
    let (written, is_written) = mpsc::channel();
    thread::spawn(move || {
        let socket = listener.accept().unwrap().0;
        socket.set_nodelay(true).unwrap();
        let mut stream = acceptor.accept(socket).unwrap();
        told.recv().unwrap();
        stream.write_all(b"x").unwrap();
        written.send(()).unwrap();
        // Keeps the connection open until the test is over.
        assert!(told.recv().is_err());
    });
    let authorities = Authorities::from_pem(certificate.as_bytes()).unwrap();
    let outbound = Outbound::new(&authorities, "localhost", 1, None).unwrap();
    let socket = TcpStream::connect(address).await.unwrap();
    (outbound.connect(socket).await.unwrap(), tell, is_written)
}

#[test]
fn content_is_seen_and_tickets_are_not_content_whatever_the_task_has_left_of_its_budget() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut stream, tell, is_written) = connected().await;
        // The tickets of TLS 1.3 are there, or still to come.
        assert!(!has_content(&mut stream));
        tell.send(()).unwrap();
        is_written.recv().unwrap();
        // The runtime has to notice.
        while !is_readable(stream.get_ref()) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        while has_budget_remaining() {
            let mut consumed = pin!(consume_budget());
            assert!(poll_fn(|context| Poll::Ready(consumed.as_mut().poll(context))).await.is_ready());
        }
        assert!(has_content(&mut stream));
    });
}
