//! Machines whose clock is wrong.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use penstock_testkit::{Process, ReservedAddress, Server, Setup, disk_directory, until};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{Ports, issuer, orders, shown, status, wait_for_certificate};

/// The clock of one program, which differs from that of the machine by what its file says.
struct WrongClock {
    directory: TempDir,
    library: PathBuf,
}

impl WrongClock {
    /// A clock that is wrong by this, such as `+70d`; `None`, said aloud, without the library.
    fn new(by: &str) -> Option<Self> {
        let places = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"].map(Path::new);
        let library = places.map(|place| place.join("faketime/libfaketime.so.1"));
        let Some(library) = library.into_iter().find(|library| library.exists()) else {
            penstock_testkit::not_tested("a wrong clock; scripts/install-needs test installs faketime");
            return None;
        };
        let clock = Self { directory: disk_directory(), library };
        clock.set(by);
        Some(clock)
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("clock")
    }

    fn set(&self, by: &str) {
        let new = self.directory.path().join("new");
        fs::write(&new, by).unwrap();
        fs::rename(new, self.file()).unwrap();
    }

    /// Has the program see this clock. What sleeps and waits goes by the monotonic one, which is right.
    fn shown_to(&self, setup: Setup) -> Setup {
        let setup = setup.environment("LD_PRELOAD", self.library.display());
        let setup = setup.environment("FAKETIME_TIMESTAMP_FILE", self.file().display());
        setup.environment("FAKETIME_NO_CACHE", 1).environment("FAKETIME_DONT_FAKE_MONOTONIC", 1)
    }
}

/// The library leaves memory and semaphores of its programs behind.
impl Drop for WrongClock {
    fn drop(&mut self) {
        let left = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        for path in left.map(|entry| entry.path()) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let of =
                ["faketime_shm_", "sem.faketime_sem_"].iter().find_map(|prefix| name.strip_prefix(prefix));
            if of.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
                let _gone = fs::remove_file(&path);
            }
        }
    }
}

/// What the status says about the clock.
fn fault(server: &Server) -> Option<String> {
    status(server)["clock"].as_str().map(str::to_owned)
}

fn wait_for_right_clock(server: &Server) {
    until("no fault of the clock", || fault(server).is_none().then_some(()));
    server.wait_for_log("acme: the clock of this machine was set");
}

fn wait_for_state(server: &Server, state: &str) {
    until(state, || (status(server)["names"][0]["state"] == state).then_some(()));
}

#[test]
fn a_clock_that_is_months_ahead_orders_one_certificate() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    // By this clock a new certificate is due at once.
    let Some(clock) = WrongClock::new("+70d") else { return };
    let pebble = pebble.start();
    let mut server = clock.shown_to(ports.setup(&pebble.section("storage: acme"))).start();
    server.expect_warning("acme: the clock of this machine is 70 days ahead of the CA's");
    let first = wait_for_certificate(&server, "a.example", "");
    for _ in 0..3 {
        wait_for_state(&server, "valid");
        assert!(fault(&server).is_some_and(|words| words.contains("70 days ahead")));
        server.start_again(Signal::TERM);
    }
    wait_for_state(&server, "valid");
    clock.set("+0");
    wait_for_right_clock(&server);
    server.wait_for_log("acme: the clock of this machine agrees with the CA's");
    wait_for_state(&server, "valid");
    assert_eq!(shown(&server, "a.example"), first);
    assert_eq!(pebble.log().matches("Issued certificate serial").count(), 1, "{}", pebble.log());
}

#[test]
fn a_certificate_is_renewed_in_time_while_the_clock_is_weeks_behind() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let Some(clock) = WrongClock::new("-40d") else { return };
    let pebble = pebble.with_life(15).start();
    let section = pebble.section("storage: acme, profile: tests");
    let server = clock.shown_to(ports.setup(&section)).start();
    server.expect_warning("acme: the clock of this machine is 40 days behind the CA's");
    server.expect_warning("is not valid now");
    // Pebble's window is the whole of such a short life.
    server.tolerate_warning("is due again just after its order");
    let first = wait_for_certificate(&server, "a.example", "");
    wait_for_certificate(&server, "a.example", &first);
    assert!(fault(&server).is_some_and(|words| words.contains("40 days behind")));
}

#[test]
fn a_machine_without_a_clock_says_so_and_orders_once_it_has_one() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    // Before the certificate of the authority's server begins.
    let Some(clock) = WrongClock::new("-20000d") else { return };
    let pebble = pebble.start();
    let server = clock.shown_to(ports.setup(&pebble.section("storage: acme"))).start();
    server.expect_warning("the certificate of the CA's server has ended or has not begun");
    server.expect_warning(
        "acme: no certificate for a.example: the CA cannot be reached: its certificate does not verify",
    );
    wait_for_state(&server, "failing");
    assert!(fault(&server).is_some_and(|words| words.contains("set the clock")));
    assert!(issuer(&shown(&server, "a.example")).contains("self-signed"));
    assert_eq!(orders(&server, "rejected"), 0.0, "no order that counts");
    clock.set("+0");
    wait_for_right_clock(&server);
    wait_for_certificate(&server, "a.example", "");
    assert_eq!(pebble.log().matches("Issued certificate serial").count(), 1, "{}", pebble.log());
}

const SHIFTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/acme/shifted.py");

#[test]
fn an_authority_that_is_wrong_about_the_time_is_not_asked_for_certificates_without_end() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let pebble = pebble.start();
    let address = ReservedAddress::reserve();
    let at = |name: &str| pebble.root().with_file_name(name);
    let mut command = Command::new("python3");
    command.arg(SHIFTED).arg(address.address().port().to_string()).arg(at("ec.crt")).arg(at("ec.key"));
    command.arg(pebble.port().to_string()).arg(at("authority.crt")).arg("365");
    let _shifted = Process::spawn(&mut command).unwrap();
    until("the authority", || TcpStream::connect(address.address()).ok());
    let section = pebble.section_at(&format!("https://{address}/dir"), "storage: acme");
    let mut server = ports.setup(&section).start();
    server.expect_warning("behind the CA's");
    server.expect_warning("acme: the certificate for a.example is due again just after its order");
    let first = wait_for_certificate(&server, "a.example", "");
    let ordered = |server: &Server, times: usize, next: &str| {
        wait_for_state(server, "valid");
        server.wait_for_log(&format!("is due again just after its order; the next order is in {next}"));
        assert_eq!(pebble.log().matches("Issued certificate serial").count(), times, "{}", pebble.log());
    };
    // An hour less what has passed.
    ordered(&server, 1, "3");
    // The first restart replaces it; the rest of four hours after that outlives the next ones.
    server.start_again(Signal::TERM);
    let second = wait_for_certificate(&server, "a.example", &first);
    ordered(&server, 2, "14");
    for _ in 0..2 {
        server.start_again(Signal::TERM);
        ordered(&server, 2, "14");
    }
    assert_eq!(shown(&server, "a.example"), second);
}
