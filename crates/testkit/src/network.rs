//! Network namespaces: servers that reach each other over networks that a test can cut.

use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::deadline::until;
use crate::process::Process;

/// Places with a namespace each, which two networks join: `nodes` has the places only, `outer` also what is outside.
#[derive(Debug)]
pub struct Networks {
    outside: Namespace,
    places: Vec<Namespace>,
}

/// A network namespace. It ends with its process.
#[derive(Debug)]
struct Namespace(Process);

impl Networks {
    /// So many places; `None` without the rights for namespaces.
    #[must_use]
    pub fn of(places: usize) -> Option<Self> {
        let outside = Namespace::new()?;
        outside
            .ip("link add name outer type bridge\nlink set outer up\naddr add 10.99.0.254/24 dev outer\n\
            link add name nodes type bridge\nlink set nodes up\nlink set lo up\n")?;
        let place = |number: usize| {
            let place = Namespace::new()?;
            let (pid, address) = (place.0.id(), number + 1);
            for network in ["outer", "nodes"] {
                outside.ip(&format!(
                    "link add name {network}{number} type veth peer name {network} netns {pid}\n\
                     link set {network}{number} master {network} up\n"
                ))?;
            }
            place.ip(&format!(
                "link set lo up\nlink set outer up\nlink set nodes up\n\
                 addr add 10.99.0.{address}/24 dev outer\naddr add 10.99.1.{address}/24 dev nodes\n"
            ))?;
            Some(place)
        };
        let places = (0..places).map(place).collect::<Option<_>>()?;
        Some(Self { outside, places })
    }

    /// The address of a place in the network of the places.
    #[must_use]
    pub fn node_address(&self, place: usize, port: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::new(10, 99, 1, u8::try_from(place + 1).unwrap()), port))
    }

    /// An address outside that all places reach.
    #[must_use]
    pub fn outside_address(&self, port: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::new(10, 99, 0, 254), port))
    }

    /// Runs a function outside of the places.
    pub fn outside<R: Send>(&self, run: impl FnOnce() -> R + Send) -> R {
        self.outside.run(run)
    }

    /// Runs a function in a place: what it opens, connects and starts is there.
    pub fn at<R: Send>(&self, place: usize, run: impl FnOnce() -> R + Send) -> R {
        self.places[place].run(run)
    }

    /// Cuts a place off from the others, and not from what is outside; packets are lost without an answer.
    pub fn cut(&self, place: usize) {
        self.outside.ip(&format!("link set nodes{place} down\n")).unwrap();
    }

    /// Ends that.
    pub fn join(&self, place: usize) {
        self.outside.ip(&format!("link set nodes{place} up\n")).unwrap();
    }
}

impl Namespace {
    fn new() -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sleep", "infinity"]).stdin(Stdio::null()).stderr(Stdio::null());
        let mut holder = Self(Process::spawn(&mut command).ok()?);
        let own = fs::read_link("/proc/self/ns/net").ok()?;
        until("a namespace, or the end of the program that makes it", || {
            if holder.0.try_wait().unwrap().is_some() {
                return Some(false);
            }
            // Its process is `unshare` until then, and has the namespace of this one.
            let found = fs::read_link(holder.path()).ok()?;
            (found != own).then_some(true)
        })
        .then_some(holder)
    }

    fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.0.id()).into()
    }

    fn run<R: Send>(&self, run: impl FnOnce() -> R + Send) -> R {
        let inside = || {
            let namespace = File::open(self.path()).unwrap();
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            run()
        };
        thread::scope(|scope| scope.spawn(inside).join()).unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Runs lines of `ip`; `None` if one failed.
    fn ip(&self, lines: &str) -> Option<()> {
        self.run(|| {
            let mut command = Command::new("ip");
            let mut ip = Process::spawn(command.args(["-batch", "-"]).stdin(Stdio::piped())).ok()?;
            ip.stdin.take()?.write_all(lines.as_bytes()).ok()?;
            ip.wait().ok()?.success().then_some(())
        })
    }
}
