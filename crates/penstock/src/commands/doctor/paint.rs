//! Colours, marks and bars, for terminals that have them and for those that do not.

use super::finding::Rating;

/// Capabilities of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) colour: bool,
    /// Whether more than ASCII can be shown.
    pub(crate) unicode: bool,
    /// Columns.
    pub(crate) width: usize,
}

/// The meaning of text, which selects its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Text,
    Strong,
    Faint,
    Good,
    Fair,
    Bad,
    Command,
    Bar,
}

/// Narrower tables cannot be read, wider ones neither.
const WIDTH_MIN: usize = 72;
const WIDTH_MAX: usize = 110;

impl Style {
    pub(crate) fn new(colour: bool, unicode: bool, columns: usize) -> Self {
        Self { colour, unicode, width: columns.clamp(WIDTH_MIN, WIDTH_MAX) }
    }

    pub(crate) fn paint(&self, ink: Ink, text: &str) -> String {
        if !self.colour || text.is_empty() || ink == Ink::Text {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Text => "0",
            Ink::Strong => "1",
            Ink::Faint => "2",
            Ink::Good => "32",
            Ink::Fair => "33",
            Ink::Bad => "1;31",
            Ink::Command => "36",
            Ink::Bar => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    pub(crate) fn mark(&self, rating: &Rating) -> (&'static str, Ink) {
        let (unicode, ascii, ink) = match rating {
            Rating::Ok => ("✓", "+", Ink::Good),
            Rating::Better(_) => ("▲", "!", Ink::Fair),
            Rating::Problem(_) => ("✗", "X", Ink::Bad),
            Rating::Unknown => ("?", "?", Ink::Faint),
        };
        (if self.unicode { unicode } else { ascii }, ink)
    }

    pub(crate) fn arrow(&self) -> &'static str {
        if self.unicode { "→" } else { "->" }
    }

    pub(crate) fn nothing(&self) -> &'static str {
        if self.unicode { "—" } else { "-" }
    }

    pub(crate) fn rule(&self, columns: usize) -> String {
        if self.unicode { "─" } else { "-" }.repeat(columns)
    }

    /// A bar for a share of the longest, to half a column; never nothing.
    pub(crate) fn bar(&self, share: f64, columns: usize) -> String {
        let columns = u16::try_from(columns).unwrap_or(u16::MAX);
        let wanted = share * f64::from(columns) * 2.0;
        // The first number of halves that is enough: there is no cast from a float.
        let halves =
            (1..=u32::from(columns) * 2).find(|count| f64::from(*count) >= wanted).unwrap_or(0) as usize;
        match (self.unicode, halves % 2) {
            (true, 0) => "━".repeat(halves / 2),
            (true, _) => format!("{}╸", "━".repeat(halves / 2)),
            (false, _) => "#".repeat(halves.div_ceil(2)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share_to_half_a_column() {
        let style = Style::new(false, true, 80);
        assert_eq!(style.bar(1.0, 4), "━━━━");
        assert_eq!(style.bar(0.5, 4), "━━");
        assert_eq!(style.bar(0.51, 4), "━━╸");
        assert_eq!(style.bar(0.0, 4), "╸");
        assert_eq!(style.bar(f64::NAN, 4), "");
        assert_eq!(style.bar(1.0, 0), "");
        let plain = Style::new(false, false, 80);
        assert_eq!(plain.bar(0.51, 4), "###");
    }

    #[test]
    fn without_colour_nothing_is_painted() {
        assert_eq!(Style::new(false, true, 80).paint(Ink::Bad, "x"), "x");
        assert_eq!(Style::new(true, true, 80).paint(Ink::Good, "x"), "\x1b[32mx\x1b[0m");
        assert_eq!(Style::new(true, true, 80).paint(Ink::Good, ""), "");
    }
}
