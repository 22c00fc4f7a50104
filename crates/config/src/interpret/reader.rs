//! Reads single values and collects their faults.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::fault::Fault;
use crate::section::{Position, Text, position};
use crate::units::{Size, Time, UnitError};
use crate::variables::Expansion;

/// The files of a configuration and the faults found so far.
///
/// Each method returns a usable value even for a wrong one, so that reading goes on and finds the next fault. The values
/// count only if `faults` is empty at the end.
pub(crate) struct Reader<'e> {
    /// By the numbers in positions.
    pub(crate) files: Vec<PathBuf>,
    /// The name of the machine.
    pub(crate) host_name: &'e str,
    pub(crate) now: SystemTime,
    faults: Vec<(Position, Fault)>,
    warnings: Vec<(Position, Fault)>,
    /// What the file names to be read.
    pub(crate) paths: RefCell<Vec<PathBuf>>,
    /// Those of them with secrets.
    pub(crate) secrets: RefCell<Vec<SecretFile>>,
}

/// A file with a secret, or a directory of such files.
#[derive(Debug)]
pub(crate) struct SecretFile {
    /// The key of the configuration that names it.
    pub(crate) key: String,
    pub(crate) path: PathBuf,
    pub(crate) position: Position,
}

impl<'e> Reader<'e> {
    pub(crate) fn new(files: Vec<PathBuf>, host_name: &'e str, now: SystemTime) -> Self {
        let (faults, warnings) = (Vec::new(), Vec::new());
        let (paths, secrets) = (RefCell::default(), RefCell::default());
        Self { files, host_name, now, faults, warnings, paths, secrets }
    }

    /// The warnings, in the order of the files.
    ///
    /// # Errors
    /// The faults, in the same order.
    pub(crate) fn finish(self, expansion: &Expansion<'_>) -> Result<Vec<Fault>, Vec<Fault>> {
        let has_faults = !self.faults.is_empty();
        let mut found = if has_faults { self.faults } else { self.warnings };
        // Missing keys come last: a misspelt key before them may be the reason.
        found.sort_by_key(|(here, _)| (here.line == 0, here.file, here.line, here.column));
        let shown = found.into_iter().map(|(here, mut fault)| {
            expansion.hide(&mut fault, here);
            fault
        });
        let shown = shown.collect();
        if has_faults { Err(shown) } else { Ok(shown) }
    }

    /// Faults found up to now.
    pub(crate) fn number_of_faults(&self) -> usize {
        self.faults.len()
    }

    pub(crate) fn fault(&mut self, position: Position, what: impl Into<String>, instead: impl Into<String>) {
        let fault = self.note(position, what.into(), instead.into());
        self.faults.push(fault);
    }

    pub(crate) fn warning(
        &mut self,
        position: Position,
        what: impl Into<String>,
        instead: impl Into<String>,
    ) {
        let warning = self.note(position, what.into(), instead.into());
        self.warnings.push(warning);
    }

    fn note(&self, position: Position, what: String, instead: String) -> (Position, Fault) {
        let file = self.file(position).to_owned();
        (position, Fault { file, line: position.line, column: position.column, what, instead })
    }

    /// The file of a position.
    fn file(&self, position: Position) -> &Path {
        self.files.get(position.file).map_or_else(|| Path::new(""), PathBuf::as_path)
    }

    /// The line of a position, for a message about another one: `line 3`, or `line 3 of FILE`.
    pub(crate) fn line(&self, of: Position, seen_from: Position) -> String {
        match of.file == seen_from.file {
            true => format!("line {}", of.line),
            false => format!("line {} of {}", of.line, self.file(of).display()),
        }
    }

    pub(crate) fn flag(&mut self, key: &str, raw: Option<&Text>, default: bool) -> bool {
        let Some(text) = raw else { return default };
        match text.value.as_str() {
            "true" => true,
            "false" => false,
            other => {
                let instead = match other.to_ascii_lowercase().as_str() {
                    "yes" | "on" | "1" | "y" | "true" => "write true",
                    "no" | "off" | "0" | "n" | "false" => "write false",
                    _ => "write true or false",
                };
                self.fault(position(text), format!("{key}: `{other}` is neither true nor false"), instead);
                default
            }
        }
    }

    pub(crate) fn number<N>(
        &mut self,
        key: &str,
        raw: Option<&Text>,
        range: &RangeInclusive<u64>,
        default: N,
    ) -> N
    where
        N: TryFrom<u64>,
    {
        let Some(text) = raw else { return default };
        let (least, most) = (range.start(), range.end());
        let Ok(number) = text.value.parse::<u64>() else {
            let what = format!("{key}: `{}` is not a whole number", text.value);
            self.fault(position(text), what, format!("write a number from {least} to {most}"));
            return default;
        };
        match N::try_from(number) {
            Ok(converted) if range.contains(&number) => converted,
            _ => {
                let instead = format!("write a number from {least} to {most}");
                self.fault(position(text), format!("{key}: {number} is out of range"), instead);
                default
            }
        }
    }

    pub(crate) fn size<N>(
        &mut self,
        key: &str,
        raw: Option<&Text>,
        range: &RangeInclusive<u64>,
        default: N,
    ) -> N
    where
        N: TryFrom<u64>,
    {
        let Some(text) = raw else { return default };
        let Some(size) = self.unit(key, text, Size::parse(&text.value)) else { return default };
        match N::try_from(size.0) {
            Ok(converted) if range.contains(&size.0) => converted,
            _ => {
                let (least, most) = (Size(*range.start()), Size(*range.end()));
                let instead = format!("write a size from {least} to {most}");
                self.fault(position(text), format!("{key}: {} is out of range", text.value), instead);
                default
            }
        }
    }

    pub(crate) fn time(
        &mut self,
        key: &str,
        raw: Option<&Text>,
        range: &RangeInclusive<Duration>,
        default: Duration,
    ) -> Duration {
        let Some(text) = raw else { return default };
        let Some(time) = self.unit(key, text, Time::parse(&text.value)) else { return default };
        if !range.contains(&time.0) {
            let (least, most) = (Time(*range.start()), Time(*range.end()));
            let instead = format!("write a time from {least} to {most}");
            self.fault(position(text), format!("{key}: {} is out of range", text.value), instead);
            return default;
        }
        time.0
    }

    fn unit<Q>(&mut self, key: &str, text: &Text, parsed: Result<Q, UnitError>) -> Option<Q> {
        parsed
            .map_err(|UnitError { what, instead }| {
                self.fault(position(text), format!("{key}: {what}"), instead)
            })
            .ok()
    }

    pub(crate) fn address(&mut self, key: &str, text: &Text) -> Option<SocketAddr> {
        if let Ok(address) = text.value.parse() {
            return Some(address);
        }
        let instead = match text.value.rsplit_once(':') {
            _ if text.value.parse::<std::net::Ipv4Addr>().is_ok() => format!("write {}:443", text.value),
            _ if text.value.parse::<std::net::Ipv6Addr>().is_ok() => {
                format!("write \"[{}]:443\"", text.value)
            }
            _ if text.value.parse::<u16>().is_ok() => format!("write 0.0.0.0:{}", text.value),
            Some(("localhost", port)) => format!("write 127.0.0.1:{port} or \"[::1]:{port}\""),
            Some(("" | "*", port)) => format!("write 0.0.0.0:{port} or \"[::]:{port}\""),
            _ => "write an IP address and a port, such as 0.0.0.0:443 or \"[::]:443\"".to_owned(),
        };
        self.fault(
            position(text),
            format!("{key}: `{}` is not an IP address with a port", text.value),
            instead,
        );
        None
    }

    /// An absolute path. Relative ones start at the directory of the file that has them, so that they mean the same in a
    /// shell and under systemd.
    pub(crate) fn path(&self, text: &Text) -> PathBuf {
        let path = self.absolute(text);
        self.paths.borrow_mut().push(path.clone());
        path
    }

    /// Notes a file with a secret, or a directory of such files.
    pub(crate) fn note_secret(&self, key: &str, path: &Path, position: Position) {
        self.secrets.borrow_mut().push(SecretFile { key: key.to_owned(), path: path.to_owned(), position });
    }

    /// An absolute path that is no file of the configuration.
    pub(crate) fn absolute(&self, text: &Text) -> PathBuf {
        let from = self.file(position(text)).parent().unwrap_or_else(|| Path::new(""));
        let path = from.join(&text.value);
        std::path::absolute(&path).unwrap_or(path)
    }

    /// A directory that exists and may be entered.
    pub(crate) fn directory(&mut self, key: &str, text: &Text) -> PathBuf {
        let path = self.path(text);
        if let Err((what, instead)) = check_directory(&path) {
            self.fault(position(text), format!("{key}: {what}"), instead);
        }
        path
    }

    /// A directory to write to, which need not exist yet.
    pub(crate) fn output_directory(&mut self, key: &str, text: &Text) -> PathBuf {
        let path = self.absolute(text);
        if text.value.is_empty() || path.metadata().is_ok_and(|found| !found.is_dir()) {
            let what = format!("{key}: {} is not a directory", path.display());
            self.fault(position(text), what, "write the path of a directory");
        }
        path
    }

    /// A file to write: its directory has to exist.
    pub(crate) fn output_file(&mut self, key: &str, text: &Text) -> PathBuf {
        let path = self.absolute(text);
        let above = path.parent().unwrap_or(&path);
        if text.value.is_empty() || path.is_dir() {
            let what = format!("{key}: {} is a directory", path.display());
            self.fault(position(text), what, "write the name of a file");
        } else if let Err((what, _)) = check_directory(above) {
            self.fault(position(text), format!("{key}: {what}"), "make that directory or write another file");
        }
        path
    }
}

/// Checks that a directory can be used; an error is the fault and its remedy.
pub(crate) fn check_directory(path: &Path) -> Result<(), (String, &'static str)> {
    // The dot requires permission to search the directory, which serving needs; listing does not.
    let Err(error) = path.join(".").metadata() else { return Ok(()) };
    let shown = path.display();
    Err(match error.kind() {
        ErrorKind::NotFound => {
            (format!("{shown} does not exist"), "make that directory or write the path of another")
        }
        ErrorKind::NotADirectory if path.exists() => {
            (format!("{shown} is not a directory"), "write the path of a directory")
        }
        ErrorKind::PermissionDenied => (
            format!("{shown} may not be entered by this user"),
            "give the user that runs Penstock the permission (chmod o+x, or its group)",
        ),
        _ => (format!("{shown} cannot be used ({error})"), "write the path of a directory"),
    })
}
