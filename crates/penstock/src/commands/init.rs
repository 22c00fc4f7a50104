//! `penstock init`: writes a first configuration.

mod answers;
mod questions;
mod text;
mod yaml;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use penstock_config::Config;

use crate::arguments::InitArgs;
use crate::failure::Failure;
use crate::{self_signed, terminal};

use answers::{Answers, CertificateSource};
use questions::Questions;

pub(crate) fn run(arguments: &InitArgs) -> Result<(), Failure> {
    let output = &arguments.output;
    is_usable(output, arguments.force)?;
    let questions = Questions::new(arguments.yes);
    let mut answers = answers::ask(arguments, questions)?;
    let made = make_certificate(&mut answers, output)?;
    let written = write(&answers, arguments);
    if written.is_err() {
        // No other run has these names: they were created by this one.
        made.iter().for_each(|path| drop(fs::remove_file(path)));
    }
    written?;
    for path in &made {
        terminal::say(&format!("wrote {}", path.display()));
    }
    terminal::say_well(&format!("wrote {}", output.display()));
    let shown = output.display();
    terminal::say(&format!("next: penstock check -c {shown}, then penstock serve -c {shown}"));
    Ok(())
}

/// Whether the file can be made, before a question is asked.
fn is_usable(output: &Path, replaces: bool) -> Result<(), Failure> {
    if output == Path::new("-") {
        let what = "the configuration is not written to standard output, because the files of a certificate may lie beside \
                    it; write a file after --output";
        return Err(Failure::Usage(what.to_owned()));
    }
    if output.exists() && !replaces {
        let what = format!("{} exists; write another file after --output, or add --force", output.display());
        return Err(Failure::Usage(what));
    }
    match output.parent() {
        Some(directory) if !directory.as_os_str().is_empty() && !directory.exists() => {
            Err(Failure::to_write(output)(io::ErrorKind::NotFound.into()))
        }
        _ => Ok(()),
    }
}

/// Writes the configuration if a server would take it.
fn write(answers: &Answers, arguments: &InitArgs) -> Result<(), Failure> {
    let output = &arguments.output;
    let text = text::configuration(answers, arguments.listen);
    Config::from_text(&text, output).map_err(Failure::Config)?;
    if !arguments.force {
        return create(output, &text, PUBLIC).map_err(Failure::to_write(output));
    }
    let mut new = output.clone().into_os_string();
    new.push(".new");
    let new = PathBuf::from(new);
    let replaced = create(&new, &text, PUBLIC).and_then(|()| fs::rename(&new, output));
    replaced.inspect_err(|_| drop(fs::remove_file(&new))).map_err(Failure::to_write(output))
}

/// The mode of files that every user may read.
const PUBLIC: u32 = 0o644;

/// The mode of files with secrets.
const SECRET: u32 = 0o600;

/// Makes the files of a self-signed certificate beside the configuration, if one is wanted and they do not exist. Returns
/// what was made.
fn make_certificate(answers: &mut Answers, output: &Path) -> Result<Vec<PathBuf>, Failure> {
    if answers.certificate != CertificateSource::SelfSigned {
        return Ok(Vec::new());
    }
    let chain = output.with_file_name(format!("{}.crt", answers.domain));
    let key = output.with_file_name(answers::key_name(&answers.domain));
    let named = |path: &Path| path.file_name().map(PathBuf::from).unwrap_or_default();
    let domain = answers.domain.clone();
    answers.certificate = CertificateSource::Files { chain: named(&chain), key: named(&key) };
    if chain.exists() && key.exists() {
        return Ok(Vec::new());
    }
    let made = self_signed::files(&domain, SystemTime::now());
    let (certificate, private) =
        made.map_err(|error| Failure::machine("make a certificate")(io::Error::other(error)))?;
    create(&key, &private, SECRET).map_err(Failure::to_write(&key))?;
    if let Err(error) = create(&chain, &certificate, PUBLIC) {
        drop(fs::remove_file(&key));
        return Err(Failure::to_write(&chain)(error));
    }
    Ok(vec![chain, key])
}

/// Writes a new file; one that exists is an error.
fn create(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
