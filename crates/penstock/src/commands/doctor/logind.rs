//! The setting `RemoveIPC` of systemd-logind.

use std::fs;
use std::path::Path;

/// Whether logind deletes files in shared memory of users that log out; `None` without logind.
pub(super) fn removes_ipc(root: &Path) -> Option<bool> {
    if !root.join("run/systemd/seats").exists() {
        return None;
    }
    let mut files = Vec::new();
    for directory in ["usr/lib/systemd", "etc/systemd"] {
        files.push(root.join(directory).join("logind.conf"));
        let listed = fs::read_dir(root.join(directory).join("logind.conf.d")).into_iter().flatten();
        let mut more: Vec<_> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
        more.sort_unstable();
        files.extend(more);
    }
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    // The default is yes, and later files win.
    Some(texts.fold(true, |known, text| setting(&text).unwrap_or(known)))
}

fn setting(text: &str) -> Option<bool> {
    let mut values =
        text.lines().filter_map(|line| line.trim().strip_prefix("RemoveIPC")?.trim().strip_prefix('='));
    let value = values.next_back()?.trim().to_ascii_lowercase();
    match value.as_str() {
        "yes" | "true" | "on" | "1" => Some(true),
        "no" | "false" | "off" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_yes_and_the_last_file_wins() {
        let root = std::env::temp_dir().join(format!("penstock-logind-{}", std::process::id()));
        let conf = root.join("etc/systemd/logind.conf.d");
        assert_eq!(removes_ipc(&root), None);
        fs::create_dir_all(root.join("run/systemd/seats")).unwrap();
        fs::create_dir_all(&conf).unwrap();
        assert_eq!(removes_ipc(&root), Some(true));
        fs::write(root.join("etc/systemd/logind.conf"), "[Login]\nRemoveIPC=no\n").unwrap();
        assert_eq!(removes_ipc(&root), Some(false));
        fs::write(conf.join("50.conf"), "[Login]\n#RemoveIPC=no\nRemoveIPC = yes\n").unwrap();
        assert_eq!(removes_ipc(&root), Some(true));
        fs::remove_dir_all(root).unwrap();
    }
}
