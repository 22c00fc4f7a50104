//! Faults of YAML, in words that need no knowledge of the parser's data model.

use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DefaultMessageFormatter, Error, MessageFormatter};

use crate::fault::Fault;
use crate::section::Position;

/// The deepest nesting of sections and lists. The parser calls itself for each, so this bounds the stack it takes.
const NESTING_MAX: usize = 20;

/// The remedy for a text that is nested more deeply.
const FLATTEN: &str = "remove brackets or indentation that are too many";

/// Parses a file.
///
/// # Errors
/// The first fault of the syntax, or the first value of another type than `R` says.
pub(crate) fn read<'de, R: Deserialize<'de>>(text: &'de str) -> Result<R, Error> {
    let options = serde_saphyr::options! { budget: serde_saphyr::budget! { max_depth: NESTING_MAX } };
    serde_saphyr::from_str_with_options(text, options)
}

/// The fault behind an error of the parser. `text` is what was parsed.
pub(crate) fn fault(error: &Error, file: &Path, text: &str) -> Fault {
    let position = error.location().map_or(Position::NONE, Position::from);
    // The parser has no error of its own for a star at the end or in front of a dot.
    let may_be_star =
        matches!(error.without_snippet(), Error::UnknownAnchor { .. } | Error::ExternalMessage { .. });
    let (what, instead) = match starred_word(text, position) {
        Some(word) if may_be_star => {
            (format!("`{word}` has a meaning of its own in YAML"), format!("write it in quotes: \"{word}\""))
        }
        _ if line_at(text, position).is_some_and(has_bare_variable) => {
            let what = "a variable inside [ ] or { } has to be quoted".to_owned();
            (what, "write \"${NAME}\"".to_owned())
        }
        _ => {
            let (what, instead) = describe(error);
            match key_of(text, position).filter(|_| what.ends_with(" here")) {
                Some(key) => (format!("{key}: {what}"), instead),
                None => (what, instead),
            }
        }
    };
    Fault { file: file.to_owned(), line: position.line, column: position.column, what, instead }
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
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            (format!("sections and lists are nested more than {NESTING_MAX} deep").into(), FLATTEN)
        }
        Error::NullIntoString { .. } => ("a value is missing here".into(), "write one or remove the item"),
        Error::MultipleDocuments { .. } => {
            ("a second document begins here".into(), "remove `---` and what follows, or merge it")
        }
        other => {
            let message = DefaultMessageFormatter.format_message(other).into_owned();
            (format!("this is not valid YAML: {message}").into(), remedy(&message))
        }
    };
    (what.into_owned(), instead.to_owned())
}

/// The remedy for a message of the parser.
fn remedy(message: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if has(&["recursion limit"]) {
        FLATTEN
    } else if has(&["tab"]) {
        "indent with spaces: YAML does not allow tabs"
    } else if has(&["mapping values are not allowed"]) {
        "check the indentation of this line, and put a value with `: ` in it in quotes"
    } else if has(&["flow", "',' or", "']'", "'}'"]) {
        "close each [ and { , and separate items with commas"
    } else if has(&["quot", "scalar", "escape"]) {
        "close each quote; in double quotes write \\\\ for a backslash"
    } else if has(&["anchor", "alias"]) {
        "define an anchor before its alias, or put the text in quotes"
    } else {
        "check the indentation of this line and of the one before it: keys of one section start in one column"
    }
}

/// The key whose value begins at `position`.
fn key_of(text: &str, position: Position) -> Option<&str> {
    let number = position.line.checked_sub(1)?;
    let line = text.lines().nth(number)?;
    let start = line.char_indices().nth(position.column.checked_sub(1)?).map_or(line.len(), |(at, _)| at);
    let before = line.get(..start)?;
    let is_own_line = before.bytes().all(|byte| matches!(byte, b' ' | b'-'));
    if !is_own_line {
        return last_key(before);
    }
    // The key is on the last line before it that is indented less; items of a list need not be indented.
    let is_item = line.trim_start().starts_with('-');
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_parent = |above: &&str| indent(above) < indent(line) + usize::from(is_item);
    let is_content =
        |above: &&str| !above.trim_start().is_empty() && !above.trim_start().starts_with(['#', '-']);
    let end = line_start(text, number);
    last_key(text.get(..end)?.lines().rev().filter(is_content).find(is_parent)?)
}

/// The key at the end of a text, with its colon.
fn last_key(text: &str) -> Option<&str> {
    let text = text.trim_end().strip_suffix(':')?;
    let is_key_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let start = text.bytes().rposition(|byte| !is_key_byte(byte)).map_or(0, |at| at + 1);
    text.get(start..).filter(|key| !key.is_empty())
}

/// Where a line begins, by its number from 0.
fn line_start(text: &str, number: usize) -> usize {
    text.split_inclusive('\n').take(number).map(str::len).sum()
}

fn line_at(text: &str, position: Position) -> Option<&str> {
    text.lines().nth(position.line.checked_sub(1)?)
}

/// Whether a line has `${` behind a bracket or brace without quotes around it: YAML takes the brace for one of its own.
fn has_bare_variable(line: &str) -> bool {
    let mut quote = None;
    let mut is_inside = false;
    line.char_indices().any(|(at, character)| {
        match (character, quote) {
            (_, Some(open)) if character == open => quote = None,
            ('"' | '\'', None) => quote = Some(character),
            ('[' | '{', None) if !line[..at].ends_with('$') => is_inside = true,
            ('#', None) if at == 0 || line[..at].ends_with(' ') => quote = Some('\n'),
            ('$', None) => return is_inside && line[at..].starts_with("${"),
            _ => {}
        }
        false
    })
}

/// The word at `position` if it begins with `*`: an alias in YAML, almost always meant as a wildcard.
fn starred_word(text: &str, position: Position) -> Option<&str> {
    let line = line_at(text, position)?;
    let (start, _) = line.char_indices().nth(position.column.checked_sub(1)?)?;
    let rest = &line[start..];
    let end = rest.find([' ', '\t', ',', ']', '}', '#', '"']).unwrap_or(rest.len());
    rest.starts_with('*').then(|| &rest[..end])
}
