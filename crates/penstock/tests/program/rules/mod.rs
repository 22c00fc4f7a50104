//! Rules of sites with real clients: who may use one, how much, and which route answers.

mod access;
mod limits;
mod pace;
mod routes;
mod tokens;

use penstock_testkit::{Client, Response, Server, Setup};

/// A site of files with these lines of its section, behind a balancer that names the client.
fn server(lines: &str) -> Server {
    setup(lines).start()
}

fn setup(lines: &str) -> Setup {
    let sites = format!("- origin: {{directory: root}}\n  {}", lines.trim().replace('\n', "\n  "));
    Setup::new().sites(&sites).listeners(&["proxy_protocol: true", "tls: true"])
}

/// A connection of the client at this address.
fn client(server: &Server, address: &str) -> Client<std::net::TcpStream> {
    let mut client = Client::connect(server.listener(0));
    let (version, local) =
        if address.contains(':') { ("TCP6", "2001:db8::1") } else { ("TCP4", "198.51.100.1") };
    client.send(format!("PROXY {version} {address} {local} 51234 80\r\n"));
    client
}

/// A request of the client at this address.
fn get(server: &Server, address: &str, fields: &str) -> Response {
    client(server, address).get_with("/a.mp4", fields)
}
