use super::*;

fn wait_readable(socket: &UdpSocket) {
    use rustix::event::{PollFd, PollFlags, poll};
    poll(&mut [PollFd::new(socket, PollFlags::IN)], None).unwrap();
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn all(inlet: &mut Inlet, socket: &UdpSocket, bytes: usize) -> Vec<(SocketAddr, Option<IpAddr>, Vec<u8>)> {
    let mut datagrams = Vec::new();
    while datagrams.iter().map(|(_, _, datagram): &(_, _, Vec<u8>)| datagram.len()).sum::<usize>() < bytes {
        wait_readable(socket);
        inlet
            .receive(socket, |arrival| {
                let pieces = arrival.bytes.chunks(arrival.datagram_bytes);
                datagrams.extend(pieces.map(|piece| (arrival.from, arrival.to, piece.to_vec())));
            })
            .unwrap();
    }
    datagrams
}

#[test]
fn a_train_arrives_as_the_datagrams_that_it_was_made_of() {
    for (address, local) in
        [(loopback(), None), ("0.0.0.0:0".parse().unwrap(), Some(IpAddr::from([127, 0, 0, 2])))]
    {
        let server = bind(address, Binding::Present, 1 << 20).unwrap();
        let mut to = server.local_addr().unwrap();
        to.set_ip(local.unwrap_or_else(|| to.ip()));
        let client = bind(loopback(), Binding::Present, 1 << 20).unwrap();
        let bytes: Vec<u8> = (0..20_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        send_train(&client, &bytes, 1200, to, None).unwrap();
        let mut inlet = Inlet::default();
        let datagrams = all(&mut inlet, &server, bytes.len());
        assert_eq!(datagrams.len(), 17);
        assert!(datagrams[..16].iter().all(|(_, _, datagram)| datagram.len() == 1200));
        assert_eq!(
            datagrams.iter().flat_map(|(_, _, datagram)| datagram.clone()).collect::<Vec<u8>>(),
            bytes
        );
        let client_address = client.local_addr().unwrap();
        assert!(datagrams.iter().all(|(from, to, _)| *from == client_address && *to == local));
        // The answer comes from the address that the client has sent to.
        send_train(&server, b"answer", 1200, client_address, local).unwrap();
        let answers = all(&mut inlet, &client, 6);
        assert_eq!(answers, [(to, None, b"answer".to_vec())]);
    }
}

#[test]
fn an_empty_socket_would_block() {
    let socket = bind(loopback(), Binding::Present, 1 << 16).unwrap();
    let error = Inlet::default().receive(&socket, |_| panic!("nothing was sent")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn ipv6_addresses_survive_their_raw_form() {
    let socket = bind("[::1]:0".parse().unwrap(), Binding::Present, 1 << 16).unwrap();
    let to = socket.local_addr().unwrap();
    send_train(&socket, b"x", 10, to, None).unwrap();
    assert_eq!(all(&mut Inlet::default(), &socket, 1), [(to, None, b"x".to_vec())]);
}

#[test]
fn the_connection_id_chooses_the_socket() {
    let first = bind(loopback(), Binding::Present, 1 << 16).unwrap();
    let address = first.local_addr().unwrap();
    let sockets = [
        first,
        bind(address, Binding::Present, 1 << 16).unwrap(),
        bind(address, Binding::Present, 1 << 16).unwrap(),
    ];
    steer_by_connection_id(&sockets[0], 3).unwrap();
    let client = bind(loopback(), Binding::Present, 1 << 16).unwrap();
    for id in [0_u16, 1, 2, 3, 255, 256, 0x1234, 0xffff] {
        let [high, low] = id.to_be_bytes();
        let owner = &sockets[usize::from(id) % 3];
        for datagram in [&[0x40, high, low, 9][..], &[0xc0, 0, 0, 0, 1, 8, high, low, 1, 2]] {
            send_train(&client, datagram, 100, address, None).unwrap();
            let got = all(&mut Inlet::default(), owner, datagram.len());
            assert_eq!(got[0].2, datagram, "id {id:04x}");
        }
    }
}
