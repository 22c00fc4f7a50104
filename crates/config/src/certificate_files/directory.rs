//! A directory of certificates, named as certbot, HAProxy, lego, mkcert and Kubernetes name them.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use penstock_tls::certificate::{CertificateError, Summary};

use super::files::{CertificateFiles, FoundCertificate, KeyFile};
use crate::limits;

/// The contents of a directory.
#[derive(Debug, Default)]
pub struct Scan {
    /// Certificates in order of their paths.
    pub found: Vec<Arc<FoundCertificate>>,
    /// Files that look like a certificate and cannot be used as one.
    pub unusable: Vec<Unusable>,
    /// The directory with those below it, to be watched.
    pub directories: Vec<PathBuf>,
}

/// A file that looks like a certificate and cannot be used as one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unusable {
    /// Its chain.
    pub chain: PathBuf,
    /// One of a few short words, for metrics.
    pub reason: &'static str,
    /// The fault, for people.
    pub what: String,
}

/// Scans a directory. Certificates that have not changed since `previous` are reused.
///
/// With `thorough` a changed certificate is read with its key. If it cannot be used, the version in `previous` stays:
/// a renewal may be half done.
///
/// # Errors
/// When the directory itself cannot be read.
pub fn scan(directory: &Path, previous: &[Arc<FoundCertificate>], thorough: bool) -> io::Result<Scan> {
    let mut listing = Listing::default();
    listing.add_directory(directory, LEVELS)?;
    listing.files.sort_by(|one, other| one.chain.cmp(&other.chain));
    let known: HashMap<&Path, &Arc<FoundCertificate>> =
        previous.iter().map(|found| (found.files.chain.as_path(), found)).collect();
    let mut scan = Scan { directories: listing.directories, ..Scan::default() };
    let too_many = listing.files.len().saturating_sub(limits::CERTIFICATES_PER_DIRECTORY);
    if too_many > 0 {
        listing.files.truncate(limits::CERTIFICATES_PER_DIRECTORY);
        scan.unusable.push(Unusable {
            chain: directory.to_owned(),
            reason: "too_many",
            what: format!("{too_many} certificates more than the limit; they are left out"),
        });
    }
    let examined = in_parallel(&listing.files, |files| examine(files, &known, thorough));
    for (files, examined) in listing.files.iter().zip(examined) {
        match examined {
            Ok(found) => scan.found.push(found),
            Err(None) => {}
            Err(Some((reason, what))) => {
                scan.unusable.push(Unusable { chain: files.chain.clone(), reason, what });
                scan.found.extend(known.get(files.chain.as_path()).map(|older| Arc::clone(older)));
            }
        }
    }
    Ok(scan)
}

/// Levels of directories below the scanned one: `live/NAME/`, `ISSUER/NAME/`.
const LEVELS: usize = 2;

/// Directories that are scanned, with certificates in them or not.
const DIRECTORIES_MAX: usize = 2 * limits::CERTIFICATES_PER_DIRECTORY;

#[derive(Default)]
struct Listing {
    files: Vec<CertificateFiles>,
    directories: Vec<PathBuf>,
}

impl Listing {
    fn add_directory(&mut self, directory: &Path, levels: usize) -> io::Result<()> {
        self.directories.push(directory.to_owned());
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(directory)? {
            // Certificates have names in UTF-8.
            if let Ok(name) = entry?.file_name().into_string()
                && !name.starts_with('.')
            {
                names.insert(name);
            }
        }
        self.files.extend(pairs(&names).map(|(chain, key)| CertificateFiles {
            chain: directory.join(chain),
            key: KeyFile::Path(directory.join(key)),
        }));
        // Without an extension, or with one that no file of a certificate has.
        let may_be_directory =
            |name: &&String| !name.rsplit_once('.').is_some_and(|(_, end)| is_file_end(end));
        for name in names.iter().filter(may_be_directory) {
            let below = directory.join(name);
            if levels > 0 && self.directories.len() < DIRECTORIES_MAX && below.is_dir() {
                // A directory that may not be read holds no certificates for this user.
                drop(self.add_directory(&below, levels - 1));
            }
        }
        Ok(())
    }
}

fn is_file_end(end: &str) -> bool {
    CHAIN_ENDS.contains(&end)
        || ["key", "json", "csr", "ocsp", "sctl", "issuer", "txt", "conf"].contains(&end)
}

const CHAIN_ENDS: [&str; 5] = ["pem", "crt", "cer", "rsa", "ecdsa"];

/// Pairs of chain and key among the names of one directory.
fn pairs(names: &BTreeSet<String>) -> impl Iterator<Item = (&str, &str)> {
    let certbot = ["fullchain.pem", "privkey.pem"];
    let is_certbot = certbot.iter().all(|name| names.contains(*name));
    // `cert.pem` and `chain.pem` beside them repeat what `fullchain.pem` has.
    let of_certbot = is_certbot.then_some((certbot[0], certbot[1]));
    let others = names.iter().filter(move |_| !is_certbot).filter_map(|name| {
        let (stem, end) = name.rsplit_once('.')?;
        if !CHAIN_ENDS.contains(&end) || stem.ends_with(".issuer") || stem.ends_with("-key") {
            return None;
        }
        let beside = [format!("{stem}.key"), format!("{name}.key"), format!("{stem}-key.pem")];
        let key = beside.iter().find_map(|key| names.get(key));
        Some((name.as_str(), key.unwrap_or(name).as_str()))
    });
    of_certbot.into_iter().chain(others)
}

/// `Err(None)` for a file that is no certificate at all.
type Examined = Result<Arc<FoundCertificate>, Option<(&'static str, String)>>;

fn examine(
    files: &CertificateFiles,
    known: &HashMap<&Path, &Arc<FoundCertificate>>,
    thorough: bool,
) -> Examined {
    let stamp = files.stamp();
    if let Some(unchanged) = known.get(files.chain.as_path()).filter(|found| found.stamp == stamp) {
        return Ok(Arc::clone(unchanged));
    }
    let chain = files.read_chain().map_err(|error| Some(in_words(&error)))?;
    let is_combined = files.key.path() == Some(&files.chain);
    let has_key = !is_combined || contains(&chain, b"PRIVATE KEY-----");
    let summary = match Summary::from_pem(&chain) {
        // A key without a certificate is no fault.
        Err(CertificateError::ChainEmpty) if is_combined && has_key => return Err(None),
        Err(error) => return Err(Some(in_words(&error))),
        Ok(_) if !has_key => {
            let what = "there is no key in it, nor in a file of its name with .key".to_owned();
            return Err(Some(("no_key", what)));
        }
        Ok(summary) => Arc::new(summary),
    };
    if thorough {
        files.load().map_err(|error| Some(in_words(&error)))?;
    }
    Ok(Arc::new(FoundCertificate { files: files.clone(), summary, stamp }))
}

fn in_words(error: &CertificateError) -> (&'static str, String) {
    (error.label(), error.to_string())
}

fn contains(text: &[u8], words: &[u8]) -> bool {
    text.windows(words.len()).any(|window| window == words)
}

/// Spreads work that waits for a disk over a few threads.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let share = items.len().div_ceil(limits::IO_THREADS).max(64);
    thread::scope(|scope| {
        let work = &work;
        let mut threads = Vec::new();
        for part in items.chunks(share) {
            threads.push(scope.spawn(move || part.iter().map(work).collect::<Vec<R>>()));
        }
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &[&str]) -> Vec<(String, String)> {
        let names: BTreeSet<String> = names.iter().map(|&name| name.to_owned()).collect();
        pairs(&names).map(|(chain, key)| (chain.to_owned(), key.to_owned())).collect()
    }

    fn pair(chain: &str, key: &str) -> (String, String) {
        (chain.to_owned(), key.to_owned())
    }

    #[test]
    fn certbot_keeps_a_chain_and_a_key_in_a_directory_of_their_own() {
        let names = ["README", "cert.pem", "chain.pem", "fullchain.pem", "privkey.pem"];
        assert_eq!(found(&names), [pair("fullchain.pem", "privkey.pem")]);
    }

    #[test]
    fn haproxy_puts_everything_in_one_file_or_the_key_beside_it() {
        assert_eq!(found(&["a.pem", "a.pem.ocsp", "a.pem.issuer"]), [pair("a.pem", "a.pem")]);
        assert_eq!(found(&["a.pem", "a.pem.key"]), [pair("a.pem", "a.pem.key")]);
        assert_eq!(
            found(&["a.test.ecdsa", "a.test.rsa"]),
            [pair("a.test.ecdsa", "a.test.ecdsa"), pair("a.test.rsa", "a.test.rsa")]
        );
    }

    #[test]
    fn others_have_a_key_of_the_same_name() {
        let lego = ["a.test.crt", "a.test.issuer.crt", "a.test.json", "a.test.key"];
        assert_eq!(found(&lego), [pair("a.test.crt", "a.test.key")]);
        assert_eq!(found(&["tls.crt", "tls.key", "ca.txt"]), [pair("tls.crt", "tls.key")]);
        assert_eq!(found(&["a.test.pem", "a.test-key.pem"]), [pair("a.test.pem", "a.test-key.pem")]);
        assert_eq!(found(&["a.cer", "a.key", "notes.txt", "a.csr"]), [pair("a.cer", "a.key")]);
    }

    #[test]
    fn work_in_parallel_keeps_its_order() {
        let numbers: Vec<u32> = (0..1000).collect();
        assert_eq!(
            in_parallel(&numbers, |number| number * 2),
            numbers.iter().map(|n| n * 2).collect::<Vec<_>>()
        );
        assert!(in_parallel(&[0_u8; 0], |_| ()).is_empty());
    }
}
