//! Reports of a run: table, JSON, plot and histogram log.

mod format;
mod hdr;
mod json;
mod plot;
mod table;

pub use hdr::HdrLog;
pub use json::document;
pub use plot::svg;
pub use table::{heading, line, render};
