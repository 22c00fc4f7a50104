//! The command line of `penstock load`.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use penstock_load::{TargetUrl, quantity};

const EXAMPLES: &str = "\
Examples:
  penstock load handshakes --insecure --duration 3s https://127.0.0.1:8443/1k.bin
  penstock load requests --connections 50 --rate 2000 https://video.example/segment.ts
  penstock load download --connections 10 --bitrate 5Mbit https://video.example/film.mp4
  penstock load playback --viewers 200 --ramp 20s https://video.example/film/index.m3u8

There is no confirmation prompt: load only servers that are yours.";

const HANDSHAKES_EXAMPLES: &str = "\
Examples:
  penstock load handshakes --insecure --duration 3s --connections 1 --json https://127.0.0.1:8443/1k.bin
  penstock load handshakes --tls 1.3 --resume ticket --requests 1000 https://video.example/
  penstock load handshakes --rate 500 --group X25519 --signature-algorithm ECDSA+SHA256 https://video.example/
  penstock load handshakes --resume ticket --sni video.example --address 192.0.2.1:443 --address 192.0.2.2:443 \\
    https://video.example/                                        do all servers resume?";

const REQUESTS_EXAMPLES: &str = "\
Examples:
  penstock load requests --connections 50 --duration 10s https://video.example/index.m3u8
  penstock load requests --objects 10000 --order zipf 'https://video.example/seg-{}.ts'
  penstock load requests --protocol h2 --streams 20 --connections 50 https://video.example/index.m3u8
  penstock load requests --rate 2000 --urls paths.txt --plot run.svg https://video.example/
  penstock load requests --random-range 100KiB:1GiB --method GET=9 --method HEAD=1 https://video.example/film.mp4";

const DOWNLOAD_EXAMPLES: &str = "\
Examples:
  penstock load download --connections 4 --duration 10s https://video.example/film.mp4
  penstock load download --connections 1000 --bitrate 5Mbit --duration 60s https://video.example/film.mp4";

const PLAYBACK_EXAMPLES: &str = "\
Examples:
  penstock load playback --connections 200 --ramp 20s --duration 2m https://video.example/film/index.m3u8
  penstock load playback --viewers 500 --storm 30s --duration 2m https://video.example/live/index.m3u8
  penstock load playback --viewers 50 --quality highest --watch 1m --json https://video.example/film/manifest.mpd";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Load {
    #[command(subcommand)]
    pub(crate) command: LoadCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// Connect, handshake, send a small request, end the connection, and repeat.
    Handshakes(Handshakes),

    /// Send requests, on connections that are kept or on one each.
    Requests(Requests),

    /// Download bodies at full speed, or at the bitrate of players.
    Download(Download),

    /// Play an HLS or DASH stream as players do, and report start-up times and stalls.
    Playback(Playback),
}

#[derive(Args, Debug)]
#[command(after_help = HANDSHAKES_EXAMPLES)]
pub(crate) struct Handshakes {
    #[command(flatten)]
    pub(crate) common: CommonOptions,

    /// Send no request after the handshake.
    #[arg(long)]
    pub(crate) no_request: bool,
}

#[derive(Args, Debug)]
#[command(after_help = REQUESTS_EXAMPLES)]
pub(crate) struct Requests {
    #[command(flatten)]
    pub(crate) common: CommonOptions,

    #[command(flatten)]
    pub(crate) objects: ObjectOptions,

    /// Use a new connection for each request.
    #[arg(long, conflicts_with = "streams")]
    pub(crate) no_keepalive: bool,

    /// Requests under way at a time on each connection, which needs --protocol h2 or h3.
    #[arg(long, value_name = "N", default_value = "1", value_parser = streams)]
    pub(crate) streams: NonZeroUsize,

    /// The method. Several are mixed by their weights: GET=9 and HEAD=1.
    #[arg(long, value_name = "NAME[=WEIGHT]", value_parser = method)]
    pub(crate) method: Vec<(String, u32)>,

    /// The mean pause between a response and the next request of the connection.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, conflicts_with = "rate")]
    pub(crate) think: Option<Duration>,
}

#[derive(Args, Debug)]
#[command(after_help = DOWNLOAD_EXAMPLES)]
pub(crate) struct Download {
    #[command(flatten)]
    pub(crate) common: CommonOptions,

    #[command(flatten)]
    pub(crate) objects: ObjectOptions,

    /// The rate at which each body is read; unlimited if not given.
    #[arg(long, value_name = "BITRATE", value_parser = quantity::bitrate)]
    pub(crate) bitrate: Option<u64>,

    /// Bodies under way at a time on each connection, which needs --protocol h2 or h3.
    #[arg(long, value_name = "N", default_value = "1", value_parser = streams)]
    pub(crate) streams: NonZeroUsize,
}

#[derive(Args, Debug)]
#[command(after_help = PLAYBACK_EXAMPLES)]
pub(crate) struct Playback {
    #[command(flatten)]
    pub(crate) common: CommonOptions,

    /// How much media each player fetches ahead.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::duration)]
    pub(crate) buffer: Duration,

    /// How much media is buffered before playback starts, initially and after a stall.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = quantity::duration)]
    pub(crate) start: Duration,

    /// The rendition to play.
    #[arg(long, value_name = "QUALITY", default_value = "auto")]
    pub(crate) quality: PlayedQuality,

    /// How long a viewer stays before another arrives; to the end of the stream if not given.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    pub(crate) watch: Option<Duration>,

    /// The time over which viewers arrive.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = quantity::duration)]
    pub(crate) ramp: Duration,

    /// The period after which all viewers leave and return at once.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    pub(crate) storm: Option<Duration>,

    /// Fetch whole segments and full playlists, also of low-latency streams.
    #[arg(long)]
    pub(crate) no_low_latency: bool,

    /// Say with each request for media how much is buffered, and which object comes next (CMCD).
    #[arg(long)]
    pub(crate) cmcd: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlayedQuality {
    /// The lowest bitrate.
    Lowest,
    /// The highest bitrate.
    Highest,
    /// The highest bitrate that the measured throughput carries.
    Auto,
}

#[derive(Args, Debug)]
pub(crate) struct ObjectOptions {
    /// A file with one path per line, requested instead of the path of the URL.
    #[arg(long, value_name = "FILE")]
    pub(crate) urls: Option<PathBuf>,

    /// The number of objects that `{}` in a path stands for, numbered from 0.
    #[arg(long, value_name = "N", default_value = "1", value_parser = objects)]
    pub(crate) objects: u64,

    /// The order in which objects are requested.
    #[arg(long, value_name = "ORDER", default_value = "turn")]
    pub(crate) order: OrderBy,

    /// The exponent of --order zipf; a higher one requests fewer objects more often.
    #[arg(long, value_name = "S", default_value = "1.0", value_parser = exponent)]
    pub(crate) exponent: f64,

    /// The byte range to request, such as 0-1023.
    #[arg(long, value_name = "RANGE", value_parser = range, conflicts_with = "random_range")]
    pub(crate) range: Option<String>,

    /// A random range of LENGTH bytes from objects of SIZE bytes, such as 100KiB:1GiB.
    #[arg(long, value_name = "LENGTH:SIZE", value_parser = random_range)]
    pub(crate) random_range: Option<(u64, u64)>,

    /// Compare every body with the first one of the same object and range.
    #[arg(long, conflicts_with = "sha256")]
    pub(crate) checksum: bool,

    /// Compare every body with this SHA-256.
    #[arg(long, value_name = "HEX", value_parser = sha256)]
    pub(crate) sha256: Option<[u8; 32]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderBy {
    /// One after the other.
    Turn,
    /// Each as likely as any other.
    Random,
    /// By popularity: few objects most of the time.
    Zipf,
}

#[derive(Args, Debug)]
pub(crate) struct CommonOptions {
    /// The http or https URL to load.
    #[arg(value_name = "URL")]
    pub(crate) url: TargetUrl,

    /// The protocol of requests: HTTP/2 is chosen by ALPN, or with http:// by prior knowledge. HTTP/3 goes to the UDP port at
    /// once.
    #[arg(long, value_name = "PROTOCOL", default_value = "h1")]
    pub(crate) protocol: ProtocolName,

    /// The most packets of HTTP/3 for which one acknowledgement is sent; all that were received together if not given.
    #[arg(long, value_name = "N")]
    pub(crate) ack_every: Option<NonZeroUsize>,

    /// Concurrent connections.
    #[arg(short, long, visible_alias = "viewers", value_name = "N", default_value = "1", value_parser = connections)]
    pub(crate) connections: NonZeroUsize,

    /// Threads that share the connections.
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = super::values::workers)]
    pub(crate) threads: NonZeroUsize,

    /// The duration of the run; 10 s if neither this nor --requests is given.
    #[arg(short, long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<Duration>,

    /// The number of operations in all.
    #[arg(short = 'n', long, value_name = "N", value_parser = count)]
    pub(crate) requests: Option<u64>,

    /// Operations that start per second, whatever the server does. Latencies then count from when each was due.
    #[arg(short = 'R', long, value_name = "N", value_parser = quantity::rate)]
    pub(crate) rate: Option<f64>,

    /// How long connecting, a handshake, a response head, or a pause in a body may take.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = some_time)]
    pub(crate) timeout: Duration,

    /// Connect to this address instead of the URL's host, by default at the URL's port. Several are used in turn.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = address)]
    pub(crate) address: Vec<ConnectAddress>,

    /// A header field of each request.
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = field)]
    pub(crate) header: Vec<String>,

    /// The seed of random choices. Equal seeds and threads make equal choices.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,

    /// How connections end; the two ways cost a server differently.
    #[arg(long, value_name = "HOW", default_value = "close-notify")]
    pub(crate) ending: EndBy,

    #[command(flatten)]
    pub(crate) tls: TlsOptions,

    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtocolName {
    /// HTTP/1.1.
    H1,
    /// HTTP/2.
    H2,
    /// HTTP/3.
    H3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EndBy {
    /// By close_notify (over TLS) and FIN, then waiting for the server's end; over QUIC by CONNECTION_CLOSE.
    CloseNotify,
    /// By RST, without close_notify; over QUIC without a word.
    Reset,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TlsOptions {
    /// Trust every certificate.
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,

    /// The only version to offer; both if not given.
    #[arg(long, value_name = "VERSION")]
    pub(crate) tls: Option<TlsVersion>,

    /// The cipher suites to offer, best first.
    #[arg(long, value_name = "NAME", value_delimiter = ':')]
    pub(crate) cipher: Vec<String>,

    /// The groups to offer, best first, such as X25519:P-256.
    #[arg(long, value_name = "NAME", value_delimiter = ':')]
    pub(crate) group: Vec<String>,

    /// The signature algorithms to offer, best first, such as ECDSA+SHA256 or RSA-PSS+SHA256.
    #[arg(long, value_name = "NAME", value_delimiter = ':')]
    pub(crate) signature_algorithm: Vec<String>,

    /// The server name to send instead of the URL's; empty sends none.
    #[arg(long, value_name = "NAME")]
    pub(crate) sni: Option<String>,

    /// The protocols to offer; that of --protocol if not given.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) alpn: Vec<String>,

    /// Resume sessions of earlier connections.
    #[arg(long, value_name = "HOW", default_value = "none")]
    pub(crate) resume: ResumeBy,

    /// Request no tickets, as clients without support for them.
    #[arg(long)]
    pub(crate) no_tickets: bool,

    /// Keep sessions in this file from one run to the next.
    #[arg(long, value_name = "FILE")]
    pub(crate) sessions: Option<PathBuf>,

    /// Authorities to trust beside the system's (PEM).
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,

    /// The client's certificate chain (PEM).
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(crate) client_certificate: Option<PathBuf>,

    /// The key of the client's certificate (PEM).
    #[arg(long, value_name = "FILE", alias = "key", requires = "client_certificate")]
    pub(crate) client_key: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TlsVersion {
    #[value(name = "1.2")]
    Tls12,
    #[value(name = "1.3")]
    Tls13,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResumeBy {
    /// Every handshake is a full one.
    None,
    /// By session ticket.
    Ticket,
    /// By session ID (TLS 1.2).
    Id,
    /// By ticket, the request in the first flight (TLS 1.3).
    EarlyData,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputOptions {
    /// Print JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,

    /// Write a log of HDR histograms, one per second.
    #[arg(long, value_name = "FILE")]
    pub(crate) hdr: Option<PathBuf>,

    /// Write a plot of the run (SVG).
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,

    /// Exit with 1 if any operation failed, or if the server reset a kept connection.
    #[arg(long)]
    pub(crate) strict: bool,

    /// Show no progress and no heading.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// An address to connect to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConnectAddress {
    /// At the URL's port.
    Host(IpAddr),
    /// At this port.
    Socket(SocketAddr),
}

fn address(text: &str) -> Result<ConnectAddress, String> {
    let host = || {
        let host = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        host.parse().map(ConnectAddress::Host)
    };
    let parsed = text.parse().map(ConnectAddress::Socket).or_else(|_| host());
    parsed
        .map_err(|_| "write an IP address, such as 192.0.2.1, 192.0.2.1:443 or [2001:db8::1]:443".to_owned())
}

fn some_time(text: &str) -> Result<Duration, String> {
    let time = quantity::duration(text)?;
    if time.is_zero() { Err("write a time of more than 0, such as 250ms or 3s".to_owned()) } else { Ok(time) }
}

fn count(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "write a number from 1, such as 1000".to_owned())
}

/// The most objects. Larger numbers would not be exact.
const OBJECTS_MAX: u64 = 1 << 40;

fn objects(text: &str) -> Result<u64, String> {
    let objects = count(text).ok().filter(|objects| *objects <= OBJECTS_MAX);
    objects.ok_or_else(|| format!("write a number from 1 to {OBJECTS_MAX}"))
}

/// The value of a Range field after `bytes=` (RFC 9110 §14.1.2). Servers ignore a field that is malformed.
fn range(text: &str) -> Result<String, String> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_range = |range: &str| match range.split_once('-') {
        Some((first, last)) => range.len() > 1 && is_number(first) && is_number(last),
        None => false,
    };
    let all = text.split(',').all(|range| is_range(range.trim()));
    if all { Ok(text.to_owned()) } else { Err("write bytes such as 0-1023, 1024- or -500".to_owned()) }
}

/// The most connections. An address has fewer ports.
const CONNECTIONS_MAX: usize = 1_000_000;

fn connections(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|number: &NonZeroUsize| number.get() <= CONNECTIONS_MAX);
    number.ok_or_else(|| format!("write a number from 1 to {CONNECTIONS_MAX}"))
}

/// The most streams of a connection. Servers allow some hundred.
const STREAMS_MAX: usize = 10_000;

fn streams(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|number: &NonZeroUsize| number.get() <= STREAMS_MAX);
    number.ok_or_else(|| format!("write a number from 1 to {STREAMS_MAX}"))
}

fn method(text: &str) -> Result<(String, u32), String> {
    let (name, weight) = text.split_once('=').unwrap_or((text, "1"));
    let weight: Option<u32> = weight.parse().ok().filter(|weight| *weight > 0);
    let known = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase());
    weight
        .filter(|_| known)
        .map(|weight| (name.to_owned(), weight))
        .ok_or_else(|| "write GET or GET=9".to_owned())
}

fn field(text: &str) -> Result<String, String> {
    let wrong = text.bytes().any(|byte| byte.is_ascii_control());
    match text.split_once(':') {
        Some((name, _)) if !name.is_empty() && !name.contains(' ') && !wrong => Ok(text.to_owned()),
        _ => Err("write a field as 'Name: value'".to_owned()),
    }
}

fn exponent(text: &str) -> Result<f64, String> {
    let exponent = text.parse().ok().filter(|exponent| (0.01..=10.0).contains(exponent));
    exponent.ok_or_else(|| "write a number from 0.01 to 10".to_owned())
}

fn random_range(text: &str) -> Result<(u64, u64), String> {
    let (length, size) = text.split_once(':').ok_or("write LENGTH:SIZE, such as 100KiB:1GiB")?;
    let (length, size) = (quantity::bytes(length)?, quantity::bytes(size)?);
    if (1..=size).contains(&length) {
        Ok((length, size))
    } else {
        Err("the length must fit the size".to_owned())
    }
}

fn sha256(text: &str) -> Result<[u8; 32], String> {
    penstock_load::sha256_from_hex(text).ok_or_else(|| "write the 64 digits that sha256sum prints".to_owned())
}
