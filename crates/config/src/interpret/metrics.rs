//! What is counted, and how.

use super::reader::Reader;
use crate::limits;
use crate::model::{ClientTable, CountedMetrics, TITLE, TitlePatterns};
use crate::pattern::PathPattern;
use crate::raw;
use crate::section::{Text, Texts, position};

pub(super) fn metrics(raw: &raw::Metrics, reader: &mut Reader<'_>) -> CountedMetrics {
    let range = 1..=limits::TITLE_DIRECTORIES_MAX;
    let directories = raw.title_directories.as_ref();
    CountedMetrics {
        rates: raw.rates.as_ref().map_or_else(Vec::new, |list| rates(list, reader)),
        title_patterns: title_patterns(raw.title_patterns.as_ref(), reader).unwrap_or_default(),
        title_directories: reader.number("title_directories", directories, &range, limits::TITLE_DIRECTORIES),
        clients: raw.clients.as_ref().map_or_else(ClientTable::default, |text| clients(text, reader)),
    }
}

fn rates(list: &Texts, reader: &mut Reader<'_>) -> Vec<u64> {
    if list.value.len() > limits::COUNTED_RATES {
        let what = format!("rates: there are {} of them", list.value.len());
        reader.fault(position(list), what, format!("write at most {}", limits::COUNTED_RATES));
    }
    let range = 1..=limits::COUNTED_RATE_MAX;
    let mut rates: Vec<u64> =
        list.value.iter().map(|text| reader.size("rates", Some(text), &range, 1)).collect();
    rates.sort_unstable();
    rates.dedup();
    rates
}

/// Paths with a segment that names a title; `None` if the key is not written.
pub(super) fn title_patterns(list: Option<&Texts>, reader: &mut Reader<'_>) -> Option<TitlePatterns> {
    let list = list?;
    if list.value.len() > limits::TITLE_PATTERNS {
        let what = format!("title_patterns: there are {} of them", list.value.len());
        reader.fault(position(list), what, format!("write at most {}", limits::TITLE_PATTERNS));
    }
    let pattern = |text: &Text| {
        let (what, instead) = match PathPattern::parse(&text.value) {
            Ok(pattern) if pattern.captures(TITLE) => return Some(pattern),
            Ok(_) => (
                format!("`{}` has no segment {{title}}", text.value.escape_debug()),
                "write a path such as /vod/{title}/*".to_owned(),
            ),
            Err(fault) => fault,
        };
        reader.fault(position(text), format!("title_patterns: {what}"), instead);
        None
    };
    Some(TitlePatterns::new(list.value.iter().filter_map(pattern).collect()))
}

fn clients(text: &Text, reader: &mut Reader<'_>) -> ClientTable {
    let path = reader.path(text);
    ClientTable::read(&path).unwrap_or_else(|why| {
        let what = format!("clients: {} {why}", path.display());
        reader.fault(position(text), what, "write a file with a kind and a part of User-Agent in each line");
        ClientTable::default()
    })
}
