//! The list of purges as a file: one line for each, appended and synced before it holds.
//!
//! ```text
//! penstock purges 1
//! 1767225600000000000 hard url 10.0.0.5:8080 /vod/a.mp4
//! 1767225601000000000 soft tag * news
//! ```
//!
//! A last line without its end was never acknowledged and is cut off. Any other line that cannot be parsed counts as a
//! purge of everything: too much is removed then, never too little.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::pattern::{NotKept, Pattern, Purge};
use super::target::PurgeTarget;

/// The file in its directory.
const FILE_NAME: &str = "purges";
const FIRST_LINE: &str = "penstock purges 1";
/// More than the list can become.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// In the year 2262. A later time is invalid: no purge could come after the last number.
const TIME_MAX: u64 = u64::MAX / 2;

/// A file with the list.
#[derive(Debug)]
pub(super) struct PurgeFile {
    path: PathBuf,
    file: File,
}

impl PurgeFile {
    /// Opens the file in a directory, or makes it; `now` is the time of lines that cannot be parsed.
    pub(super) fn open(directory: &Path, now: u64) -> Result<(Self, Vec<Purge>), NotKept> {
        let path = directory.join(FILE_NAME);
        let (file, list) = open(&path, now).map_err(|source| NotKept { path: path.clone(), source })?;
        Ok((Self { path, file }, list))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A file that nothing can be written to.
    #[cfg(test)]
    pub(super) fn full() -> Self {
        let path = PathBuf::from("/dev/full");
        Self { file: OpenOptions::new().append(true).open(&path).expect("Linux has it"), path }
    }

    pub(super) fn append(&mut self, purge: &Purge) -> Result<(), NotKept> {
        let written = self.file.metadata().and_then(|before| {
            let written = self.file.write_all(line(purge).as_bytes()).and_then(|()| self.file.sync_data());
            written.inspect_err(|_| {
                // A part of the line would become one with the next. If that is so all the same, it cannot be parsed.
                drop(self.file.set_len(before.len()));
            })
        });
        written.map_err(|source| NotKept { path: self.path.clone(), source })
    }

    /// Replaces the list, whole or not at all.
    pub(super) fn replace(&mut self, list: &[Purge]) -> Result<(), NotKept> {
        let written = rewrite(&self.path, list);
        self.file = written.map_err(|source| NotKept { path: self.path.clone(), source })?;
        Ok(())
    }
}

fn open(path: &Path, now: u64) -> io::Result<(File, Vec<Purge>)> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => drop(file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((rewrite(path, &[])?, Vec::new()));
        }
        Err(error) => return Err(error),
    }
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n').map(|line| &line[..line.len() - 1]);
    let known = lines.next() == Some(FIRST_LINE.as_bytes());
    let read: Vec<Option<Purge>> = lines.map(|line| parse(str::from_utf8(line).ok()?)).collect();
    // The replacement of unparsable lines is persisted; otherwise its time would be later at every start.
    let all_read = known && read.iter().all(Option::is_some);
    let mut list: Vec<Purge> = read.into_iter().map(|read| read.unwrap_or_else(|| everything(now))).collect();
    if !known {
        list = vec![everything(now)];
    }
    if all_read && whole == bytes.len() {
        return Ok((OpenOptions::new().append(true).open(path)?, list));
    }
    Ok((rewrite(path, &list)?, list))
}

fn rewrite(path: &Path, list: &[Purge]) -> io::Result<File> {
    let mut text = format!("{FIRST_LINE}\n");
    list.iter().for_each(|purge| text.push_str(&line(purge)));
    replace(path, &text)?;
    OpenOptions::new().append(true).open(path)
}

/// Replaces a file, whole or not at all.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
        // A disk that is full needs its space.
        drop(fs::remove_file(&temporary));
    })?;
    if let Some(directory) = path.parent() {
        // The new name is durable only when the directory is.
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

pub(super) fn everything(at: u64) -> Purge {
    Purge { at, soft: false, pattern: Pattern { place: None, target: PurgeTarget::Everything } }
}

pub(super) fn line(purge: &Purge) -> String {
    let Pattern { place, target } = &purge.pattern;
    let (kind, text) = (target.kind().label(), target.text());
    let degree = if purge.soft { "soft" } else { "hard" };
    let place = place.as_deref().unwrap_or("*");
    format!("{} {degree} {kind} {} {}\n", purge.at, escaped(place), escaped(text))
}

pub(super) fn parse(line: &str) -> Option<Purge> {
    let mut words = line.splitn(5, ' ');
    let at = words.next()?.parse().ok().filter(|at| *at <= TIME_MAX)?;
    let soft = match words.next()? {
        "soft" => true,
        "hard" => false,
        _ => return None,
    };
    let kind = words.next()?;
    let place = unescaped(words.next()?)?;
    let target = PurgeTarget::new(kind, unescaped(words.next()?)?)?;
    Some(Purge { at, soft, pattern: Pattern { place: (place != "*").then_some(place), target } })
}

/// Neither spaces nor line ends are left in it.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            ' ' => out.push_str("\\s"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            other => out.push(other),
        }
    }
    out
}

fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        out.push(match letter {
            '\\' => match letters.next()? {
                's' => ' ',
                'n' => '\n',
                'r' => '\r',
                '\\' => '\\',
                _ => return None,
            },
            // The end of one line that is missing, and the begin of the next one.
            ' ' => return None,
            other => other,
        });
    }
    Some(out)
}
