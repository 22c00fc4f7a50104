//! Requests of commands to the admin listener of the running server.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use penstock_config::{Admin, AdminAddress, Config, limits};

use crate::failure::Failure;

/// The admin listener of a configuration.
///
/// # Errors
/// There is none.
pub(crate) fn listener_of<'c>(config: &'c Config, file: &Path) -> Result<&'c Admin, Failure> {
    config.admin.as_ref().ok_or_else(|| {
        let file = file.display();
        Failure::Usage(format!("{file} has no admin listener; add admin: {{address: 127.0.0.1:9600}}"))
    })
}

/// Sends one request without a body; returns status and body of the response.
///
/// # Errors
/// The server does not answer.
pub(crate) fn ask(admin: &Admin, method: &str, target: &str) -> Result<(u16, String), Failure> {
    send(admin, method, target).map_err(|error| unreachable(error, &admin.address))
}

fn unreachable(error: io::Error, address: &AdminAddress) -> Failure {
    let source = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            io::Error::other("nothing is listening there; start the server with this configuration")
        }
        _ => error,
    };
    Failure::machine(format!("ask the server at {address}"))(source)
}

/// A stream of either kind.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// Connects, and returns the value of Host too.
fn connect(address: &AdminAddress, patience: Duration) -> io::Result<(Box<dyn Stream>, String)> {
    match address {
        AdminAddress::Tcp(address) => {
            // A listener on all addresses is reached over loopback.
            let mut reachable = *address;
            if reachable.ip().is_unspecified() {
                reachable.set_ip(match address {
                    SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                    SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
                });
            }
            let stream = TcpStream::connect_timeout(&reachable, patience)?;
            stream.set_read_timeout(Some(patience))?;
            Ok((Box::new(stream), address.to_string()))
        }
        AdminAddress::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(patience))?;
            Ok((Box::new(stream), "localhost".to_owned()))
        }
    }
}

fn send(admin: &Admin, method: &str, target: &str) -> io::Result<(u16, String)> {
    let (mut stream, host) = connect(&admin.address, Duration::from_secs(limits::ADMIN_DEADLINE_SECONDS))?;
    let token = admin.token.as_ref().map_or_else(String::new, |token| {
        format!("Authorization: Bearer {}\r\n", String::from_utf8_lossy(token.expose()))
    });
    write!(stream, "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{token}Content-Length: 0\r\n\r\n")?;
    let mut text = String::new();
    stream.take(limits::ADMIN_ANSWER_BYTES).read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((status.ok_or(io::ErrorKind::InvalidData)?, body.to_owned()))
}
