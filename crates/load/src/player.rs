//! What a video player does, without a socket: it is told what arrived when, and says what to fetch next.

mod totals;

pub use totals::Totals;

/// What kind of players take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {}
