//! Pebble, the test authority of Let's Encrypt, with a name server of its own.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use penstock_testkit::{Certificates, Process, ReservedAddress, Tool, disk_directory, until};
use serde_json::json;
use tempfile::TempDir;

/// The authority. What is made without a choice validates on ports of its own.
pub(super) struct Pebble {
    directory: TempDir,
    address: ReservedAddress,
    management: ReservedAddress,
    names: SocketAddr,
    http: u16,
    tls: u16,
    variables: Vec<(&'static str, &'static str)>,
    external_account: Option<(&'static str, &'static str)>,
    life_seconds: u32,
    process: Option<Process>,
}

/// Where Pebble is: beside the build (`scripts/install-needs test`), or installed.
fn program() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/pebble");
    let is_there = |program: &PathBuf| {
        Command::new(program).arg("-version").output().is_ok_and(|found| found.status.success())
    };
    [built, PathBuf::from("pebble")].into_iter().find(is_there)
}

impl Pebble {
    /// An authority that validates on these ports, not started; `None`, said aloud, if none is installed.
    pub(super) fn new(http: u16, tls: u16) -> Option<Self> {
        if program().is_none() {
            penstock_testkit::not_tested(
                "certificates by ACME; scripts/install-needs test builds Pebble, given Go",
            );
            return None;
        }
        let directory = disk_directory();
        Certificates::make(directory.path());
        let names = serve_names(directory.path().join("records"));
        let (address, management) = (ReservedAddress::reserve(), ReservedAddress::reserve());
        let variables = vec![("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "5")];
        let (external_account, process, life_seconds) = (None, None, 90 * 24 * 3600);
        Some(Self {
            directory,
            address,
            management,
            names,
            http,
            tls,
            variables,
            external_account,
            life_seconds,
            process,
        })
    }

    /// Rejects more nonces than usual, in percent.
    pub(super) fn rejecting_nonces(mut self, percent: &'static str) -> Self {
        self.variables.push(("PEBBLE_WFE_NONCEREJECT", percent));
        self
    }

    /// Has each order prove its name, although the account has done so before.
    pub(super) fn proving_each_time(mut self) -> Self {
        self.variables.push(("PEBBLE_AUTHZREUSE", "0"));
        self
    }

    /// Makes certificates that end after so many seconds.
    pub(super) fn with_life(mut self, seconds: u32) -> Self {
        self.life_seconds = seconds;
        self
    }

    /// Demands accounts that belong to this one: identifier and key.
    pub(super) fn demanding(mut self, account: (&'static str, &'static str)) -> Self {
        self.external_account = Some(account);
        self
    }

    /// Starts it, and waits until it answers.
    pub(super) fn start(mut self) -> Self {
        self.start_again();
        self
    }

    /// Starts it with no memory of what was before.
    pub(super) fn start_again(&mut self) {
        // Its ports are free only when it has ended.
        self.stop();
        let at = |name: &str| self.directory.path().join(name);
        let keys = self.external_account.map(|(id, key)| json!({id: key})).unwrap_or_else(|| json!({}));
        let config = json!({"pebble": {
            "listenAddress": self.address.address(),
            "managementListenAddress": self.management.address(),
            "certificate": at("ec.crt"),
            "privateKey": at("ec.key"),
            "httpPort": self.http,
            "tlsPort": self.tls,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": self.external_account.is_some(),
            "externalAccountMACKeys": keys,
            "domainBlocklist": ["blocked.example"],
            "retryAfter": {"authz": 1, "order": 1},
            "keyAlgorithm": "ecdsa",
            // Of several, Pebble chooses one at random for an order without a profile.
            "profiles": {"tests": {"description": "the only one", "validityPeriod": self.life_seconds}},
        }});
        fs::write(at("pebble.json"), config.to_string()).unwrap();
        let mut command = Command::new(program().unwrap());
        command.arg("-config").arg(at("pebble.json")).arg("-dnsserver").arg(self.names.to_string());
        command.envs(self.variables.iter().copied());
        let log = fs::File::create(at("pebble.log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.process = Some(Process::spawn(&mut command).unwrap());
        until("Pebble", || self.curl(&self.directory_url()).contains("newOrder").then_some(()));
        fs::write(at("root.crt"), self.curl(&format!("https://{}/roots/0", self.management))).unwrap();
    }

    /// Ends it.
    pub(super) fn stop(&mut self) {
        self.process = None;
    }

    pub(super) fn port(&self) -> u16 {
        self.address.address().port()
    }

    pub(super) fn directory_url(&self) -> String {
        format!("https://{}/dir", self.address)
    }

    /// The section `tls` of a configuration with this authority; `more` are further keys.
    pub(super) fn section(&self, more: &str) -> String {
        self.section_at(&self.directory_url(), more)
    }

    /// The same at another URL.
    pub(super) fn section_at(&self, url: &str, more: &str) -> String {
        let ca = self.directory.path().join("authority.crt");
        format!("acme: {{agree_to_terms: true, directory: \"{url}\", ca_file: {}, {more}}}", ca.display())
    }

    /// The root that its certificates chain to.
    pub(super) fn root(&self) -> PathBuf {
        self.directory.path().join("root.crt")
    }

    /// The file with the TXT records that its name server knows: lines of a name and a value.
    pub(super) fn records(&self) -> PathBuf {
        self.directory.path().join("records")
    }

    /// What it says so far.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("pebble.log")).unwrap()
    }

    /// Has it want a certificate to be renewed between two times in RFC 3339.
    pub(super) fn suggest(&self, certificate: &str, start: &str, end: &str) {
        let window = json!({"suggestedWindow": {"start": start, "end": end}}).to_string();
        let order = json!({"certificate": certificate, "ariResponse": window}).to_string();
        let url = format!("https://{}/set-renewal-info/", self.management);
        let tool = self.tool(&url).args(["--fail", "--data", &order]);
        tool.run().ok();
    }

    fn curl(&self, url: &str) -> String {
        self.tool(url).run().text()
    }

    fn tool(&self, url: &str) -> Tool {
        let curl = Tool::new("curl").args(["--disable", "--silent", "--max-time", "20", "--cacert"]);
        curl.arg(self.directory.path().join("authority.crt")).arg(url)
    }
}

/// Answers queries over TCP: every name has the address 127.0.0.1, and the TXT records of the file. The thread ends with the
/// process.
fn serve_names(records: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut client in listener.incoming().filter_map(Result::ok) {
            // A client that leaves early gets no response.
            drop(answer_once(&mut client, &records));
        }
    });
    address
}

fn answer_once(client: &mut TcpStream, records: &Path) -> std::io::Result<()> {
    let mut length = [0; 2];
    client.read_exact(&mut length)?;
    let mut query = vec![0; u16::from_be_bytes(length).into()];
    client.read_exact(&mut query)?;
    let response = answer(&query, records).unwrap_or_default();
    let length = u16::try_from(response.len()).unwrap_or(0).to_be_bytes();
    client.write_all(&[&length[..], &response].concat())
}

/// A response to a query with one question (RFC 1035 section 4).
fn answer(query: &[u8], records: &Path) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    let mut rest = query.get(12..)?;
    loop {
        let (&length, behind) = rest.split_first()?;
        if length == 0 {
            rest = behind;
            break;
        }
        let (label, behind) = behind.split_at_checked(length.into())?;
        name.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        rest = behind;
    }
    let name = name.join(".");
    let question_end = query.len() - rest.len() + 4;
    let values: Vec<Vec<u8>> = match rest.get(..2)? {
        [0, 1] => vec![vec![127, 0, 0, 1]],
        [0, 16] => {
            let known = fs::read_to_string(records).unwrap_or_default();
            let of_name = known.lines().filter_map(|line| line.split_once(' '));
            let of_name = of_name.filter(|(one, _)| *one == name);
            of_name
                .map(|(_, value)| [&[u8::try_from(value.len()).unwrap()], value.as_bytes()].concat())
                .collect()
        }
        _ => Vec::new(),
    };
    let mut response = query.get(..2)?.to_vec();
    response.extend([0x84, 0, 0, 1, 0, u8::try_from(values.len()).ok()?, 0, 0, 0, 0]);
    response.extend(query.get(12..question_end)?);
    for value in values {
        // The name of the question, its type and class, no time to live.
        response.extend([0xc0, 12]);
        response.extend(rest.get(..4)?);
        response.extend([0, 0, 0, 0, 0, u8::try_from(value.len()).ok()?]);
        response.extend(value);
    }
    Some(response)
}
