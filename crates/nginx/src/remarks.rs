//! Remarks: what was not translated, and why.

use std::fmt;

use crate::parse::Directive;

/// A directive that was not translated, or not in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The file that has the directive.
    pub file: String,
    /// Its line, counted from 1.
    pub line: usize,
    /// The directive.
    pub what: String,
    /// Why, or what to write instead.
    pub why: String,
    /// Whether the translation serves to clients what nginx refuses them.
    pub opens: bool,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let warning = if self.opens { "CAUTION: " } else { "" };
        let one_line = |text: &str| text.replace(char::is_control, " ");
        write!(
            f,
            "{warning}{}:{}: {}: {}",
            one_line(&self.file),
            self.line,
            one_line(&self.what),
            one_line(&self.why)
        )
    }
}

/// The remarks so far.
#[derive(Default)]
pub(crate) struct Remarks {
    pub(crate) all: Vec<Remark>,
    /// Secrets that have to be written to files, in the order of the names of these files.
    secrets: Vec<String>,
}

impl Remarks {
    /// Adds a remark on a directive.
    pub(crate) fn add(&mut self, directive: &Directive, why: impl Into<String>) {
        self.push(directive, why.into(), false);
    }

    /// Adds a remark on a directive without which clients get what they should not.
    pub(crate) fn caution(&mut self, directive: &Directive, why: impl Into<String>) {
        self.push(directive, why.into(), true);
    }

    /// The name of the file that a secret has to be written to.
    pub(crate) fn secret_file(&mut self, secret: &str) -> String {
        let known = self.secrets.iter().position(|known| known == secret);
        let place = known.unwrap_or_else(|| {
            self.secrets.push(secret.to_owned());
            self.secrets.len() - 1
        });
        match place {
            0 => "secure-link.key".to_owned(),
            _ => format!("secure-link-{}.key", place + 1),
        }
    }

    fn push(&mut self, directive: &Directive, why: String, opens: bool) {
        let mut words = vec![directive.name.as_str()];
        words.extend(directive.arguments.iter().map(String::as_str));
        let what: String = words.join(" ").chars().take(100).collect();
        let remark = Remark { file: directive.file.clone(), line: directive.line, what, why, opens };
        if !self.all.contains(&remark) {
            self.all.push(remark);
        }
    }
}
