//! Which segment of a path names a title.

use crate::pattern::PathPattern;

/// The name of the segment that is the title.
pub(crate) const TITLE: &str = "title";

/// Paths with a segment that names a title: `/vod/{title}/*`. The first that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TitlePatterns(Vec<PathPattern>);

impl TitlePatterns {
    /// Patterns of which each has a segment `{title}`.
    pub(crate) fn new(patterns: Vec<PathPattern>) -> Self {
        Self(patterns)
    }

    /// The title of a path; `None` if no pattern matches.
    #[must_use]
    pub fn title<'p>(&self, path: &'p str) -> Option<&'p str> {
        self.0.iter().find_map(|pattern| pattern.captured(path, TITLE))
    }
}
