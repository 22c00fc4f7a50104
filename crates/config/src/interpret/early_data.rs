//! What may be asked before a handshake is finished.

use penstock_sys::traffic::Version;
use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::meaning::{EarlyData, EarlyRequests};
use crate::raw;
use crate::section::{Text, place};

pub(super) fn early_data(
    section: Option<&Spanned<raw::EarlyData>>,
    newest: Version,
    reader: &mut Reader<'_>,
) -> Option<EarlyData> {
    let section = section?;
    let raw = &section.value;
    if newest != Version::Tls13 {
        let what = "early_data: only TLS 1.3 has it, and versions leaves that out";
        reader.warning(place(section), what, "remove early_data, or add \"1.3\" to versions");
    }
    let most = limits::EARLY_DATA_BYTES_MAX as u64;
    let max_bytes =
        reader.size("max_bytes", raw.max_bytes.as_ref(), &(0..=u64::MAX), limits::EARLY_DATA_BYTES);
    if let Some(text) = &raw.max_bytes {
        if max_bytes == 0 {
            reader.fault(place(text), "max_bytes: 0 takes no early data", "remove early_data to turn it off");
        } else if max_bytes as u64 > most {
            let what = format!("max_bytes: the TLS library ends connections with more than {most} bytes");
            reader.fault(place(text), what, "write 14KiB or less");
        }
    }
    Some(EarlyData { max_bytes, anti_replay: reader.flag("anti_replay", raw.anti_replay.as_ref(), true) })
}

pub(super) fn early_requests(text: Option<&Text>, reader: &mut Reader<'_>) -> EarlyRequests {
    let Some(text) = text else { return EarlyRequests::Allow };
    match text.value.as_str() {
        "allow" => return EarlyRequests::Allow,
        "refuse" => {}
        other => {
            reader.fault(place(text), format!("early_data: `{other}` is unknown"), "write allow or refuse");
        }
    }
    EarlyRequests::Refuse
}
