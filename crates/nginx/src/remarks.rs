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
#[derive(Debug, Default)]
pub(crate) struct Remarks(pub(crate) Vec<Remark>);

impl Remarks {
    /// Adds a remark on a directive.
    pub(crate) fn add(&mut self, directive: &Directive, why: impl Into<String>) {
        self.push(directive, why.into(), false);
    }

    /// Adds a remark on a directive without which clients get what they should not.
    pub(crate) fn caution(&mut self, directive: &Directive, why: impl Into<String>) {
        self.push(directive, why.into(), true);
    }

    fn push(&mut self, directive: &Directive, why: String, opens: bool) {
        let mut words = vec![directive.name.as_str()];
        words.extend(directive.arguments.iter().map(String::as_str));
        let what: String = words.join(" ").chars().take(100).collect();
        let remark = Remark { file: directive.file.clone(), line: directive.line, what, why, opens };
        if !self.0.contains(&remark) {
            self.0.push(remark);
        }
    }
}
