//! The files of the page, which are part of the program.

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

const FILES: [(&str, &str, &str); 7] = [
    ("/page/page.css", CSS, include_str!("page/page.css")),
    ("/page/page.js", SCRIPT, include_str!("page/page.js")),
    ("/page/charts.js", SCRIPT, include_str!("page/charts.js")),
    ("/page/format.js", SCRIPT, include_str!("page/format.js")),
    ("/page/purge.js", SCRIPT, include_str!("page/purge.js")),
    ("/page/sections.js", SCRIPT, include_str!("page/sections.js")),
    ("/page/icon.svg", SVG, include_str!("page/icon.svg")),
];

/// Type and text of a file of the page.
pub(crate) fn find(path: &str) -> Option<(&'static str, &'static str)> {
    FILES.iter().find(|(name, ..)| *name == path).map(|(_, kind, text)| (*kind, *text))
}
