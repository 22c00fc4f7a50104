//! The numbers of the last hour: one point for each second, in a ring of fixed size.

use std::collections::VecDeque;
use std::fmt::Write as _;

/// Points of the same numbers, a second apart. A second without a point, such as one in which the process was stopped, is NaN.
///
/// It takes four bytes for each number: 44 numbers of 3,600 seconds are 634 KB.
#[derive(Debug)]
pub(crate) struct History {
    names: Vec<&'static str>,
    /// The most points.
    most: usize,
    /// The points one after the other, the oldest first.
    values: VecDeque<f32>,
    /// The second of the newest point, by a clock that is never set.
    newest: Option<u64>,
}

impl History {
    /// No points yet; there will be at most so many, of numbers with these names.
    pub(crate) fn new(names: Vec<&'static str>, most: usize) -> Self {
        let values = VecDeque::with_capacity(names.len() * most);
        Self { names, most, values, newest: None }
    }

    /// Adds the point of a second. One of the same second replaces the newest.
    pub(crate) fn push(&mut self, second: u64, point: &[f32]) {
        if point.len() != self.names.len() || point.is_empty() {
            return;
        }
        let missing = match self.newest {
            None => 0,
            Some(newest) if second <= newest => {
                self.values.truncate(self.values.len().saturating_sub(point.len()));
                0
            }
            Some(newest) => usize::try_from(second - newest - 1).unwrap_or(self.most).min(self.most),
        };
        self.newest = self.newest.max(Some(second));
        self.add((0..missing * point.len()).map(|_| f32::NAN));
        self.add(point.iter().copied());
    }

    fn add(&mut self, values: impl Iterator<Item = f32>) {
        for value in values {
            if self.values.len() == self.most * self.names.len() {
                self.values.drain(..self.names.len());
            }
            self.values.push_back(value);
        }
    }

    /// The last points as JSON: `{"at": …, "step_seconds": 1, "series": {"name": [oldest, …, newest]}}`.
    pub(crate) fn json(&self, at: u64, points: usize) -> String {
        let width = self.names.len().max(1);
        let held = self.values.len() / width;
        let first = held - points.min(held);
        let mut text = String::with_capacity(128 + 5 * width * (held - first));
        text.push_str("{\"at\":");
        push(&mut text, format_args!("{at},\"step_seconds\":1,\"series\":{{"));
        for (place, name) in self.names.iter().enumerate() {
            push(&mut text, format_args!("{}\"{name}\":[", if place == 0 { "" } else { "," }));
            for point in first..held {
                if point > first {
                    text.push(',');
                }
                number(&mut text, self.values.get(point * width + place).copied().unwrap_or(f32::NAN));
            }
            text.push(']');
        }
        text.push_str("}}\n");
        text
    }
}

/// Writes numbers as a JSON array.
pub(crate) fn array(text: &mut String, values: &[f32]) {
    text.push('[');
    for (place, value) in values.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        number(text, *value);
    }
    text.push(']');
}

/// Writes a number as JSON with four digits, or all if it is a small whole one; `null` if it is not known.
fn number(text: &mut String, value: f32) {
    if !value.is_finite() {
        text.push_str("null");
    } else if value.fract() == 0.0 && value.abs() < 1e6 {
        push(text, format_args!("{value}"));
    } else {
        push(text, format_args!("{value:.3e}"));
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    text.write_fmt(arguments).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(history: &History, points: usize) -> Value {
        serde_json::from_str::<Value>(&history.json(7, points)).unwrap()["series"].clone()
    }

    #[test]
    fn the_oldest_points_give_way() {
        let mut history = History::new(vec!["a", "b"], 3);
        for second in 1..=5_u8 {
            history.push(second.into(), &[second.into(), 0.5]);
        }
        assert_eq!(shown(&history, 10), json!({"a": [3, 4, 5], "b": [0.5, 0.5, 0.5]}));
        assert_eq!(shown(&history, 1), json!({"a": [5], "b": [0.5]}));
        assert_eq!(shown(&history, 0), json!({"a": [], "b": []}));
    }

    #[test]
    fn seconds_without_a_point_are_not_known_and_two_of_a_second_are_one() {
        let mut history = History::new(vec!["a"], 5);
        history.push(10, &[1.0]);
        history.push(13, &[2.0]);
        history.push(13, &[3.0]);
        assert_eq!(shown(&history, 10), json!({"a": [1, null, null, 3]}));
        history.push(1_000_000_000_000, &[f32::INFINITY]);
        assert_eq!(shown(&history, 10), json!({"a": [null, null, null, null, null]}));
        history.push(1_000_000_000_001, &[1.0, 2.0]);
        assert_eq!(shown(&history, 2), json!({"a": [null, null]}), "a point of other numbers is none");
    }

    #[test]
    fn numbers_keep_four_digits() {
        let mut text = String::new();
        array(&mut text, &[0.0, 123_456.0, 0.000_123_456, 9_876_543_210.0, f32::NAN]);
        assert_eq!(text, "[0,123456,1.235e-4,9.877e9,null]");
    }
}
