//! Which route of a site a request belongs to: the first that matches.

#[cfg(feature = "fuzz")]
mod fuzz;
#[cfg(test)]
mod measured;

use std::collections::HashMap;

use penstock_config::{Condition, ConditionTest, RouteMatcher};
use penstock_http::{Method, Request};

use crate::site::bare_path::climbs;
use crate::site::prefix_tree::PrefixTree;

#[cfg(feature = "fuzz")]
pub use fuzz::fuzz_routes;

/// The routes of a site, compiled. A request is compared with those only whose path begins or ends as its own does.
#[derive(Debug, Default)]
pub(crate) struct RouteMatchers {
    matchers: Vec<RouteMatcher>,
    /// Routes of which fewer begin alike than end alike.
    beginnings: PrefixTree,
    /// The others by their end, backwards.
    ends: PrefixTree,
}

/// The path could name another one for an origin that decodes more than it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AmbiguousPath;

impl RouteMatchers {
    pub(crate) fn new(matchers: Vec<RouteMatcher>) -> Self {
        let (mut beginnings, mut ends) = (PrefixTree::default(), PrefixTree::default());
        let mut alike = HashMap::new();
        for matcher in &matchers {
            *alike.entry((true, matcher.path.prefix())).or_insert(0) += 1;
            *alike.entry((false, matcher.path.suffix())).or_insert(0) += 1;
        }
        for (number, matcher) in matchers.iter().enumerate() {
            let (prefix, suffix) = (matcher.path.prefix(), matcher.path.suffix());
            let begin_alike = alike.get(&(true, prefix));
            let end_alike = alike.get(&(false, suffix));
            let is_rarer = end_alike < begin_alike || end_alike == begin_alike && suffix.len() > prefix.len();
            if !suffix.is_empty() && is_rarer {
                ends.add(&suffix.bytes().rev().collect::<Vec<u8>>(), number);
            } else {
                beginnings.add(prefix.as_bytes(), number);
            }
        }
        Self { matchers, beginnings, ends }
    }

    /// Whether there are no routes.
    pub(crate) fn is_empty(&self) -> bool {
        self.matchers.is_empty()
    }

    /// The number of the first route that matches, counted from 0. `path` is that of the request in its normal form, without a
    /// token.
    ///
    /// # Errors
    /// [`AmbiguousPath`]: no route is certain to be the right one.
    pub(crate) fn find(&self, request: &Request<'_>, path: &str) -> Result<Option<usize>, AmbiguousPath> {
        if path.contains('%') && climbs(path) {
            return Err(AmbiguousPath);
        }
        Ok(self.first(path, |matcher| matches(matcher, request)))
    }

    /// The routes that could answer requests for a path, in order, up to one that answers all.
    pub(crate) fn possible(&self, path: &str) -> Vec<usize> {
        let mut found = Vec::new();
        for (number, matcher) in self.matchers.iter().enumerate().filter(|(_, one)| one.path.matches(path)) {
            found.push(number);
            if matcher.methods.is_empty() && matcher.query.is_empty() && matcher.headers.is_empty() {
                break;
            }
        }
        found
    }

    fn first(&self, path: &str, fits: impl Fn(&RouteMatcher) -> bool) -> Option<usize> {
        let mut first = self.matchers.len();
        let mut see = |numbers: &[usize]| {
            for &number in numbers.iter().take_while(|number| **number < first) {
                let matcher = &self.matchers[number];
                if matcher.path.matches(path) && fits(matcher) {
                    first = number;
                    break;
                }
            }
        };
        self.beginnings.walk(path.bytes(), &mut see);
        self.ends.walk(path.bytes().rev(), &mut see);
        (first < self.matchers.len()).then_some(first)
    }
}

/// Whether the conditions of a route other than its path hold.
fn matches(matcher: &RouteMatcher, request: &Request<'_>) -> bool {
    let method = match request.method() {
        Method::Head => Method::Get.name(),
        method => method.name(),
    };
    (matcher.methods.is_empty()
        || matcher.methods.iter().any(|known| known == method || known == request.method().name()))
        && matcher.query.iter().all(|condition| holds(condition, parameters(request, &condition.name)))
        && matcher.headers.iter().all(|condition| holds(condition, request.values(&condition.name)))
}

/// The values of a parameter of the query; empty for one without a value.
fn parameters<'r>(request: &'r Request<'_>, name: &str) -> impl Iterator<Item = &'r [u8]> {
    let parameters = request.query().into_iter().flat_map(|query| query.split('&'));
    parameters.filter_map(move |parameter| {
        let (known, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        (known == name).then_some(value.as_bytes())
    })
}

fn holds<'v>(condition: &Condition, mut values: impl Iterator<Item = &'v [u8]>) -> bool {
    match &condition.test {
        ConditionTest::Present => values.next().is_some(),
        ConditionTest::Absent => values.next().is_none(),
        ConditionTest::Is(wanted) => values.any(|value| value == wanted.as_bytes()),
    }
}
