//! A finding about a configuration, for people and for programs.

use std::fmt;
use std::path::Path;

use penstock_config::{Fault, KeyPaths, read_file};
use serde_json::{Value, json};

/// What a finding means for a server with this configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// No server starts with it.
    Error,
    /// A server starts or may start with it, and some clients, operators or a later start suffer.
    Warning,
    /// This machine could serve it better.
    Advice,
}

/// One finding, with its position in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) fault: Fault,
}

impl Severity {
    pub(crate) const ALL: [Self; 3] = [Self::Error, Self::Warning, Self::Advice];

    /// Its name for people and programs.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Advice => "advice",
        }
    }
}

impl Finding {
    pub(crate) fn error(fault: Fault) -> Self {
        Self { severity: Severity::Error, fault }
    }

    pub(crate) fn warning(fault: Fault) -> Self {
        Self { severity: Severity::Warning, fault }
    }

    pub(crate) fn advice(fault: Fault) -> Self {
        Self { severity: Severity::Advice, fault }
    }
}

/// `FILE:LINE: what; remedy (warning)`; an error without its severity.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.severity {
            Severity::Error => write!(f, "{}", self.fault),
            Severity::Warning | Severity::Advice => write!(f, "{} ({})", self.fault, self.severity.label()),
        }
    }
}

/// The version of [`document`].
const SCHEMA: u32 = 1;

/// The findings for programs; `docs/operations.md` describes the fields. `given` is the text of the file `shown` if it cannot be
/// read again. `result` has the summary and the HTTPS records of a configuration that can be used.
pub(crate) fn document(
    findings: &[Finding],
    (shown, given): (&Path, Option<&str>),
    result: Option<(&str, &[String])>,
) -> Value {
    let paths = Paths::new(findings, shown, given);
    let count = |severity: Severity| findings.iter().filter(|one| one.severity == severity).count();
    let counts: serde_json::Map<String, Value> = Severity::ALL
        .into_iter()
        .map(|severity| (severity.label().to_owned(), json!(count(severity))))
        .collect();
    json!({
        "schema": SCHEMA,
        "version": env!("PENSTOCK_VERSION"),
        "file": shown.display().to_string(),
        "summary": result.map(|(summary, _)| summary),
        "https_records": result.map(|(_, records)| records),
        "findings": findings.iter().map(|one| described(one, &paths)).collect::<Vec<_>>(),
        "counts": counts,
    })
}

/// The keys of each file that findings name.
struct Paths<'f>(Vec<(&'f Path, KeyPaths)>);

impl<'f> Paths<'f> {
    fn new(findings: &'f [Finding], shown: &Path, given: Option<&str>) -> Self {
        let mut known: Vec<(&Path, KeyPaths)> = Vec::new();
        for file in findings.iter().filter(|one| one.fault.line > 0).map(|one| one.fault.file.as_path()) {
            if known.iter().any(|(other, _)| *other == file) {
                continue;
            }
            let keys = match given.filter(|_| file == shown) {
                Some(text) => KeyPaths::of(text),
                // A file that has changed or gone since gives other keys or none.
                None => read_file(file).map_or_else(|_| KeyPaths::default(), |text| KeyPaths::of(&text)),
            };
            known.push((file, keys));
        }
        Self(known)
    }

    fn key(&self, fault: &Fault) -> Option<&str> {
        let (_, keys) = self.0.iter().find(|(file, _)| *file == fault.file)?;
        keys.at(fault.line, fault.column)
    }
}

fn described(finding: &Finding, paths: &Paths<'_>) -> Value {
    let fault = &finding.fault;
    let position = |number: usize| (fault.line > 0).then_some(number);
    json!({
        "severity": finding.severity.label(),
        "file": fault.file.display().to_string(),
        "line": position(fault.line),
        "column": position(fault.column),
        "key": paths.key(fault),
        "text": fault.what,
        "remedy": (!fault.instead.is_empty()).then_some(&fault.instead),
    })
}
