//! Other TLS libraries resume at every edge: GnuTLS and Go.

use std::fs;
use std::process::Command;

use penstock_testkit::{Forwarder, Server, Tool, until};

use super::Fleet;

const SHARED: &str = "session_cache: {valkey: true}\ntickets: {valkey: true}";

fn edges(fleet: &Fleet) -> [Server; 3] {
    let edges = ["a", "b", "c"].map(|name| fleet.edge(name, SHARED));
    // Each edge trusts an authority of its own; clients are given all of them.
    let authorities: Vec<String> =
        edges.iter().map(|edge| fs::read_to_string(edge.certificates().authority()).unwrap()).collect();
    fs::write(fleet.path().join("authorities.pem"), authorities.concat()).unwrap();
    edges
}

const GET: &[u8] = b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// What GnuTLS may use, and how it then resumes.
const GNUTLS: [(&str, &str); 3] = [
    ("by id", "NORMAL:-VERS-ALL:+VERS-TLS1.2:%NO_TICKETS"),
    ("by ticket in TLS 1.2", "NORMAL:-VERS-ALL:+VERS-TLS1.2"),
    ("by ticket in TLS 1.3", "NORMAL:-VERS-ALL:+VERS-TLS1.3"),
];

#[test]
fn gnutls_resumes_at_another_edge_than_the_first() {
    let Some(fleet) = Fleet::start() else { return };
    let edges = edges(&fleet);
    let addresses = edges.each_ref().map(Server::https);
    for (how, priority) in GNUTLS {
        for first in 0..3 {
            // It connects twice to one address: the first connection goes to one edge, the second to the next.
            let [one, two] = [addresses[first], addresses[(first + 1) % 3]];
            let balancer = Forwarder::to(&[one, two]);
            let port = balancer.address().port().to_string();
            let connect = || {
                let client =
                    Tool::new("gnutls-cli").args(["--resume", "--waitresumption", "--priority", priority]);
                // GnuTLS finds an authority by its name, and those of the edges have one name.
                client.args(["--insecure", "--port", &port, "localhost"]).run_with_input(GET).text()
            };
            let is_resumed = || connect().contains("This is a resumed session");
            if how == "by id" {
                // The session is written after the handshake: the client may come back sooner.
                until(how, || is_resumed().then_some(()));
            } else {
                assert!(is_resumed(), "{how}");
            }
            assert_eq!(balancer.connections() % 2, 0);
        }
    }
}

/// A client of Go's library. It connects to each address in turn with one session cache, and says which connections resumed.
const GO_CLIENT: &str = r#"package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
)

func fail(what ...any) {
	fmt.Fprintln(os.Stderr, what...)
	os.Exit(1)
}

func main() {
	authorities, err := os.ReadFile(os.Args[1])
	if err != nil {
		fail(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := &tls.Config{
			RootCAs: roots, ServerName: "localhost", MinVersion: version, MaxVersion: version,
			ClientSessionCache: tls.NewLRUClientSessionCache(4),
		}
		for round := range 4 {
			for number, address := range os.Args[2:] {
				connection, err := tls.Dial("tcp", address, config)
				if err != nil {
					fail(err)
				}
				fmt.Fprintf(connection, "GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
				response, err := http.ReadResponse(bufio.NewReader(connection), nil)
				if err != nil {
					fail(err)
				}
				if body, err := io.ReadAll(response.Body); err != nil || len(body) == 0 {
					fail(body, err)
				}
				if resumed := connection.ConnectionState().DidResume; resumed != (round+number > 0) {
					fail("version", version, "round", round, "edge", number, "resumed", resumed)
				}
				connection.Close()
			}
		}
	}
	fmt.Println("resumed")
}
"#;

#[test]
fn go_resumes_at_every_edge_with_one_cache() {
    if !Command::new("go").arg("version").output().is_ok_and(|found| found.status.success()) {
        penstock_testkit::not_tested("resumption by a client of Go, because Go is not installed");
        return;
    }
    let Some(fleet) = Fleet::start() else { return };
    let edges = edges(&fleet);
    let (source, program) = (fleet.path().join("client.go"), fleet.path().join("client"));
    fs::write(&source, GO_CLIENT).unwrap();
    let built = Command::new("go")
        .args(["build", "-o"])
        .args([&program, &source])
        .env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go"))
        .env("GOTOOLCHAIN", "local")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let client = Tool::new(program.to_str().unwrap()).arg(fleet.path().join("authorities.pem"));
    let client = client.args(edges.each_ref().map(|edge| edge.https().to_string()));
    assert_eq!(client.run().ok().text(), "resumed\n");
    for edge in &edges {
        until("its requests", || (edge.metrics().sum("penstock_requests_total", &[]) >= 8.0).then_some(()));
    }
}
