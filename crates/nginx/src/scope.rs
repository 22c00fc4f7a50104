//! Inheritance: a directive holds in its block and in those within, unless one of them has its own.

use crate::parse::Directive;

/// A block with those around it, the innermost first.
#[derive(Clone, Debug)]
pub(crate) struct Scope<'d>(Vec<&'d Directive>);

impl<'d> Scope<'d> {
    pub(crate) fn of(outermost: &'d Directive) -> Self {
        Self(vec![outermost])
    }

    pub(crate) fn within(&self, inner: &'d Directive) -> Self {
        let mut levels = vec![inner];
        levels.extend(&self.0);
        Self(levels)
    }

    /// The directive of this name that holds here.
    pub(crate) fn find(&self, name: &str) -> Option<&'d Directive> {
        self.0.iter().find_map(|level| level.child(name))
    }

    /// All directives of this name that hold here: those of the innermost block that has one.
    pub(crate) fn all(&self, name: &str) -> Vec<&'d Directive> {
        self.all_of(&[name])
    }

    /// All directives of these names that hold here, where one of them in a block replaces all of the blocks around it.
    pub(crate) fn all_of(&self, names: &[&str]) -> Vec<&'d Directive> {
        let found = |level: &&'d Directive| -> Vec<&'d Directive> {
            level.children().iter().filter(|child| names.contains(&child.name.as_str())).collect()
        };
        self.0.iter().map(found).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The first argument of the directive of this name.
    pub(crate) fn value(&self, name: &str) -> Option<&'d str> {
        self.find(name).map(|directive| directive.argument(0))
    }

    /// The server around it.
    pub(crate) fn server(&self) -> Option<&'d Directive> {
        self.0.iter().find(|level| level.name == "server").copied()
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.value(name) == Some("on")
    }
}
