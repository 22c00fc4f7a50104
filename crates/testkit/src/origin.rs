//! An origin that answers as a test tells it, and records what it was asked.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::content::Content;
use crate::deadline::DEADLINE;
use crate::ports::ReservedAddress;

/// A server whose every response is written by a function.
pub struct Origin {
    address: SocketAddr,
    _reserved: Option<ReservedAddress>,
    asked: Arc<Mutex<Vec<String>>>,
}

/// Writes the answer to a request, given its head and the number of requests before it. False ends the connection.
pub trait Script: Fn(&str, usize, &mut TcpStream) -> bool + Send + Sync + 'static {}

impl<F: Fn(&str, usize, &mut TcpStream) -> bool + Send + Sync + 'static> Script for F {}

impl Origin {
    /// An origin that follows a script, on a thread for each connection.
    pub fn start(script: impl Script) -> Self {
        let reserved = ReservedAddress::reserve();
        let origin = Self::on(reserved.listen(), script);
        Self { _reserved: Some(reserved), ..origin }
    }

    /// The same on this listener.
    pub fn on(listener: TcpListener, script: impl Script) -> Self {
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::new(script);
        let memory = Arc::clone(&asked);
        // Ends with the test's process; each connection has its own thread.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // Head and body are written one after the other: no body waits for the acknowledgement of its head.
                drop(stream.set_nodelay(true));
                let (script, memory) = (Arc::clone(&script), Arc::clone(&memory));
                thread::spawn(move || serve(stream, &*script, &memory));
            }
        });
        Self { address, _reserved: None, asked }
    }

    /// Answers every request with the same status, fields (each ending in CRLF) and body.
    pub fn answering(status: &'static str, fields: &'static str, body: &'static str) -> Self {
        Self::start(move |_, _, stream| answer(stream, status, fields, body.as_bytes()))
    }

    /// Answers every request with 200 and the number of requests before it.
    pub fn counting(fields: &'static str) -> Self {
        Self::start(move |_, number, stream| answer(stream, "200 OK", fields, number.to_string().as_bytes()))
    }

    /// Answers every target with this file, and ranges of it.
    pub fn with_file(body: &Content, fields: &'static str) -> Self {
        let bytes = body.all();
        Self::start(move |head, _, stream| file(head, stream, fields, &bytes))
    }

    /// Answers every target with the whole file: ignores `Range`.
    pub fn without_ranges(body: &Content, fields: &'static str) -> Self {
        let bytes = body.all();
        Self::start(move |_, _, stream| answer(stream, "200 OK", fields, &bytes))
    }

    /// Answers with `body` and the entity tag `"v1"`, and with 304 if the request has that tag.
    pub fn confirming(fields: &'static str, body: &'static str) -> Self {
        Self::start(move |head, _, stream| {
            let fields = format!("ETag: \"v1\"\r\n{fields}");
            if field(head, "if-none-match") == Some("\"v1\"") {
                answer(stream, "304 Not Modified", &fields, b"")
            } else {
                answer(stream, "200 OK", &fields, body.as_bytes())
            }
        })
    }

    /// The `sites` section for a server in front of it.
    pub fn sites(&self) -> String {
        format!("- origin: {{http: [\"{}\"]}}", self.url())
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The `sites` section for a server in front of it, with further keys of the origin: `retries: 0`.
    pub fn sites_with(&self, keys: &str) -> String {
        format!("- origin: {{http: [\"{}\"], {keys}}}", self.url())
    }

    /// The heads of all requests so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, script: &impl Script, asked: &Mutex<Vec<String>>) {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
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

/// Writes bytes; false once the client has gone.
pub fn write(stream: &mut TcpStream, bytes: impl AsRef<[u8]>) -> bool {
    stream.write_all(bytes.as_ref()).is_ok()
}

/// A whole response with its length.
pub fn answer(stream: &mut TcpStream, status: &str, fields: &str, body: &[u8]) -> bool {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{fields}\r\n", body.len());
    write(stream, head) && write(stream, body)
}

/// The head of a response with a body of so many bytes, which the script writes itself.
pub fn write_head(stream: &mut TcpStream, fields: &str, length: usize) -> bool {
    write(stream, format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{fields}\r\n"))
}

/// The head of a response in chunks, which the script writes with [`write_chunk`].
pub fn write_chunked_head(stream: &mut TcpStream, fields: &str) -> bool {
    write(stream, format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{fields}\r\n"))
}

/// One chunk; an empty one is the last.
pub fn write_chunk(stream: &mut TcpStream, chunk: impl AsRef<[u8]>) -> bool {
    let chunk = chunk.as_ref();
    write(stream, format!("{:x}\r\n", chunk.len())) && write(stream, chunk) && write(stream, "\r\n")
}

/// A whole response in chunks, none of them empty. The iterator may wait before it gives the next one.
pub fn answer_in_chunks<C: AsRef<[u8]>>(
    stream: &mut TcpStream,
    fields: &str,
    chunks: impl IntoIterator<Item = C>,
) -> bool {
    write_chunked_head(stream, fields)
        && chunks.into_iter().all(|chunk| write_chunk(stream, chunk))
        && write_chunk(stream, "")
}

/// The value of a field of a request.
pub fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(": ")?;
        found.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// The target of a request.
///
/// # Panics
/// If there is none.
pub fn target(head: &str) -> &str {
    head.split(' ').nth(1).unwrap()
}

/// First and last byte that a request asks for.
pub fn range(head: &str) -> Option<(usize, usize)> {
    let (first, last) = field(head, "range")?.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Answers from `body` as a good origin does, with ranges.
pub fn file(head: &str, stream: &mut TcpStream, fields: &str, body: &[u8]) -> bool {
    match range(head) {
        Some((first, last)) => {
            let last = last.min(body.len() - 1);
            let fields = format!("Content-Range: bytes {first}-{last}/{}\r\n{fields}", body.len());
            answer(stream, "206 Partial Content", &fields, &body[first..=last])
        }
        None => answer(stream, "200 OK", fields, body),
    }
}
