//! A client that sends exactly the bytes it is told and reads exactly what comes back.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;

use crate::content::Content;
use crate::deadline::{DEADLINE, until};
use crate::server::Server;
use crate::tls::{TlsOptions, TlsStream};

/// One connection.
pub struct Client<S> {
    /// The connection below.
    pub stream: S,
    /// Received behind the last response.
    unread: Vec<u8>,
}

/// A response, body and all.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Status line and fields as they came, without the empty line.
    pub head: String,
    /// The body; empty if only the head was read.
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a field that occurs once; fails if it occurs more often.
    pub fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).map(|line| line.split_once(": ").expect("name: value"));
        let mut values = fields.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let value = values.next();
        assert_eq!(values.next(), None, "{name} comes twice in:\n{}", self.head);
        value
    }

    /// The bytes that `Content-Range` names, of a response to one range.
    pub fn content_range(&self) -> Range<u64> {
        content_range(self.field("Content-Range").expect("a range"))
    }

    /// Fails unless this has exactly these parts of the file, in this order, with the right bytes.
    #[track_caller]
    pub fn assert_parts(&self, file: &Content, selected: &[Range<u64>]) {
        let parts = self.parts("video/mp4");
        let found: Vec<Range<u64>> = parts.iter().map(|(range, _)| range.clone()).collect();
        assert_eq!(found, selected);
        for (range, bytes) in parts {
            file.assert_range(range, &bytes);
        }
    }

    /// The parts of a multipart/byteranges body, each of this type: RFC 9110 §14.6, RFC 2046 §5.1.1, strictly.
    pub fn parts(&self, media_type: &str) -> Vec<(Range<u64>, Vec<u8>)> {
        assert_eq!(self.status, 206, "{}", self.head);
        let content_type = self.field("Content-Type").expect("a type");
        let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").expect("a boundary");
        let delimiter = format!("--{boundary}\r\n");
        let mut rest = &self.body[..];
        rest = rest.strip_prefix(delimiter.as_bytes()).expect("the first delimiter");
        let mut parts = Vec::new();
        loop {
            let end = rest.windows(4).position(|four| four == b"\r\n\r\n").expect("the end of a part's head");
            let head = std::str::from_utf8(&rest[..end]).expect("a head in ASCII");
            let (content_type, value) = head.split_once("\r\nContent-Range: ").expect("a range");
            assert_eq!(content_type, format!("Content-Type: {media_type}"));
            let range = content_range(value);
            let length = usize::try_from(range.end - range.start).expect("a length in memory");
            let (bytes, behind) = rest[end + 4..].split_at(length);
            parts.push((range, bytes.to_vec()));
            let behind = behind.strip_prefix(b"\r\n").expect("the end of a part");
            if behind == format!("--{boundary}--\r\n").as_bytes() {
                return parts;
            }
            rest = behind.strip_prefix(delimiter.as_bytes()).expect("the next delimiter");
        }
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

fn content_range(value: &str) -> Range<u64> {
    let range = value.strip_prefix("bytes ").and_then(|value| value.split_once('/')).expect("a range").0;
    let (first, last) = range.split_once('-').expect("first and last");
    first.parse().expect("a number")..last.parse::<u64>().expect("a number") + 1
}

impl Client<TcpStream> {
    /// Plain HTTP with the server's first plain listener.
    pub fn plain(server: &Server) -> Self {
        Self::connect(server.http())
    }

    /// A connection, if the server accepts one.
    pub fn try_connect(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect_timeout(&address, DEADLINE).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).ok()?;
        Some(Self::over(stream))
    }

    /// A TCP connection on which nothing has been said.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, DEADLINE).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }
}

impl Server {
    /// Waits until the clock of the server shows that a second or more has passed.
    pub fn let_a_second_pass(&self) {
        let now = || {
            let mut client = Client::plain(self);
            let options = client.request("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n");
            options.field("Date").unwrap().to_owned()
        };
        // The first change may come at once.
        for _ in 0..2 {
            let before = now();
            until("the next second", || (now() != before).then_some(()));
        }
    }
}

impl Client<TlsStream> {
    /// HTTPS with the server's first TLS listener, the way a modern client does.
    pub fn tls(server: &Server) -> Self {
        Self::tls_with(server, &TlsOptions::default())
    }

    /// The same with other options.
    pub fn tls_with(server: &Server, options: &TlsOptions) -> Self {
        let socket = Client::connect(server.https()).stream;
        Self::over(options.handshake(server, socket).unwrap())
    }
}

/// Any stream.
pub trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

impl<S: Read + Write + Send + 'static> Client<S> {
    /// Forgets what kind of stream this is.
    pub fn boxed(self) -> Client<Box<dyn Stream>> {
        Client { stream: Box::new(self.stream), unread: self.unread }
    }
}

impl<S: Read + Write> Client<S> {
    /// A client on a stream that is open already.
    pub fn over(stream: S) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// Sends these bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap();
    }

    fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Sends a GET of a path on `localhost` and does not read its response.
    pub fn ask(&mut self, path: &str) {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    }

    /// GET of a path on `localhost` that is answered with 200: sends it and reads the head only.
    #[track_caller]
    pub fn begin(&mut self, path: &str) -> Response {
        self.ask(path);
        let head = self.response_to_head().unwrap();
        assert_eq!(head.status, 200, "{}", head.head);
        head
    }

    /// GET of a path on `localhost`.
    pub fn get(&mut self, path: &str) -> Response {
        self.get_with(path, "")
    }

    /// GET of a path on `localhost`, whose response may have interim ones before it.
    pub fn get_final(&mut self, path: &str) -> Response {
        let mut response = self.get(path);
        while matches!(response.status, 100..200) {
            response = self.response().unwrap();
        }
        response
    }

    /// GET that may end early.
    ///
    /// # Errors
    /// As [`Self::response`], or what the system said of the request.
    pub fn try_get(&mut self, path: &str) -> io::Result<Response> {
        self.try_send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))?;
        self.response()
    }

    /// GET with more fields, each ending in CRLF.
    pub fn get_with(&mut self, path: &str, fields: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        self.response().unwrap()
    }

    /// GET of bytes `first` to `last`, both included.
    pub fn get_range(&mut self, path: &str, first: u64, last: u64) -> Response {
        self.get_with(path, &format!("Range: bytes={first}-{last}\r\n"))
    }

    /// HEAD with more fields, each ending in CRLF.
    pub fn head_with(&mut self, path: &str, fields: &str) -> Response {
        self.send(format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        self.response_to_head().unwrap()
    }

    /// Sends a whole request as written and reads its response.
    pub fn request(&mut self, request: impl AsRef<[u8]>) -> Response {
        self.send(request.as_ref());
        if request.as_ref().starts_with(b"HEAD ") { self.response_to_head() } else { self.response() }
            .unwrap()
    }

    /// Reads one response. Its length must be in its head: this server always knows it.
    ///
    /// # Errors
    /// `UnexpectedEof` if the connection ends within it.
    pub fn response(&mut self) -> io::Result<Response> {
        let mut response = self.response_to_head()?;
        if matches!(response.status, 204 | 304 | 100..200) {
            assert_eq!(response.field("Content-Length"), None, "no length on {}", response.status);
            return Ok(response);
        }
        let length = response.field("Content-Length").unwrap_or_else(|| panic!("{}", response.head));
        let length = length.parse().unwrap();
        response.body = self.body(length)?;
        Ok(response)
    }

    /// Reads so many bytes of a body whose head has been read.
    ///
    /// # Errors
    /// As [`Self::response`].
    pub fn body(&mut self, length: u64) -> io::Result<Vec<u8>> {
        self.take(usize::try_from(length).unwrap())
    }

    /// Reads the head of a response and no body.
    ///
    /// # Errors
    /// As [`Self::response`].
    pub fn response_to_head(&mut self) -> io::Result<Response> {
        let end = loop {
            match self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(end) => break end,
                None => self.receive()?,
            }
        };
        let rest = self.unread.split_off(end + 4);
        let head = std::mem::replace(&mut self.unread, rest);
        let head = String::from_utf8(head[..end].to_vec()).expect("a head is ASCII");
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        Ok(Response {
            status: status.unwrap_or_else(|| panic!("no status in {head}")),
            head,
            body: Vec::new(),
        })
    }

    /// Reads so many bytes of a body whose head has been read.
    ///
    /// # Errors
    /// `UnexpectedEof` if the connection ends before.
    pub fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < count {
            self.receive()?;
        }
        let rest = self.unread.split_off(count);
        Ok(std::mem::replace(&mut self.unread, rest))
    }

    /// Reads until the server ends the connection.
    ///
    /// # Errors
    /// When it ends otherwise than by FIN, over TLS otherwise than by close_notify.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        match self.receive_all() {
            io::ErrorKind::UnexpectedEof => Ok(self.take_unread()),
            other => Err(other.into()),
        }
    }

    /// Reads until the connection ends: in order, cut or reset. Fails on other ends, such as a bad record.
    pub fn rest_until_cut(&mut self) -> Vec<u8> {
        let end = self.receive_all();
        assert!(
            matches!(
                end,
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::ConnectionReset
            ),
            "{end:?}"
        );
        self.take_unread()
    }

    fn receive_all(&mut self) -> io::ErrorKind {
        loop {
            if let Err(error) = self.receive() {
                return error.kind();
            }
        }
    }

    /// Bytes received behind the last response, for a caller that reads on from the stream itself.
    pub fn take_unread(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unread)
    }

    /// Fails unless the server has ended the connection cleanly and said nothing more.
    pub fn assert_closed(&mut self) {
        let rest = self.rest().expect("a clean close");
        assert!(rest.is_empty(), "said before the close: {}", String::from_utf8_lossy(&rest));
    }

    /// Fails unless the connection still answers.
    pub fn assert_open(&mut self) {
        assert_eq!(self.request("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 204);
    }

    fn receive(&mut self) -> io::Result<()> {
        let before = self.unread.len();
        self.unread.resize(before + 64 * 1024, 0);
        let count = self.stream.read(&mut self.unread[before..]);
        self.unread.truncate(before + *count.as_ref().unwrap_or(&0));
        match count {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
