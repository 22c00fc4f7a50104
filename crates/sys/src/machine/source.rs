//! Reading the small files in which a kernel tells about itself.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

/// More of a file is not read; the list of a distribution's modules has about one MiB.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Longer lines are cut: they are shown to people.
const LINE_CHARACTERS_MAX: usize = 200;

/// More names of a directory are not read.
const NAMES_MAX: usize = 1024;

/// Where `/proc`, `/sys`, `/boot` and `/lib` are taken from.
#[derive(Clone, Debug)]
pub struct Source {
    root: PathBuf,
}

impl Source {
    /// Files below this directory.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// All of a file; what is not UTF-8 is replaced. `None` if it cannot be read.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let file = File::open(self.path(path)).ok()?;
        read_bounded(file)
    }

    /// All of a file compressed by gzip.
    pub(super) fn compressed_text(&self, path: &str) -> Option<String> {
        let file = File::open(self.path(path)).ok()?;
        read_bounded(GzDecoder::new(file))
    }

    /// The first line of a file without what could disturb a terminal; `None` if there is nothing in it.
    pub(super) fn line(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        printable(text.lines().next()?)
    }

    /// The names in a directory, sorted; none if it cannot be read.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .take(NAMES_MAX)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| printable(name).as_ref() == Some(name))
            .collect();
        names.sort_unstable();
        names
    }

    /// The last part of where a symbolic link leads.
    pub(super) fn link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        printable(target.file_name()?.to_str()?)
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }
}

/// `text` without control characters and blanks around it, cut to what fits a table; `None` if nothing is left.
pub(super) fn printable(text: &str) -> Option<String> {
    let clean: String = text
        .chars()
        .map(|character| if character == '\t' { ' ' } else { character })
        .filter(|character| !character.is_control())
        .take(LINE_CHARACTERS_MAX)
        .collect();
    let trimmed = clean.trim();
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}

fn read_bounded(reader: impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    reader.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
