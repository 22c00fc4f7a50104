//! Changes to fields of requests and responses.

use crate::template::Template;

/// Changes to fields, in the order remove, set, add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldRules {
    /// Names of fields that are left out.
    pub remove: Vec<String>,
    /// Fields with their only values.
    pub set: Vec<FieldRule>,
    /// Fields with further values.
    pub add: Vec<FieldRule>,
}

/// A field with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRule {
    /// Its name, as it is written.
    pub name: String,
    /// Its value.
    pub value: Template,
}

impl FieldRules {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }

    /// The rules as they are written, with the names of secrets in place of their values.
    pub fn written(&self) -> String {
        let pairs = |rules: &[FieldRule]| -> String {
            rules.iter().map(|rule| format!("{}: {}\n", rule.name, rule.value.written())).collect()
        };
        format!("{}\n{}\n{}", self.remove.join(" "), pairs(&self.set), pairs(&self.add))
    }
}
