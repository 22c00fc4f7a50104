//! Files with secrets that lie in a directory which a site serves.

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::reader::{Reader, SecretFile};
use crate::model::{DotFiles, Origin, Site};
use crate::section::Position;

/// Whether clients of a site that serves `directory` can download `file`, which need not exist yet. A symbolic link counts by where
/// it leads to: a site serves nothing outside of its directory.
pub fn exposes(directory: &Path, dot_files: DotFiles, file: &Path) -> bool {
    let Ok(root) = directory.canonicalize() else { return false };
    let Ok(place) = file.canonicalize().or_else(|_| place_of_new(file)) else { return false };
    let Ok(inside) = place.strip_prefix(root) else { return false };
    dot_files == DotFiles::Allow || !inside.components().any(is_hidden)
}

fn place_of_new(file: &Path) -> io::Result<PathBuf> {
    let file = std::path::absolute(file)?;
    let above = file.parent().unwrap_or(&file).canonicalize()?;
    Ok(file.file_name().map_or_else(|| above.clone(), |name| above.join(name)))
}

fn is_hidden(component: Component<'_>) -> bool {
    let name = component.as_os_str();
    name.as_encoded_bytes().starts_with(b".") && name != OsStr::new(".well-known")
}

/// Warns once of each place of the configuration that names exposed files.
pub(super) fn warn(sites: &[Site], reader: &mut Reader<'_>) {
    let mut served: Vec<(&Path, DotFiles)> = Vec::new();
    for site in sites {
        for settings in site.routes.iter().map(|route| &route.settings).chain([&site.settings]) {
            if let Origin::Directory(directory) = &settings.origin {
                served.push((directory, settings.dot_files));
            }
        }
    }
    let mut warned: Vec<Position> = Vec::new();
    for SecretFile { key, path, position } in reader.secrets.take() {
        let exposing = served.iter().find(|(directory, dot_files)| exposes(directory, *dot_files, &path));
        let Some((directory, _)) = exposing.filter(|_| !warned.contains(&position)) else { continue };
        warned.push(position);
        let what = format!(
            "{key}: {} lies in {}, which a site serves: clients can download it",
            path.display(),
            directory.display()
        );
        reader.warning(position, what, "move it elsewhere, and replace it if it was served");
    }
}
