//! Servers that a test scripts, and an origin of them.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use penstock_http::OriginUrl;
use penstock_origin::http::{BalanceBy, OriginSettings, ServerSettings};

use crate::common::LIMITS;

/// A server that passes each request head to `answer`, whose result says whether the connection goes on. It tells the
/// heads.
pub(crate) fn server(
    answer: impl Fn(&str, &mut TcpStream) -> bool + Send + Sync + 'static,
) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = channel();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (tell, answer) = (tell.clone(), Arc::clone(&answer));
            thread::spawn(move || {
                loop {
                    let mut head = Vec::new();
                    let mut byte = [0];
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read(&mut byte) {
                            Ok(1) => head.push(byte[0]),
                            _ => return,
                        }
                    }
                    let head = String::from_utf8(head).unwrap();
                    drop(tell.send(head.clone()));
                    if !answer(&head, &mut stream) {
                        return;
                    }
                }
            });
        }
    });
    (address, told)
}

/// An origin of these servers.
pub(crate) fn settings(servers: &[SocketAddr]) -> OriginSettings {
    let url = |address: &SocketAddr| {
        ServerSettings::new(OriginUrl::parse(&format!("http://{address}")).unwrap(), 1)
    };
    OriginSettings {
        servers: servers.iter().map(url).collect(),
        balance: BalanceBy::Turns,
        hidden_fields: Vec::new(),
        host: None,
        authorities: None,
        identity: None,
        s3: None,
        resolvers: Arc::default(),
        redirect_hosts: Vec::new(),
        health_check: None,
        proxy_protocol: false,
        limits: LIMITS,
    }
}
