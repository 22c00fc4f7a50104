//! What players went through, added up.

/// Of all players together.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Players that began.
    pub started: u64,
}

impl Totals {
    /// Adds those of another thread.
    pub fn add(&mut self, other: &Self) {
        self.started += other.started;
    }
}
