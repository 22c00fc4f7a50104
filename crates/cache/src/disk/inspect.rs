//! Inspects a disk from outside.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::path::Path;

use super::format::{TOMBSTONE, TableEntry};
use super::segment::{Segment, Unusable, number_in};
use crate::contents::{Contents, Depth, Gathered};
use crate::key::Key;
use crate::not_copied::NotCopied;

/// See [`crate::inspect::disk`].
pub(crate) fn inspect(directory: &Path, depth: Depth) -> io::Result<Contents> {
    let mut numbers = Vec::new();
    for file in std::fs::read_dir(directory)? {
        let file = file?;
        if let Some(number) = file.file_name().to_str().and_then(number_in) {
            numbers.push((number, file.metadata()?.len()));
        }
    }
    numbers.sort_unstable();
    let mut inspection = Inspection { depth, ..Inspection::default() };
    for (number, bytes) in numbers.into_iter().rev() {
        let segment = Segment::new(directory, number, bytes);
        inspection.contents.segments += 1;
        inspection.contents.file_bytes += bytes;
        match segment.slice_bytes().and_then(|slice_bytes| segment.entries(slice_bytes)) {
            Ok((entries, _)) => {
                for entry in entries.iter().rev() {
                    inspection.add(&segment, entry)?;
                }
            }
            Err(Unusable::Damaged) => inspection.contents.damaged += 1,
            // A server has dropped it meanwhile.
            Err(Unusable::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(Unusable::Io(error)) => return Err(error),
        }
        segment.close();
    }
    let Inspection { gathered, mut contents, .. } = inspection;
    gathered.into_contents(&mut contents);
    Ok(contents)
}

struct Inspection {
    depth: Depth,
    gathered: Gathered,
    contents: Contents,
    /// Versions up to these were removed.
    gone: HashMap<Key, u64>,
    /// Slices already seen; older records of the same do not count.
    seen: HashMap<(Key, u32), ()>,
}

impl Default for Inspection {
    fn default() -> Self {
        Self {
            depth: Depth::Count,
            gathered: Gathered::default(),
            contents: Contents::default(),
            gone: HashMap::new(),
            seen: HashMap::new(),
        }
    }
}

impl Inspection {
    fn add(&mut self, segment: &Segment, entry: &TableEntry) -> io::Result<()> {
        if entry.slice == TOMBSTONE {
            let upto = self.gone.entry(entry.key).or_default();
            *upto = entry.object.max(*upto);
            return Ok(());
        }
        let is_gone = self.gone.get(&entry.key).is_some_and(|upto| *upto >= entry.object);
        if is_gone || self.seen.insert((entry.key, entry.slice), ()).is_some() {
            return Ok(());
        }
        let described = if self.depth == Depth::Count { None } else { Some(self.read(segment, entry)) };
        let described = match described {
            Some(Err(Unusable::Damaged)) => {
                self.contents.damaged += 1;
                return Ok(());
            }
            Some(Err(Unusable::Io(error))) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Some(Err(Unusable::Io(error))) => return Err(error),
            Some(Ok(described)) => Some(described),
            None => None,
        };
        let Some(found) = self.gathered.object(entry.key, entry.object) else { return Ok(()) };
        found.slices += 1;
        found.bytes += u64::from(entry.length);
        if let Some((length, metadata)) = described {
            found.length = Some(length);
            if self.depth == Depth::Metadata && found.metadata.is_empty() {
                found.metadata = metadata;
            }
        }
        Ok(())
    }

    /// Length and metadata of the object; at [`Depth::Verify`] the bytes are compared too.
    fn read(&self, segment: &Segment, entry: &TableEntry) -> Result<(u64, Vec<u8>), Unusable> {
        let (file, _) = segment.file()?;
        let (header, metadata) = segment.describe(&file, entry.place)?;
        if (header.key, header.object, header.slice) != (entry.key, entry.object, entry.slice) {
            return Err(Unusable::Damaged);
        }
        if self.depth == Depth::Verify {
            let verified = segment.verify(&file, &header, entry.place, |_| Ok::<_, Infallible>(()));
            verified.map_err(|NotCopied::Source(why)| why)?;
        }
        Ok((header.object_length, metadata))
    }
}
