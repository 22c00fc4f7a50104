//! An origin that does as it is told, and remembers what it was asked.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A server whose every response is written by a function.
pub(crate) struct Origin {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

/// Writes the answer to a request, given its head and how many came before it. False ends the connection.
pub(crate) trait Script: Fn(&str, usize, &mut TcpStream) -> bool + Send + Sync + 'static {}

impl<F: Fn(&str, usize, &mut TcpStream) -> bool + Send + Sync + 'static> Script for F {}

impl Origin {
    pub(crate) fn start(script: impl Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::new(script);
        let memory = Arc::clone(&asked);
        // Ends with the test's process; each connection has its own thread.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (script, memory) = (Arc::clone(&script), Arc::clone(&memory));
                thread::spawn(move || serve(stream, &*script, &memory));
            }
        });
        Self { address, asked }
    }

    /// The `sites` section for a server in front of it.
    pub(crate) fn sites(&self) -> String {
        format!("- origin: {{http: [\"http://{}\"]}}", self.address)
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The `sites` section for a server in front of it, with further keys of the origin: `retries: 0`.
    pub(crate) fn sites_with(&self, keys: &str) -> String {
        format!("- origin: {{http: [\"{}\"], {keys}}}", self.url())
    }

    /// The heads of all requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, script: &impl Script, asked: &Mutex<Vec<String>>) {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                Ok(_) | Err(_) => return,
            }
        }
        let head = String::from_utf8(head).unwrap();
        let number = {
            let mut asked = asked.lock().unwrap();
            asked.push(head.clone());
            asked.len() - 1
        };
        if !script(&head, number, &mut stream) {
            return;
        }
    }
}

/// Writes bytes; a client that has gone is none of the script's business.
pub(crate) fn write(stream: &mut TcpStream, bytes: impl AsRef<[u8]>) -> bool {
    stream.write_all(bytes.as_ref()).is_ok()
}

/// A whole response with its length.
pub(crate) fn answer(stream: &mut TcpStream, status: &str, fields: &str, body: &[u8]) -> bool {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{fields}\r\n", body.len());
    write(stream, head) && write(stream, body)
}

/// First and last byte that a request asks for.
pub(crate) fn range(head: &str) -> Option<(usize, usize)> {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("range: bytes="))?;
    let (first, last) = line.split_once('=')?.1.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Answers from `body` as a good origin does, with ranges.
pub(crate) fn file(head: &str, stream: &mut TcpStream, fields: &str, body: &[u8]) -> bool {
    match range(head) {
        Some((first, last)) => {
            let last = last.min(body.len() - 1);
            let fields = format!("Content-Range: bytes {first}-{last}/{}\r\n{fields}", body.len());
            answer(stream, "206 Partial Content", &fields, &body[first..=last])
        }
        None => answer(stream, "200 OK", fields, body),
    }
}
