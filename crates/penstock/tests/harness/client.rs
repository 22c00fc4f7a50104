//! A client that sends exactly the bytes it is told and reads exactly what comes back.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::server::Server;
use super::tls::{TlsOptions, TlsStream};

/// Nothing on the loopback takes this long; a test fails instead of hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// One connection.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    /// Received behind the last response.
    unread: Vec<u8>,
}

/// A response, body and all.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Status line and fields as they came, without the empty line.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The value of a field that occurs once; fails if it occurs more often.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).map(|line| line.split_once(": ").expect("name: value"));
        let mut values = fields.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let value = values.next();
        assert_eq!(values.next(), None, "{name} comes twice in:\n{}", self.head);
        value
    }

    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Client<TcpStream> {
    /// Plain HTTP with the server's first plain listener.
    pub(crate) fn plain(server: &Server) -> Self {
        Self::connect(server.http())
    }

    /// A TCP connection on which nothing has been said.
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }
}

impl Client<TlsStream> {
    /// HTTPS with the server's first TLS listener, the way a modern client does.
    pub(crate) fn tls(server: &Server) -> Self {
        Self::tls_with(server, &TlsOptions::default())
    }

    /// The same with other options.
    pub(crate) fn tls_with(server: &Server, options: &TlsOptions) -> Self {
        let socket = Client::connect(server.https()).stream;
        Self::over(options.handshake(server, socket).unwrap())
    }
}

/// Any stream.
pub(crate) trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

impl<S: Read + Write + Send + 'static> Client<S> {
    /// Forgets what kind of stream this is.
    pub(crate) fn boxed(self) -> Client<Box<dyn Stream>> {
        Client { stream: Box::new(self.stream), unread: self.unread }
    }
}

impl<S: Read + Write> Client<S> {
    /// Goes on with a stream that somebody else has opened.
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// Sends these bytes as they are.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
        self.stream.flush().unwrap();
    }

    /// GET of a path on `localhost`.
    pub(crate) fn get(&mut self, path: &str) -> Response {
        self.get_with(path, "")
    }

    /// GET that may end early.
    ///
    /// # Errors
    /// As [`Self::response`].
    pub(crate) fn try_get(&mut self, path: &str) -> io::Result<Response> {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        self.response()
    }

    /// GET with more fields, each ending in CRLF.
    pub(crate) fn get_with(&mut self, path: &str, fields: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        self.response().unwrap()
    }

    /// GET of bytes `first` to `last`, both included.
    pub(crate) fn get_range(&mut self, path: &str, first: u64, last: u64) -> Response {
        self.get_with(path, &format!("Range: bytes={first}-{last}\r\n"))
    }

    /// HEAD with more fields, each ending in CRLF.
    pub(crate) fn head_with(&mut self, path: &str, fields: &str) -> Response {
        self.send(format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        self.response_to_head().unwrap()
    }

    /// Sends a whole request as written and reads its response.
    pub(crate) fn request(&mut self, request: impl AsRef<[u8]>) -> Response {
        self.send(request.as_ref());
        if request.as_ref().starts_with(b"HEAD ") { self.response_to_head() } else { self.response() }
            .unwrap()
    }

    /// Reads one response. Its length must be in its head: this server always knows it.
    ///
    /// # Errors
    /// `UnexpectedEof` if the connection ends within it.
    pub(crate) fn response(&mut self) -> io::Result<Response> {
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
    pub(crate) fn body(&mut self, length: u64) -> io::Result<Vec<u8>> {
        let length = usize::try_from(length).unwrap();
        while self.unread.len() < length {
            self.receive()?;
        }
        let rest = self.unread.split_off(length);
        Ok(std::mem::replace(&mut self.unread, rest))
    }

    /// Reads the head of a response and no body.
    ///
    /// # Errors
    /// As [`Self::response`].
    pub(crate) fn response_to_head(&mut self) -> io::Result<Response> {
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
    pub(crate) fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
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
    pub(crate) fn rest(&mut self) -> io::Result<Vec<u8>> {
        match self.receive_all() {
            io::ErrorKind::UnexpectedEof => Ok(self.take_unread()),
            other => Err(other.into()),
        }
    }

    /// Reads until the connection ends, cleanly or cut; fails on anything else, such as a bad record.
    pub(crate) fn rest_until_cut(&mut self) -> Vec<u8> {
        let end = self.receive_all();
        assert!(matches!(end, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionAborted), "{end:?}");
        self.take_unread()
    }

    fn receive_all(&mut self) -> io::ErrorKind {
        loop {
            if let Err(error) = self.receive() {
                return error.kind();
            }
        }
    }

    /// What has been received behind the last response, for who goes on to read from the stream.
    pub(crate) fn take_unread(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unread)
    }

    /// Fails unless the server has ended the connection cleanly and said nothing more.
    pub(crate) fn assert_closed(&mut self) {
        let rest = self.rest().expect("a clean close");
        assert!(rest.is_empty(), "said before the close: {}", String::from_utf8_lossy(&rest));
    }

    /// Fails unless the connection still answers.
    pub(crate) fn assert_open(&mut self) {
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
