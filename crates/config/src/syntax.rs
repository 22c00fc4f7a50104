//! What the YAML parser says, in words for somebody who never heard of its data model.

use std::borrow::Cow;
use std::path::Path;

use serde_saphyr::{DefaultMessageFormatter, Error, MessageFormatter};

use crate::fault::Fault;
use crate::section::Place;

/// The fault behind an error of the parser. `text` is what was parsed.
pub(crate) fn fault(error: &Error, file: &Path, text: &str) -> Fault {
    let place = error.location().map_or(Place::NOWHERE, Place::from);
    // The parser has no error of its own for a star with nothing, or a dot, behind it.
    let may_be_star =
        matches!(error.without_snippet(), Error::UnknownAnchor { .. } | Error::ExternalMessage { .. });
    let (what, instead) = match starred_word(text, place) {
        Some(word) if may_be_star => {
            (format!("`{word}` has a meaning of its own in YAML"), format!("write it in quotes: \"{word}\""))
        }
        _ => describe(error),
    };
    Fault { file: file.to_owned(), line: place.line, column: place.column, what, instead }
}

fn describe(error: &Error) -> (String, String) {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the parser's other errors explain themselves")]
    let (what, instead): (Cow<'_, str>, &str) = match error.without_snippet() {
        Error::AliasError { error, .. } => return describe(error),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            (format!("`{key}` is written twice in this section").into(), "keep one of them")
        }
        Error::Unexpected { expected: "sequence start", .. } => {
            ("a list belongs here".into(), "write [first, second], or a line `- item` for each")
        }
        Error::Unexpected { expected: "mapping start", .. } => {
            ("a section of keys belongs here".into(), "write a line `key: value` for each, indented alike")
        }
        Error::Unexpected { expected: "string scalar", .. } => {
            ("a single value belongs here".into(), "write a word, a number or a quoted text")
        }
        Error::NullIntoString { .. } => ("a value is missing here".into(), "write one or remove the item"),
        Error::MultipleDocuments { .. } => {
            ("a second document begins here".into(), "remove `---` and what follows, or merge it")
        }
        other => {
            let message = DefaultMessageFormatter.format_message(other).into_owned();
            (format!("this is not valid YAML: {message}").into(), "")
        }
    };
    (what.into_owned(), instead.to_owned())
}

/// The word at `place` if it begins with `*`: an alias to YAML, but everybody means a wildcard.
fn starred_word(text: &str, place: Place) -> Option<&str> {
    let line = text.lines().nth(place.line.checked_sub(1)?)?;
    let (start, _) = line.char_indices().nth(place.column.checked_sub(1)?)?;
    let rest = &line[start..];
    let end = rest.find([' ', '\t', ',', ']', '}', '#', '"']).unwrap_or(rest.len());
    rest.starts_with('*').then(|| &rest[..end])
}
