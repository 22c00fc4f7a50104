//! Origins that lead back to the site that asks them (RFC 8586): such requests end with 508.

use penstock_testkit::origin::{Origin, field};
use penstock_testkit::{Client, ReservedAddress, Server, Setup, memory_directory};
use tempfile::TempDir;

/// A server with a plain listener at this address, and with a memory tier if a site uses one.
fn server_at(address: &ReservedAddress, sites: &str, memory: Option<&TempDir>) -> Server {
    let setup = Setup::new().workers(1).sites(sites);
    let setup = setup.listeners(&["tls: true", &format!("address: {address}")]);
    let tier = |memory: &TempDir| format!("memory: {{directory: {}, size: 4MiB}}", memory.path().display());
    let setup = match memory.map(tier) {
        Some(tier) => setup.section(&format!("cache: {{slice: 64KiB, {tier}}}")),
        None => setup,
    };
    let server = setup.start();
    server.tolerate_warning("is out: ");
    server
}

/// Requests that a server sent to its origin.
fn sent(server: &Server) -> f64 {
    server.metrics().sum("penstock_origin_requests_total", &[])
}

#[test]
fn programs_whose_sites_lead_to_each_other_answer_508_after_one_turn() {
    let (relayed, cached) = (", cache: off", "");
    for kinds in [[relayed, relayed], [relayed, cached], [cached, relayed], [cached, cached]] {
        let addresses = [(); 2].map(|()| ReservedAddress::reserve());
        let memory = [(); 2].map(|()| memory_directory());
        let servers = [0, 1].map(|place| {
            let sites = format!("- origin: {{http: [\"http://{}\"]{}}}", addresses[1 - place], kinds[place]);
            let memory = (kinds[place] == cached).then_some(&memory[place]);
            server_at(&addresses[place], &sites, memory)
        });
        let requests = [
            "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "HEAD /b HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "GET /c HTTP/1.1\r\nHost: localhost\r\nRange: bytes=5-\r\nCDN-Loop: other\r\nConnection: cdn-loop\r\n\r\n",
            "POST /d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
        ];
        for (number, request) in requests.into_iter().enumerate() {
            let got = Client::plain(&servers[0]).request(request);
            assert_eq!(got.status, 508, "{kinds:?} {request}: {}", got.head);
            let turns = (number + 1) as f64;
            assert_eq!(servers.each_ref().map(sent), [turns, turns], "{kinds:?} {request}");
        }
    }
}

#[test]
fn a_site_may_lead_to_another_one_of_the_same_program() {
    let origin = Origin::answering("200 OK", "", "body");
    let (address, memory) = (ReservedAddress::reserve(), memory_directory());
    let sites = format!(
        "- hosts: [front.example]\n  origin: {{http: [\"http://{address}\"], cache: off, host: back.example}}\n\
         - hosts: [back.example]\n  origin: {{http: [\"{}\"]}}",
        origin.url()
    );
    let server = server_at(&address, &sites, Some(&memory));
    let asked = "GET /a HTTP/1.1\r\nHost: front.example\r\nCDN-Loop: first; a=b\r\nCDN-Loop: second\r\n\r\n";
    let got = Client::plain(&server).request(asked);
    assert_eq!((got.status, got.text()), (200, "body"), "{}", got.head);
    let head = &origin.asked()[0];
    let members: Vec<&str> = field(head, "cdn-loop").unwrap().split(", ").collect();
    assert_eq!(members[..2], ["first; a=b", "second"]);
    assert!(members.len() == 4 && members[2] != members[3], "{members:?}");
    assert!(members[2..].iter().all(|own| own.starts_with("penstock; site=\"")), "{members:?}");
}
