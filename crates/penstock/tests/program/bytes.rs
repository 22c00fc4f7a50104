//! Every byte is the right one: sizes and ranges around the borders of packets, records and batches, in every way that
//! bytes leave the server.

use std::io::Read;
use std::net::TcpStream;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use boring::ssl::SslVersion;
use penstock_testkit::{Client, Content, DEADLINE, Random, Server, Setup, Stream, TlsOptions};
use socket2::{Domain, Socket, Type};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Borders in the server: the end of a small record, a large one, the end of the small ones, the smallest
/// and the largest batch.
const BORDERS: [u64; 7] = [1360, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 512 * KIB, MIB];

/// How bytes leave the server.
#[derive(Clone, Copy, Debug)]
enum Way {
    Plain,
    Tls(SslVersion),
}

const WAYS: [Way; 3] = [Way::Plain, Way::Tls(SslVersion::TLS1_2), Way::Tls(SslVersion::TLS1_3)];

impl Way {
    fn connect(self, server: &Server) -> Client<Box<dyn Stream>> {
        let address = match self {
            Self::Plain => server.http(),
            Self::Tls(_) => server.https(),
        };
        self.over(server, Client::connect(address).stream)
    }

    fn over(self, server: &Server, socket: TcpStream) -> Client<Box<dyn Stream>> {
        Client::over(match self {
            Self::Plain => Box::new(socket),
            Self::Tls(version) => {
                Box::new(TlsOptions::version(version).handshake(server, socket).expect("a handshake"))
            }
        })
    }
}

/// A file and its bytes, made once.
struct Film {
    path: String,
    bytes: Vec<u8>,
}

impl Film {
    fn make(server: &Server, name: &str, len: u64) -> Self {
        let content: Content = server.file(name, len);
        Self { path: format!("/{name}"), bytes: content.all() }
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Says where the first difference is instead of showing a page of numbers.
    #[track_caller]
    fn assert_range(&self, range: Range<u64>, found: &[u8], way: Way) {
        let index = |place: u64| usize::try_from(place).expect("a place in memory");
        let expected = &self.bytes[index(range.start)..index(range.end)];
        if expected == found {
            return;
        }
        let difference = expected.iter().zip(found).position(|(a, b)| a != b);
        assert_eq!(difference, None, "{way:?}: {range:?} of {} differs at this place", self.path);
        assert_eq!(found.len(), expected.len(), "{way:?}: {range:?} of {} has another length", self.path);
    }
}

/// The request for a range; the whole file is asked for without one.
fn request(film: &Film, range: &Range<u64>) -> String {
    let field = match range {
        range if *range == (0..film.len()) => String::new(),
        range => format!("Range: bytes={}-{}\r\n", range.start, range.end - 1),
    };
    format!("GET {} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n", film.path)
}

#[test]
fn files_of_every_size_around_a_border_are_exact() {
    let server = Setup::new().start();
    let around = BORDERS.into_iter().flat_map(|border| border - 2..=border + 2);
    let sizes = around.chain([0, 1, 2, 100, 3 * MIB + 7, 5 * MIB]);
    let films: Vec<Film> = sizes.map(|size| Film::make(&server, &format!("{size}.mp4"), size)).collect();
    for way in WAYS {
        let mut client = way.connect(&server);
        for film in &films {
            let head = client.head_with(&film.path, "");
            let get = client.get(&film.path);
            film.assert_range(0..film.len(), &get.body, way);
            assert_eq!(head.field("Content-Length"), Some(&*film.len().to_string()));
            assert_eq!(head.field("Content-Length"), get.field("Content-Length"));
        }
        client.assert_open();
    }
}

#[test]
fn every_length_up_to_three_packets_is_exact() {
    // The head shares its records with the body, so every length meets a border somewhere.
    let server = Setup::new().start();
    let film = Film::make(&server, "film.mp4", 100 * KIB);
    for way in WAYS {
        let mut client = way.connect(&server);
        for batch in (1..=4000).collect::<Vec<u64>>().chunks(20) {
            let ranges: Vec<Range<u64>> = batch.iter().map(|&len| 77..77 + len).collect();
            client.send(ranges.iter().map(|range| request(&film, range)).collect::<String>());
            for range in ranges {
                let body = client.response().expect("a response").body;
                film.assert_range(range, &body, way);
            }
        }
    }
}

#[test]
fn random_ranges_are_exact() {
    let server = Setup::new().start();
    let sizes = [1, 1361, 16 * KIB + 1, 64 * KIB - 1, 512 * KIB + 1, 3 * MIB + 7];
    let films: Vec<Film> = sizes.map(|size| Film::make(&server, &format!("{size}.mp4"), size)).into();
    let random = Random::from_environment();
    thread::scope(|scope| {
        for way in WAYS {
            let (server, films, mut random) = (&server, &films, random.clone());
            let mut client = way.connect(server);
            scope.spawn(move || {
                let mut answered = 0;
                while answered < 1200 {
                    // Alone, or pipelined.
                    let count = if random.below(3) == 0 { 1 + random.below(12) } else { 1 };
                    let asked: Vec<_> = (0..count)
                        .map(|_| {
                            let film =
                                &films[usize::try_from(random.below(films.len() as u64)).expect("few")];
                            (film, random_range(&mut random, film.len()))
                        })
                        .collect();
                    client.send(asked.iter().map(|(film, range)| request(film, range)).collect::<String>());
                    for (film, range) in asked {
                        let response = client.response().expect("a response");
                        film.assert_range(range, &response.body, way);
                        answered += 1;
                    }
                }
                client.assert_open();
            });
        }
    });
}

#[test]
fn after_a_pause_the_bytes_go_on_to_be_right() {
    // After a second the server begins with small records again.
    let server = Setup::new().start();
    let film = Film::make(&server, "film.mp4", 700 * KIB + 3);
    for way in WAYS {
        let mut client = way.connect(&server);
        for _ in 0..2 {
            film.assert_range(0..film.len(), &client.get(&film.path).body, way);
            server.let_a_second_pass();
        }
    }
}

#[test]
fn a_slow_reader_with_a_tiny_window_gets_every_byte() {
    let server = Setup::new().start();
    let film = Film::make(&server, "film.mp4", 2 * MIB + 5);
    let random = Random::from_environment();
    thread::scope(|scope| {
        for way in WAYS {
            let (server, film, mut random) = (&server, &film, random.clone());
            scope.spawn(move || {
                let address = if matches!(way, Way::Plain) { server.http() } else { server.https() };
                let mut client = way.over(server, with_tiny_window(address));
                client.send(request(film, &(0..film.len())));
                let head = client.response_to_head().expect("a response");
                assert_eq!(head.status, 200);
                let mut body = client.take_unread();
                while (body.len() as u64) < film.len() {
                    let mut piece = vec![0; usize::try_from(1 + random.below(20_000)).expect("small")];
                    let count = client.stream.read(&mut piece).expect("more");
                    assert_ne!(count, 0, "{way:?}: closed after {} bytes", body.len());
                    body.extend_from_slice(&piece[..count]);
                    if random.below(16) == 0 {
                        thread::sleep(Duration::from_millis(random.below(5)));
                    }
                }
                film.assert_range(0..film.len(), &body, way);
                client.assert_open();
            });
        }
    });
}

#[test]
fn many_readers_of_the_same_film_do_not_mix() {
    let server = Setup::new().start();
    let films: Vec<Film> = (0..4).map(|n| Film::make(&server, &format!("{n}.mp4"), 6 * MIB + n)).collect();
    thread::scope(|scope| {
        for reader in 0..12 {
            let (server, film, way) = (&server, &films[reader % films.len()], WAYS[reader % WAYS.len()]);
            scope.spawn(move || {
                let mut client = way.connect(server);
                let start = reader as u64 * 1000;
                client.send(request(film, &(start..film.len())));
                let body = client.response().expect("a response").body;
                film.assert_range(start..film.len(), &body, way);
            });
        }
    });
}

/// Begins and ends at or near a border more often than not.
fn random_range(random: &mut Random, len: u64) -> Range<u64> {
    let near = |random: &mut Random| {
        let border = random.pick(&BORDERS);
        (border * random.below(1 + len / border) + random.below(5)).saturating_sub(2)
    };
    let start = if random.below(2) == 0 { random.below(len) } else { near(random).min(len - 1) };
    let end = match random.below(8) {
        0 => start + 1 + random.below(len - start),
        1 => near(random),
        2..=4 => start + near(random),
        _ => start + 1 + random.below(3000),
    };
    start..end.clamp(start + 1, len)
}

/// A connection whose receive buffer is as small as the kernel allows, set before the window is agreed on.
fn with_tiny_window(address: std::net::SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(1).expect("a small buffer");
    socket.connect(&address.into()).expect("a connection");
    socket.set_read_timeout(Some(DEADLINE)).expect("a time limit");
    socket.into()
}
