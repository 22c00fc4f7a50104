//! Kernels that cannot seal, or not yet.

use penstock_testkit::{Client, Content, Server, Setup, Tool, until};
use rustix::process::Signal;

use crate::kernel::{ROOT, has_tls, load, setup, statistics, with_everything};

pub(crate) fn auto_without_tls() {
    assert!(!has_tls(), "this case runs before the module is loaded");
    serves_from_user_space("kernel_lacks_tls");
}

pub(crate) fn auto_without_ciphers() {
    load("tls");
    assert!(
        penstock_sys::ktls::probe().unwrap().accepted.is_empty(),
        "this case runs before ciphers are loaded"
    );
    serves_from_user_space("cipher_not_in_kernel");
}

fn serves_from_user_space(reason: &str) {
    let server = setup("auto").start();
    let file = file("clip.mp4", 300_000);
    assert_eq!(Client::tls(&server).get("/clip.mp4").body, file.all());
    let reason = format!("reason=\"{reason}\"");
    let counted =
        server.metrics().sum("penstock_egress_connections_total", &["kind=\"user_space\"", &reason]);
    assert_eq!(counted, 1.0);
}

pub(crate) fn on_without_tls() {
    assert!(!has_tls(), "this case runs before the module is loaded");
    does_not_start("modprobe tls");
}

pub(crate) fn on_without_ciphers() {
    load("tls");
    does_not_start("modprobe gcm");
}

/// With a reason that says what to do, and the exit code of a configuration that cannot be used here.
fn does_not_start(advice: &str) {
    let helper = setup("off").start();
    let yaml = setup("on").yaml("127.0.0.1:0");
    let file = helper.directory().join("on.yaml");
    std::fs::write(&file, yaml).unwrap();
    let ended = Tool::penstock().args(["serve", "-c"]).arg(&file).run().exits_with(2);
    assert!(ended.stderr.contains(advice), "{}", ended.stderr);
}

pub(crate) fn reload_after_loading() {
    let server = setup("auto").start();
    let file = file("clip.mp4", 300_000);
    let mut old = Client::tls(&server);
    assert_eq!(old.get("/clip.mp4").body, file.all());
    with_everything();
    server.configure(&setup("on"));
    server.signal(Signal::HUP);
    server.wait_for_log("reloaded");
    let before = statistics().opened_software;
    assert_eq!(Client::tls(&server).get("/clip.mp4").body, file.all());
    assert_eq!(statistics().opened_software, before + 1);
    assert_eq!(old.get("/clip.mp4").body, file.all());
    assert_eq!(kernel_connections(&server), 1.0);
}

/// A file in the directory that is served.
pub(crate) fn file(name: &str, len: u64) -> Content {
    let content = Content::new(len, len);
    content.write_to(&std::path::Path::new(ROOT).join(name));
    content
}

/// How many connections the server says the kernel seals.
pub(crate) fn kernel_connections(server: &Server) -> f64 {
    server.metrics().sum("penstock_egress_connections_total", &["kind=\"kernel\""])
}

/// A server with `kernel: on`, and the kernel's count of connections at its start.
pub(crate) fn start_on(setup: &Setup) -> (Server, u64) {
    let server = setup.start();
    (server, statistics().opened_software)
}

/// Fails unless the server and the kernel agree that this many connections were sealed by the kernel.
pub(crate) fn assert_kernel_sealed(server: &Server, before: u64, connections: u64) {
    assert_eq!(statistics().opened_software - before, connections, "TlsTxSw");
    #[expect(clippy::cast_precision_loss, reason = "a handful of connections")]
    let wanted = connections as f64;
    until("the server's count", || (kernel_connections(server) == wanted).then_some(()));
}
