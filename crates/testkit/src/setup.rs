//! How a server under test is configured.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::certificates::Certificates;

/// Sections of the configuration; what is not set has the defaults of [`Setup::new`].
#[derive(Clone, Debug)]
pub struct Setup {
    listeners: Vec<String>,
    tls: String,
    sites: String,
    workers: usize,
    limits: BTreeMap<String, String>,
    sections: Vec<String>,
    whole: Option<String>,
    access_log: Option<String>,
    log: Option<String>,
    pub(crate) unprivileged: bool,
    pub(crate) replaceable: bool,
    pub(crate) environment: Vec<(String, String)>,
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}

impl Setup {
    /// An HTTPS and a plain listener on the loopback, two workers, the certificates `ec` and `rsa`, and one site for
    /// every host: the directory [`Server::root`](crate::Server::root). Access log and admin listener are on.
    pub fn new() -> Self {
        let setup = Self {
            listeners: vec!["tls: true".to_owned(), String::new()],
            tls: Certificates::yaml(&["ec", "rsa"]),
            sites: "- origin: {directory: root}".to_owned(),
            workers: 2,
            limits: BTreeMap::new(),
            unprivileged: false,
            replaceable: false,
            environment: Vec::new(),
            sections: Vec::new(),
            whole: None,
            access_log: None,
            log: None,
        };
        setup.limits("connections: 2000, open_files: 1000, lame_duck: 0, drain_deadline: 3s")
    }

    /// Replaces the listeners. Each is the inside of a YAML map such as `tls: true, backlog: 16`; without an
    /// `address` it gets `127.0.0.1` and a reserved port.
    pub fn listeners(mut self, listeners: &[&str]) -> Self {
        self.listeners = listeners.iter().map(|&listener| listener.to_owned()).collect();
        self
    }

    /// Replaces the `tls` section: lines of YAML, not indented.
    pub fn tls(mut self, yaml: &str) -> Self {
        self.tls = yaml.to_owned();
        self
    }

    /// Replaces the sites: a YAML list, not indented.
    pub fn sites(mut self, yaml: &str) -> Self {
        self.sites = yaml.to_owned();
        self
    }

    /// Sets the number of workers.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Sets limits: `head_deadline: 1s`, or several with commas. Already set are connections and open files (to what
    /// any machine allows), the drain deadline, and no lame duck.
    pub fn limits(mut self, limits: &str) -> Self {
        for limit in limits.split(", ") {
            let (key, value) = limit.split_once(": ").expect("key: value");
            self.limits.insert(key.to_owned(), value.to_owned());
        }
        self
    }

    /// Adds a section such as `cache: {…}`.
    pub fn section(mut self, yaml: &str) -> Self {
        self.sections.push(yaml.to_owned());
        self
    }

    /// Adds to the `log` section: the inside of a YAML map.
    pub fn access_log(mut self, keys: &str) -> Self {
        self.access_log = Some(keys.to_owned());
        self
    }

    /// Replaces the `log` section: the inside of a YAML map. Without it, the access log is the file `access.jsonl`.
    pub fn log(mut self, keys: &str) -> Self {
        self.log = Some(keys.to_owned());
        self
    }

    /// Has the permissions of files mean something even when the tests run as root.
    pub fn unprivileged(mut self) -> Self {
        self.unprivileged = true;
        self
    }

    /// Starts the program from a file in the directory of the server, for [`Server::replace_program`](crate::Server::replace_program).
    pub fn replaceable(mut self) -> Self {
        self.replaceable = true;
        self
    }

    /// Sets a variable of the program's environment.
    pub fn environment(mut self, name: &str, value: impl Display) -> Self {
        self.environment.push((name.to_owned(), value.to_string()));
        self
    }

    /// Takes this configuration as it stands and nothing of the above. `ADMIN` in it becomes an address.
    pub fn whole(mut self, yaml: &str) -> Self {
        self.whole = Some(yaml.to_owned());
        self
    }

    /// The configuration file, with this address of the admin listener: `ADMIN` stands for the server's own.
    pub fn yaml(&self, admin: impl Display) -> String {
        if let Some(whole) = &self.whole {
            return whole.replace("ADMIN", &admin.to_string());
        }
        let mut yaml = format!("workers: {}\nlisteners:\n", self.workers);
        for listener in &self.listeners {
            let address = if listener.contains("address:") { "" } else { "address: 127.0.0.1:0, " };
            yaml.push_str(&format!("- {{{address}{listener}}}\n"));
        }
        if self.listeners.iter().any(|listener| listener.contains("tls: true")) {
            yaml.push_str(&format!("tls:\n  {}\n", self.tls.replace('\n', "\n  ")));
        }
        yaml.push_str(&format!("sites:\n{}\n", self.sites));
        let log = self.access_log.as_ref().map_or_else(String::new, |keys| format!(", {keys}"));
        let log = self.log.clone().unwrap_or_else(|| format!("access: access.jsonl{log}"));
        yaml.push_str(&format!("admin: {{address: {admin}}}\nlog: {{{log}}}\n"));
        yaml.push_str("limits:\n");
        for (key, value) in &self.limits {
            yaml.push_str(&format!("  {key}: {value}\n"));
        }
        for section in &self.sections {
            yaml.push_str(&format!("{section}\n"));
        }
        yaml
    }
}
