//! `penstock ech`: keys of Encrypted ClientHello.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_config::limits;
use penstock_tls::ech::{EchDirectory, EchKey};

use crate::arguments::{EchArgs, EchCommand};
use crate::failure::Failure;
use crate::terminal;

pub(crate) fn run(arguments: &EchArgs) -> Result<(), Failure> {
    let EchCommand::New { public_name, directory } = &arguments.command;
    let wrong = |action: &str| Failure::machine(format!("{action} {}", directory.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(wrong("make"))?;
    let known = EchDirectory::read(directory, limits::ECH_KEYS_MAX, limits::ECH_FILE_BYTES);
    let id = unused_id(&known.map_err(wrong("list"))?);
    let key = EchKey::generate(public_name, id, limits::ECH_LONGEST_NAME)
        .map_err(|why| Failure::machine("make a key")(io::Error::other(why.to_string())))?;
    let file = write(directory, id, &key).map_err(wrong("write a key into"))?;
    terminal::complain(&format!("{}: written", file.display()));
    terminal::say(&format!("HTTPS 1 . alpn=h2,http/1.1 ech={}", key.dns_value()));
    Ok(())
}

/// An unused key number if there is one: two keys with the same number cost two decryptions per ClientHello.
fn unused_id(directory: &EchDirectory) -> u8 {
    let taken: Vec<u8> = directory.keys.iter().flat_map(EchKey::ids).collect();
    let [first, ..] = penstock_tls::random_number().to_ne_bytes();
    (0..=u8::MAX).map(|step| first.wrapping_add(step)).find(|id| !taken.contains(id)).unwrap_or(first)
}

/// The file appears whole or not at all, and the newest has the last name.
fn write(directory: &Path, id: u8, key: &EchKey) -> io::Result<PathBuf> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let name = format!("ech-{seconds:010}-{id:02x}.pem");
    let (file, temporary) = (directory.join(&name), directory.join(format!(".{name}.new")));
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = new.write_all(key.to_pem().as_bytes()).and_then(|()| new.sync_all());
    let done = written.and_then(|()| fs::rename(&temporary, &file));
    if done.is_err() {
        drop(fs::remove_file(&temporary));
    }
    done.map(|()| file)
}
