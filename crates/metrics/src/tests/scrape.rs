//! A parser of the Prometheus text format that checks its rules.

use std::collections::BTreeMap;

use crate::{Metrics, Readings};

/// A scrape, parsed by the rules of the text format. Parsing panics if the text breaks them.
pub(super) struct Scrape {
    pub(super) kinds: BTreeMap<String, String>,
    pub(super) samples: Vec<Sample>,
}

pub(super) struct Sample {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) value: f64,
}

impl Scrape {
    pub(super) fn of(metrics: &Metrics) -> Self {
        Self::parse(&metrics.render(&Readings::default()))
    }

    pub(super) fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'));
        let mut scrape = Self { kinds: BTreeMap::new(), samples: Vec::new() };
        let mut family = String::new();
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                family = help.split_once(' ').unwrap().0.to_owned();
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert_eq!(name, family, "HELP and TYPE belong together");
                assert!(
                    scrape.kinds.insert(name.to_owned(), kind.to_owned()).is_none(),
                    "{name} appears twice"
                );
            } else {
                let sample = Sample::parse(line);
                assert_eq!(scrape.family(&sample.name), family, "{line} stands in another family");
                scrape.samples.push(sample);
            }
        }
        scrape
    }

    /// The metric a sample belongs to: of a histogram, the samples have suffixes.
    pub(super) fn family<'a>(&self, name: &'a str) -> &'a str {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        match base {
            Some(base) if self.kinds.get(base).is_some_and(|kind| kind == "histogram") => base,
            _ => name,
        }
    }

    pub(super) fn all(&self, name: &str) -> Vec<&Sample> {
        self.samples.iter().filter(|sample| sample.name == name).collect()
    }

    /// The value of the only sample with at least these labels.
    pub(super) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let wanted = |sample: &&&Sample| {
            labels.iter().all(|(label, value)| sample.labels.get(*label).is_some_and(|held| held == value))
        };
        let all = self.all(name);
        let found: Vec<_> = all.iter().filter(wanted).collect();
        assert_eq!(found.len(), 1, "{name} {labels:?}");
        found[0].value
    }
}

impl Sample {
    pub(super) fn parse(line: &str) -> Self {
        let end = line.find(['{', ' ']).unwrap();
        let (name, mut rest) = line.split_at(end);
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'), "{line}");
        let mut labels = BTreeMap::new();
        if rest.starts_with('{') {
            while let Some(more) = rest.strip_prefix(['{', ',']) {
                let (label, value) = more.split_once("=\"").unwrap();
                let (value, more) = unquote(value);
                assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
                rest = more;
            }
            rest = rest.strip_prefix('}').unwrap();
        }
        let value = rest.strip_prefix(' ').unwrap().parse().unwrap();
        Self { name: name.to_owned(), labels, value }
    }
}

/// Splits a label value, up to its closing quote, from the rest.
fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => match characters.next().unwrap().1 {
                'n' => value.push('\n'),
                quoted @ ('\\' | '"') => value.push(quoted),
                other => panic!("no such escape: {other}"),
            },
            '\n' => panic!("a bare line end in a label value"),
            _ => value.push(character),
        }
    }
    panic!("no closing quote: {text}")
}
