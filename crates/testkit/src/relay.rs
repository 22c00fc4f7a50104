//! A TCP relay that cuts connections, so that a download breaks the way it does in the field.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};

use crate::ports::ReservedAddress;

/// Relays as many connections as it was told to, one after the other.
pub struct Relay {
    address: ReservedAddress,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// For each connection in turn, the bytes to let through from the server before it is cut; `None` never cuts.
    pub fn to(server: SocketAddr, limits: &[Option<u64>]) -> Self {
        let address = ReservedAddress::reserve();
        let listener = address.listen();
        let limits = limits.to_vec();
        let thread = thread::spawn(move || {
            for limit in limits {
                let (client, _) = listener.accept().expect("a client");
                relay(client, server, limit.unwrap_or(u64::MAX)).expect("a connection to the server");
            }
        });
        Self { address, thread: Some(thread) }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.address.address().port()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The client that it waits for does not come when the test panics.
        if let Some(thread) = self.thread.take().filter(|_| !thread::panicking()) {
            thread.join().expect("the relay did its work");
        }
    }
}

fn relay(client: TcpStream, server: SocketAddr, limit: u64) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    // Ends when either side has closed; a cut connection is no failure of the relay.
    let upwards = thread::spawn(move || {
        drop(io::copy(&mut from_client, &mut to_server));
        drop(to_server.shutdown(Shutdown::Write));
    });
    let mut client = client;
    drop(io::copy(&mut (&server).take(limit), &mut client).and_then(|_| client.flush()));
    drop(client.shutdown(Shutdown::Both));
    drop(server.shutdown(Shutdown::Both));
    upwards.join().expect("the other direction ended");
    Ok(())
}
