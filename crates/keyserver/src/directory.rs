//! A directory of private keys: files `*.key` and `*.pem`.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_config::limits;
use penstock_sys::small_file;
use penstock_tls::digest_signer::DigestSigner;

use crate::keyring::{Key, Signer};

/// The keys of a directory when it was read last.
#[derive(Debug)]
pub(crate) struct KeyDirectory {
    path: PathBuf,
    files: HashMap<PathBuf, KeyFile>,
}

/// Device, inode, size and time of change.
type Stamp = (u64, u64, u64, i64, i64);

#[derive(Debug)]
struct KeyFile {
    stamp: Stamp,
    /// `None` if it never had a usable key.
    key: Option<Arc<Key>>,
}

/// What has changed in a directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) changed: usize,
    /// Files that cannot be used, with their faults; each is told once.
    pub(crate) faults: Vec<String>,
}

impl KeyDirectory {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, files: HashMap::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The keys, in order of the files' names.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Arc<Key>> {
        let sorted: BTreeMap<_, _> = self.files.iter().collect();
        sorted.into_values().filter_map(|file| file.key.clone())
    }

    /// Reads files that are new or have changed. A file that has become unusable keeps its key: it may be half written.
    ///
    /// # Errors
    /// When the directory itself cannot be read; the keys then stay.
    pub(crate) fn refresh(&mut self) -> io::Result<Changes> {
        let mut changes = Changes::default();
        let mut before = HashMap::new();
        let paths = list(&self.path)?;
        std::mem::swap(&mut before, &mut self.files);
        let surplus = paths.len().saturating_sub(limits::KEYSERVER_KEYS_MAX);
        if surplus > 0 {
            changes.faults.push(format!("{surplus} files more than the limit; they are left out"));
        }
        for path in paths.into_iter().take(limits::KEYSERVER_KEYS_MAX) {
            let known = before.remove(&path);
            let Some(stamp) = stamp_of(&path) else { continue };
            let known = match known {
                Some(known) if known.stamp == stamp => {
                    self.files.insert(path, known);
                    continue;
                }
                other => other.and_then(|file| file.key),
            };
            let key = match read_key(&path) {
                Ok(Some(signer)) => {
                    changes.changed += 1;
                    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                    Some(Arc::new(Key { name, id: signer.id(), signer: Signer::Memory(signer) }))
                }
                Ok(None) => known,
                Err(fault) => {
                    changes.faults.push(format!("{}: {fault}", path.display()));
                    known
                }
            };
            self.files.insert(path, KeyFile { stamp, key });
        }
        changes.changed += before.values().filter(|file| file.key.is_some()).count();
        Ok(changes)
    }
}

fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
        if name.ends_with(".key") || name.ends_with(".pem") {
            paths.push(directory.join(name));
        }
    }
    paths.sort();
    Ok(paths)
}

fn stamp_of(path: &Path) -> Option<Stamp> {
    let found = path.metadata().ok()?;
    Some((found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

/// `None` for a PEM file without a private key, such as a chain.
fn read_key(path: &Path) -> Result<Option<DigestSigner>, String> {
    let pem = small_file::read(path, limits::PEM_FILE_BYTES).map_err(|error| error.to_string())?;
    if !pem.windows(KEY.len()).any(|window| window == KEY) && path.extension().is_some_and(|end| end == "pem")
    {
        return Ok(None);
    }
    DigestSigner::from_pem(&pem).map(Some).map_err(|error| error.to_string())
}

const KEY: &[u8] = b"PRIVATE KEY-----";

#[cfg(test)]
mod tests {
    use boring::ec::{EcGroup, EcKey};
    use boring::nid::Nid;
    use boring::pkey::PKey;

    use super::*;

    fn pem() -> Vec<u8> {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap().private_key_to_pem_pkcs8().unwrap()
    }

    fn names(directory: &KeyDirectory) -> Vec<String> {
        directory.keys().map(|key| key.name.clone()).collect()
    }

    #[test]
    fn keys_come_and_go_with_their_files_and_a_broken_file_keeps_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        write("video.example.com.key", &pem());
        write("live.pem", &pem());
        write("chain.pem", b"-----BEGIN CERTIFICATE-----\n");
        write("notes.txt", b"nothing");
        write(".hidden.key", &pem());
        let mut directory = KeyDirectory::new(folder.path().to_owned());
        assert_eq!(directory.refresh().unwrap(), Changes { changed: 2, faults: Vec::new() });
        assert_eq!(names(&directory), ["live", "video.example.com"]);
        assert_eq!(directory.refresh().unwrap(), Changes::default());

        let before = directory.keys().next().unwrap().id;
        write("live.pem", b"-----BEGIN PRIVATE KEY-----\nhalf of it");
        fs::remove_file(folder.path().join("video.example.com.key")).unwrap();
        let changes = directory.refresh().unwrap();
        assert_eq!((changes.changed, changes.faults.len()), (1, 1), "{changes:?}");
        assert_eq!(directory.keys().map(|key| key.id).collect::<Vec<_>>(), [before]);
        assert_eq!(directory.refresh().unwrap(), Changes::default(), "a fault is told once");

        write("live.pem", &pem());
        assert_eq!(directory.refresh().unwrap().changed, 1);
        assert_ne!(directory.keys().next().unwrap().id, before);
    }

    #[test]
    fn a_directory_that_is_gone_keeps_its_keys() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.key"), pem()).unwrap();
        let mut directory = KeyDirectory::new(folder.path().to_owned());
        directory.refresh().unwrap();
        folder.close().unwrap();
        assert!(directory.refresh().is_err());
        assert_eq!(names(&directory), ["a"]);
    }
}
