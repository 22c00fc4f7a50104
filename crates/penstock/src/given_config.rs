//! A configuration that a command examines: a file, or standard input.

use std::io;
use std::path::{Path, PathBuf};

use penstock_config::{Config, Fault};

use crate::finding::Finding;

/// The name of a configuration from standard input in messages.
const STDIN: &str = "<stdin>";

/// A configuration and where it is from.
pub(crate) struct GivenConfig {
    /// The path at which it was read.
    path: PathBuf,
    /// Its name in messages.
    pub(crate) name: PathBuf,
    /// The text of standard input; `None` for a file.
    pub(crate) text: Option<String>,
    pub(crate) config: Result<Config, Vec<Fault>>,
}

impl GivenConfig {
    /// Reads a file. `-` is standard input, where relative paths start at `base`.
    pub(crate) fn read(path: &Path, base: &Path) -> Self {
        if path != Path::new("-") {
            return Self {
                path: path.to_owned(),
                name: path.to_owned(),
                text: None,
                config: Config::load(path),
            };
        }
        let path = base.join(STDIN);
        let (text, config) = Config::read_from(io::stdin().lock(), &path);
        Self { path, name: PathBuf::from(STDIN), text: Some(text), config }
    }

    /// The finding with the name of this configuration in place of its path.
    pub(crate) fn named(&self, finding: Finding) -> Finding {
        if finding.fault.file != self.path {
            return finding;
        }
        let fault = Fault { file: self.name.clone(), ..finding.fault };
        Finding { fault, ..finding }
    }
}
