//! The files of a configuration: the one given with `-c`, and those that it includes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use penstock_sys::small_file::{self, SmallFileError};
use serde::de::DeserializeOwned;

use crate::fault::Fault;
use crate::limits::{CONFIG_FILE_BYTES, INCLUDED_BYTES, INCLUDED_FILES};
use crate::section::{Position, Section, Texts, position};
use crate::syntax;
use crate::units::Size;
use crate::variables::{Environment, Expansion};

/// What stands in all files of a configuration.
pub(crate) struct Sources<'e, R> {
    /// The keys of all files.
    pub(crate) root: R,
    /// The files, in the order in which they were read.
    pub(crate) files: Vec<PathBuf>,
    /// The values that came from the environment.
    pub(crate) expansion: Expansion<'e>,
}

/// Where a section of the top level names further files.
pub(crate) type Includes<R> = fn(&R) -> Option<&Texts>;

impl<'e, R: DeserializeOwned + Section> Sources<'e, R> {
    /// Parses `text`, which is that of the file at `path`, and the files that it includes.
    ///
    /// # Errors
    /// A file that cannot be parsed is one fault. Otherwise all faults of variables, of `include`, and of keys that two
    /// files have.
    pub(crate) fn read(
        text: &str,
        path: &Path,
        includes: Includes<R>,
        environment: &Environment<'e>,
    ) -> Result<Self, Vec<Fault>> {
        let mut expansion = Expansion::new(environment);
        let root: R = parse(text, path, 0, &mut expansion)?;
        let mut sources = Self { root, files: vec![path.to_owned()], expansion };
        let mut faults = Vec::new();
        if let Some(list) = includes(&sources.root) {
            let found = find(list, path).unwrap_or_else(|fault| {
                faults.push(fault);
                Vec::new()
            });
            for (text, file) in found {
                faults.extend(sources.include(&text, &file, includes).err());
                if faults.len() >= INCLUDED_FILES {
                    break;
                }
            }
        }
        let of_variables = std::mem::take(&mut sources.expansion.faults);
        faults.extend(
            of_variables.into_iter().map(|(position, what, instead)| sources.fault(position, what, instead)),
        );
        if faults.is_empty() { Ok(sources) } else { Err(faults) }
    }

    /// Adds the keys of one more file.
    fn include(&mut self, text: &str, file: &Path, includes: Includes<R>) -> Result<(), Fault> {
        let number = self.files.len();
        self.files.push(file.to_owned());
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let root: R =
            parse(text, file, number, &mut self.expansion).map_err(|mut faults| faults.remove(0))?;
        if let Some(list) = includes(&root) {
            let what = "include: an included file includes no other";
            return Err(self.fault(
                position(list),
                what.to_owned(),
                "move it to the file given with -c".to_owned(),
            ));
        }
        let mut twice = Vec::new();
        self.root.merge_within(root, &mut twice);
        match twice.first() {
            None => Ok(()),
            Some(twice) => {
                let what = format!(
                    "{} is already defined on line {} of {}",
                    twice.key,
                    twice.first.line,
                    self.files[twice.first.file].display()
                );
                Err(self.fault(
                    twice.second,
                    what,
                    "keep one of them: only lists of sections are joined".to_owned(),
                ))
            }
        }
    }

    fn fault(&self, position: Position, what: String, instead: String) -> Fault {
        let file = self.files.get(position.file).cloned().unwrap_or_default();
        Fault { file, line: position.line, column: position.column, what, instead }
    }
}

fn parse<R: DeserializeOwned + Section>(
    text: &str,
    path: &Path,
    file: u32,
    expansion: &mut Expansion<'_>,
) -> Result<R, Vec<Fault>> {
    let mut root: R = syntax::read(text).map_err(|error| vec![syntax::fault(&error, path, text)])?;
    expansion.file = file;
    root.settle_within(expansion);
    Ok(root)
}

/// The texts and paths of the files that a list of `include` names, each pattern's in the order of their names.
fn find(list: &Texts, file: &Path) -> Result<Vec<(String, PathBuf)>, Fault> {
    let mut known: Vec<(u64, u64)> =
        fs::metadata(file).map(|found| (found.dev(), found.ino())).into_iter().collect();
    let from = file.parent().unwrap_or_else(|| Path::new(""));
    let (mut found, mut bytes) = (Vec::new(), 0);
    for pattern in &list.value {
        let fault = |what: String, instead: &str| {
            let Position { line, column, .. } = position(pattern);
            let what = format!("include: {what}");
            Fault { file: file.to_owned(), line, column, what, instead: instead.to_owned() }
        };
        for path in matching(&pattern.value, from).map_err(|(what, instead)| fault(what, instead))? {
            let shown = path.display();
            let text =
                read_included(&path).map_err(|(what, instead)| fault(format!("{shown}: {what}"), instead))?;
            let identity = fs::metadata(&path).map_or((0, 0), |found| (found.dev(), found.ino()));
            if known.contains(&identity) {
                let what = match known.first() == Some(&identity) {
                    true => format!("{shown} is this file itself"),
                    false => format!("{shown} is included twice"),
                };
                return Err(fault(what, "write a pattern such as conf.d/*.yaml that matches each file once"));
            }
            known.push(identity);
            bytes += text.len() as u64;
            if found.len() >= INCLUDED_FILES || bytes > INCLUDED_BYTES {
                let what = format!(
                    "there are more than {INCLUDED_FILES} files, or more than {}",
                    Size(INCLUDED_BYTES)
                );
                return Err(fault(what, "write several sites into one file"));
            }
            found.push((text, path));
        }
    }
    Ok(found)
}

/// The files of one pattern, sorted. A pattern with a `*` in its last part may match none; hidden files match only a
/// pattern that begins with a dot.
fn matching(pattern: &str, from: &Path) -> Result<Vec<PathBuf>, (String, &'static str)> {
    const INSTEAD: &str = "write the path of a file, or a pattern such as conf.d/*.yaml";
    let (directory, name) = pattern
        .rsplit_once('/')
        .map_or((".", pattern), |(before, name)| (if before.is_empty() { "/" } else { before }, name));
    if directory.contains('*') {
        return Err((format!("`{}` has a `*` in the name of a directory", pattern), INSTEAD));
    }
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    if !name.contains('*') {
        if name.is_empty() {
            return Err((format!("`{}` is a directory", pattern), INSTEAD));
        }
        return Ok(vec![absolute(from.join(pattern))]);
    }
    let directory = absolute(from.join(directory));
    let unreadable =
        |error: io::Error| (format!("{} cannot be read ({error})", directory.display()), INSTEAD);
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?.file_name();
        let matched = entry
            .to_str()
            .is_some_and(|entry| matches(name, entry) && (name.starts_with('.') || !entry.starts_with('.')));
        names.extend(matched.then_some(entry));
        if names.len() > INCLUDED_FILES {
            let what = format!("`{}` matches more than {INCLUDED_FILES} files", pattern);
            return Err((what, "write several sites into one file"));
        }
    }
    names.sort();
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

/// Whether a name matches a pattern, in which each `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, behind)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut rest) = name.strip_prefix(before) else { return false };
    let mut pieces: Vec<&str> = behind.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

fn read_included(path: &Path) -> Result<String, (String, &'static str)> {
    const INSTEAD: &str = "write the path of a file, or a pattern such as conf.d/*.yaml";
    let file = match small_file::open(path) {
        Err(SmallFileError::NotRegular) => return Err(("this is not a regular file".to_owned(), INSTEAD)),
        opened => opened.map_err(|error| unreadable(error.into())),
    };
    file.and_then(read_all)
        .map_err(|(what, instead)| (what, if instead.ends_with("-c") { INSTEAD } else { instead }))
}

/// The text of a file as large as a configuration may be.
///
/// # Errors
/// Why it cannot be read.
pub fn read_file(path: &Path) -> Result<String, String> {
    read(path).map_err(|(what, _)| what)
}

/// The files of a path or of a pattern with `*` in its last part, sorted, with their texts. Relative ones start at `from`.
///
/// # Errors
/// Why one cannot be read.
pub fn read_files(pattern: &str, from: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let read_one = |path: PathBuf| match read_included(&path) {
        Ok(text) => Ok((path, text)),
        Err((what, _)) => Err(format!("{}: {what}", path.display())),
    };
    matching(pattern, from).map_err(|(what, _)| what)?.into_iter().map(read_one).collect()
}

/// The text of a file of a configuration; an error is the fault and its remedy.
pub(crate) fn read(path: &Path) -> Result<String, (String, &'static str)> {
    // Commands that can read standard input do not come here: this one would read it again later, or needs the file's directory.
    if path == Path::new("-") {
        return Err((
            "standard input is not read here".to_owned(),
            "write the path of a file; `penstock check -` and `penstock doctor -c -` read standard input",
        ));
    }
    read_all(File::open(path).map_err(unreadable)?)
}

/// Why a file of a configuration cannot be read, and the remedy.
fn unreadable(error: io::Error) -> (String, &'static str) {
    match error.kind() {
        io::ErrorKind::NotFound => {
            ("this file does not exist".to_owned(), "write the path of a configuration file after -c")
        }
        io::ErrorKind::IsADirectory => {
            ("this is a directory".to_owned(), "write the path of a configuration file after -c")
        }
        io::ErrorKind::PermissionDenied => {
            ("this file may not be read by this user".to_owned(), "give the user the permission to read it")
        }
        _ => (format!("this file cannot be read ({error})"), ""),
    }
}

/// The text of a stream as long as a configuration may be; an error is the fault and its remedy.
pub(crate) fn read_all(stream: impl Read) -> Result<String, (String, &'static str)> {
    let mut bytes = Vec::new();
    stream.take(CONFIG_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > CONFIG_FILE_BYTES {
        let what = format!("this file is larger than {}", Size(CONFIG_FILE_BYTES));
        return Err((what, "write the path of a configuration file after -c"));
    }
    String::from_utf8(bytes)
        .map_err(|_| ("this file is not text in UTF-8".to_owned(), "save it in that encoding"))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, expected) in [
            ("*.yaml", "a.yaml", true),
            ("*.yaml", "a.yml", false),
            ("*", "anything", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("a.yaml", "a.yaml", true),
            ("site-*.yaml", "site-.yaml", true),
            ("**", "x", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
