//! The sockets of a running server pass to another one, and no client notices.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use penstock_config::Config;
use penstock_edge::{InheritedSockets, Server};

const DEADLINE: Duration = Duration::from_secs(30);

fn config(root: &Path, address: SocketAddr, workers: usize) -> Config {
    let root = root.display();
    let text = format!(
        "workers: {workers}\nlisteners: [{{address: \"{address}\"}}]\nsites: [{{origin: {{directory: \"{root}\"}}}}]\n"
    );
    Config::from_text(&text, Path::new("test.yaml")).unwrap()
}

/// Connects, and reads the answer to one request.
fn fetched(address: SocketAddr) -> std::io::Result<Vec<u8>> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(DEADLINE))?;
    socket.write_all(b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    Ok(answer)
}

/// Waits until `fetches` more requests were answered.
fn wait_for(answered: &AtomicU32, fetches: u32) {
    let until = answered.load(Ordering::Relaxed) + fetches;
    while answered.load(Ordering::Relaxed) < until {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_server_succeeds_another_on_its_sockets_and_no_connection_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let content = [b'a'; 2000];
    std::fs::write(directory.path().join("a"), content).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut server = Server::start(&config(directory.path(), any, 2)).unwrap();
    let address = server.addresses()[0];
    let (answered, has_ended) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let fetch = || {
            while !has_ended.load(Ordering::Relaxed) {
                let answer = fetched(address).expect("the answer to each request");
                assert!(answer.ends_with(&content), "{}", String::from_utf8_lossy(&answer));
                answered.fetch_add(1, Ordering::Relaxed);
            }
        };
        let clients = [scope.spawn(fetch), scope.spawn(fetch), scope.spawn(fetch)];
        // Fewer workers than sockets, more, and as many.
        for workers in [1, 4, 2] {
            wait_for(&answered, 20);
            let sockets = server.sockets();
            assert_eq!((sockets.of_manager.len(), sockets.of_predecessor.len()), (0, 2));
            let successor = Server::start_on(&config(directory.path(), address, workers), sockets).unwrap();
            assert_eq!(successor.addresses(), [address]);
            // Both serve.
            wait_for(&answered, 20);
            server.drain();
            server.wait();
            server = successor;
        }
        wait_for(&answered, 20);
        has_ended.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap();
        }
    });
    // The last server of the row closes the sockets.
    server.drain();
    server.wait();
    assert!(TcpStream::connect(address).is_err(), "a socket is left open");
}

#[test]
fn a_reload_closes_an_inherited_socket_with_its_listener() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a"), b"a").unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let first = Server::start(&config(directory.path(), any, 1)).unwrap();
    let address = first.addresses()[0];
    let second = Server::start_on(&config(directory.path(), address, 1), first.sockets()).unwrap();
    first.drain();
    first.wait();
    assert!(fetched(address).is_ok());
    second.reload(&config(directory.path(), any, 1)).unwrap();
    assert!(TcpStream::connect(address).is_err(), "a reload is over before it is in force");
    let other = second.addresses()[0];
    assert_ne!(other, address);
    assert!(fetched(other).is_ok());
    second.stop();
    second.wait();
}

#[test]
fn sockets_of_a_service_manager_are_handed_on_as_such() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a"), b"a").unwrap();
    let of_manager = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    of_manager.set_nonblocking(true).unwrap();
    let address = of_manager.local_addr().unwrap();
    let sockets = InheritedSockets { of_manager: vec![of_manager.into()], ..InheritedSockets::default() };
    let first = Server::start_on(&config(directory.path(), address, 2), sockets).unwrap();
    let sockets = first.sockets();
    assert_eq!((sockets.of_manager.len(), sockets.of_predecessor.len()), (1, 0));
    let second = Server::start_on(&config(directory.path(), address, 2), sockets).unwrap();
    first.drain();
    first.wait();
    // A listener that is closed and opened again finds the socket.
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    second.reload(&config(directory.path(), any, 2)).unwrap();
    second.reload(&config(directory.path(), address, 2)).unwrap();
    assert!(fetched(address).is_ok());
    second.stop();
    second.wait();
}
