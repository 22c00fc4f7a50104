//! Base URLs, and the service locations among which a steering server chooses (ETSI TS 103 998).

use super::xml::Element;
use crate::target::TargetUrl;

/// The most service locations that are read.
const LOCATIONS_MAX: usize = 8;

/// The names of the service locations below an element, each once, in the order of the description.
pub(super) fn names(root: &Element) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut elements = vec![root];
    while let Some(element) = elements.pop() {
        let own = element.get("serviceLocation").filter(|_| element.name == "BaseURL");
        if let Some(name) = own.filter(|name| found.iter().all(|known| known != name))
            && found.len() < LOCATIONS_MAX
        {
            found.push(name.to_owned());
        }
        elements.extend(element.children.iter().rev());
    }
    found
}

/// The base URL of an element at one service location.
#[derive(Clone, Debug)]
pub(super) struct Place<'n> {
    pub(super) base: TargetUrl,
    /// `None` if there is one location alone.
    location: Option<&'n str>,
}

impl<'n> Place<'n> {
    /// The places of an outermost element, for each of these locations.
    pub(super) fn all(base: &TargetUrl, root: &Element, names: &'n [String]) -> Option<Vec<Self>> {
        let outside = |location| Self { base: base.clone(), location };
        match names {
            [] => Some(vec![outside(None).inside(root)?]),
            names => names.iter().map(|name| outside(Some(name.as_str())).inside(root)).collect(),
        }
    }

    /// The place inside an element: its base URL of this location, or else the first.
    pub(super) fn inside(&self, element: &Element) -> Option<Self> {
        let is_here = |url: &&Element| self.location.is_some() && url.get("serviceLocation") == self.location;
        let url = element.all("BaseURL").find(is_here).or_else(|| element.child("BaseURL"));
        let base = url.map_or_else(|| Some(self.base.clone()), |url| self.base.join(&url.text).ok())?;
        Some(Self { base, location: self.location })
    }
}
