//! Supported versions of TLS.

use penstock_sys::traffic::ProtocolVersion;
use penstock_tls::Legacy;

use super::reader::Reader;
use crate::section::{Texts, position};

/// Supported versions, without a gap between them.
pub(super) struct Versions {
    pub(super) oldest: ProtocolVersion,
    pub(super) newest: ProtocolVersion,
    pub(super) legacy: Option<Legacy>,
}

/// TLS 1.2 and 1.3 unless something else is written.
pub(super) fn versions(list: Option<&Texts>, reader: &mut Reader<'_>) -> Versions {
    let usual = Versions { oldest: ProtocolVersion::Tls12, newest: ProtocolVersion::Tls13, legacy: None };
    let Some(list) = list else { return usual };
    let (mut found, mut old) = (Vec::new(), Vec::new());
    for text in &list.value {
        match text.value.as_str() {
            "1.0" => old.push(Legacy::Tls10),
            "1.1" => old.push(Legacy::Tls11),
            "1.2" => found.push(ProtocolVersion::Tls12),
            "1.3" => found.push(ProtocolVersion::Tls13),
            other => {
                let what = format!("versions: `{other}` is not a version of TLS");
                reader.fault(position(text), what, "write \"1.2\" or \"1.3\"");
            }
        }
    }
    if list.value.is_empty() {
        reader.fault(position(list), "versions: the list is empty", "write [\"1.2\", \"1.3\"]");
    }
    let legacy = old.iter().copied().min();
    if legacy.is_some() {
        judge_old_ones(list, &old, &found, reader);
    }
    if found.is_empty() {
        return Versions { legacy, ..usual };
    }
    let oldest =
        if found.contains(&ProtocolVersion::Tls12) { ProtocolVersion::Tls12 } else { ProtocolVersion::Tls13 };
    let newest =
        if found.contains(&ProtocolVersion::Tls13) { ProtocolVersion::Tls13 } else { ProtocolVersion::Tls12 };
    Versions { oldest, newest, legacy }
}

/// Refuses gaps: a client whose newest version lies in a gap would be refused although older versions are supported.
fn judge_old_ones(list: &Texts, old: &[Legacy], found: &[ProtocolVersion], reader: &mut Reader<'_>) {
    if !found.contains(&ProtocolVersion::Tls12) {
        let what = "versions: old versions are enabled without TLS 1.2";
        reader.fault(position(list), what, "add \"1.2\"");
    } else if !old.contains(&Legacy::Tls11) {
        reader.fault(position(list), "versions: TLS 1.0 is enabled without TLS 1.1", "add \"1.1\"");
    } else {
        let names = if old.contains(&Legacy::Tls10) { "TLS 1.0 and 1.1 are" } else { "TLS 1.1 is" };
        let what =
            format!("versions: {names} broken and forbidden (RFC 8996), and fails audits such as PCI DSS");
        let instead = "remove it when penstock_handshakes_total{version} shows no old clients any more";
        reader.warning(position(list), what, instead);
    }
}
