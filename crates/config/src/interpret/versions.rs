//! Which versions of TLS are spoken.

use penstock_sys::traffic::Version;
use penstock_tls::Legacy;

use super::reader::Reader;
use crate::section::{Texts, place};

/// The versions spoken, without a gap between them.
pub(super) struct Versions {
    pub(super) oldest: Version,
    pub(super) newest: Version,
    pub(super) legacy: Option<Legacy>,
}

/// TLS 1.2 and 1.3 unless something else is written.
pub(super) fn versions(list: Option<&Texts>, reader: &mut Reader<'_>) -> Versions {
    let usual = Versions { oldest: Version::Tls12, newest: Version::Tls13, legacy: None };
    let Some(list) = list else { return usual };
    let (mut found, mut old) = (Vec::new(), Vec::new());
    for text in &list.value {
        match text.value.as_str() {
            "1.0" => old.push(Legacy::Tls10),
            "1.1" => old.push(Legacy::Tls11),
            "1.2" => found.push(Version::Tls12),
            "1.3" => found.push(Version::Tls13),
            other => {
                let what = format!("versions: `{other}` is no version of TLS");
                reader.fault(place(text), what, "write \"1.2\" or \"1.3\"");
            }
        }
    }
    if list.value.is_empty() {
        reader.fault(place(list), "versions: the list is empty", "write [\"1.2\", \"1.3\"]");
    }
    let legacy = old.iter().copied().min();
    if legacy.is_some() {
        judge_old_ones(list, &old, &found, reader);
    }
    if found.is_empty() {
        return Versions { legacy, ..usual };
    }
    let oldest = if found.contains(&Version::Tls12) { Version::Tls12 } else { Version::Tls13 };
    let newest = if found.contains(&Version::Tls13) { Version::Tls13 } else { Version::Tls12 };
    Versions { oldest, newest, legacy }
}

/// Clients name the newest version that they know, so a gap would refuse those who know only what is in it.
fn judge_old_ones(list: &Texts, old: &[Legacy], found: &[Version], reader: &mut Reader<'_>) {
    if !found.contains(&Version::Tls12) {
        let what = "versions: old versions are spoken, but not TLS 1.2";
        reader.fault(place(list), what, "add \"1.2\"");
    } else if !old.contains(&Legacy::Tls11) {
        reader.fault(place(list), "versions: TLS 1.0 is spoken, but not 1.1", "add \"1.1\"");
    } else {
        let names = if old.contains(&Legacy::Tls10) { "TLS 1.0 and 1.1 are" } else { "TLS 1.1 is" };
        let what =
            format!("versions: {names} broken and forbidden (RFC 8996), and fails audits such as PCI DSS");
        let instead = "remove it when penstock_handshakes_total{version} shows no old clients any more";
        reader.warning(place(list), what, instead);
    }
}
