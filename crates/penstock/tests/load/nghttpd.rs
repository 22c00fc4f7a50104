//! A server of HTTP/2 by other authors: nghttpd.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use penstock_testkit::{Content, Process, ReservedAddress, until};

/// A running nghttpd with its files.
pub(crate) struct Nghttpd {
    address: ReservedAddress,
    scheme: &'static str,
    directory: tempfile::TempDir,
    _process: Process,
}

impl Nghttpd {
    /// Starts it over TLS.
    pub(crate) fn start_tls(options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let [key, certificate] = ["key", "certificate"].map(|name| directory.path().join(name));
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        fs::write(&certificate, made.cert.pem()).unwrap();
        Self::start("https", directory, options, &[key, certificate])
    }

    /// Starts it without TLS, for clients with prior knowledge.
    pub(crate) fn start_plain(options: &[&str]) -> Self {
        Self::start("http", tempfile::tempdir().unwrap(), &[options, &["--no-tls"]].concat(), &[])
    }

    fn start(
        scheme: &'static str,
        directory: tempfile::TempDir,
        options: &[&str],
        identity: &[PathBuf],
    ) -> Self {
        let address = ReservedAddress::reserve();
        let mut command = Command::new("nghttpd");
        command.args(options).args(["--address", "127.0.0.1", "--htdocs"]).arg(directory.path());
        command.arg(address.address().port().to_string()).args(identity);
        let process = Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()));
        let process = process.expect("nghttpd is missing: apt-get install nghttp2-server");
        until("nghttpd listens", || TcpStream::connect(address.address()).ok());
        Self { address, scheme, directory, _process: process }
    }

    /// Writes a file of so many known bytes.
    pub(crate) fn file(&self, name: &str, len: u64) -> Content {
        let content = Content::new(len, len);
        content.write_to(&self.directory.path().join(name));
        content
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.directory.path().join(name), text).unwrap();
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }
}
