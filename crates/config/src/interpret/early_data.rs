//! Requests before the end of a handshake (0-RTT).

use penstock_sys::traffic::ProtocolVersion;
use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::model::{EarlyData, EarlyRequests, StrikePlace};
use crate::raw;
use crate::section::{Text, position};

pub(super) fn early_data(
    section: Option<&Spanned<raw::EarlyData>>,
    newest: ProtocolVersion,
    reader: &mut Reader<'_>,
) -> Option<EarlyData> {
    let section = section?;
    let raw = &section.value;
    if newest != ProtocolVersion::Tls13 {
        let what = "early_data: only TLS 1.3 has it, and versions leaves that out";
        reader.warning(position(section), what, "remove early_data, or add \"1.3\" to versions");
    }
    let most = limits::EARLY_DATA_BYTES_MAX as u64;
    let max_bytes =
        reader.size("max_bytes", raw.max_bytes.as_ref(), &(0..=u64::MAX), limits::EARLY_DATA_BYTES);
    if let Some(text) = &raw.max_bytes {
        if max_bytes == 0 {
            reader.fault(
                position(text),
                "max_bytes: 0 takes no early data",
                "remove early_data to turn it off",
            );
        } else if max_bytes as u64 > most {
            let what = format!("max_bytes: the TLS library ends connections with more than {most} bytes");
            reader.fault(position(text), what, "write 14KiB or less");
        }
    }
    let anti_replay = reader.flag("anti_replay", raw.anti_replay.as_ref(), true);
    let register = raw.register.as_ref().map_or(StrikePlace::Process, |text| register(text, reader));
    if let Some(text) = raw.register.as_ref().filter(|_| !anti_replay && register == StrikePlace::Fleet) {
        let what = "register: nothing is recorded, because anti_replay is false";
        reader.fault(position(text), what, "remove one of the two");
    }
    Some(EarlyData { max_bytes, anti_replay, register })
}

fn register(text: &Text, reader: &mut Reader<'_>) -> StrikePlace {
    match text.value.as_str() {
        "valkey" => return StrikePlace::Fleet,
        "process" => {}
        other => {
            let what = format!("register: `{other}` is unknown");
            reader.fault(position(text), what, "write process or valkey");
        }
    }
    StrikePlace::Process
}

pub(super) fn early_requests(text: Option<&Text>, reader: &mut Reader<'_>) -> EarlyRequests {
    let Some(text) = text else { return EarlyRequests::Allow };
    match text.value.as_str() {
        "allow" => return EarlyRequests::Allow,
        "refuse" => {}
        other => {
            reader.fault(
                position(text),
                format!("early_data: `{other}` is unknown"),
                "write allow or refuse",
            );
        }
    }
    EarlyRequests::Refuse
}
