//! Session ticket keys: random, or from a directory.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use penstock_tls::tickets::TicketPolicy;
use penstock_tls::tickets::directory::TicketDirectory;
use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::model::Tickets;
use crate::raw;
use crate::section::{Position, Text, position};

pub(super) fn tickets(section: Option<&Spanned<raw::Tickets>>, reader: &mut Reader<'_>) -> Tickets {
    let default = Tickets::default();
    let Some(Spanned { value: raw, .. }) = section else { return default };
    let rotation: RangeInclusive<Duration> =
        Duration::from_secs(limits::TICKET_KEY_ROTATION_SECONDS_MIN)..=limits::TICKET_LIFETIME;
    let kept = 1..=limits::TICKET_KEYS_KEPT_MAX;
    let introduction = Duration::ZERO..=Duration::from_secs(limits::TICKET_KEY_INTRODUCTION_SECONDS_MAX);
    let policy = TicketPolicy {
        rotate: reader.time("rotate", raw.rotate.as_ref(), &rotation, default.policy.rotate),
        keep: reader.number("keep", raw.keep.as_ref(), &kept, default.policy.keep),
        introduction: reader.time(
            "introduction",
            raw.introduction.as_ref(),
            &introduction,
            default.policy.introduction,
        ),
    };
    let bound = raw.rotate.as_ref().or(raw.keep.as_ref());
    if let Some(text) = bound.filter(|_| policy.key_lifetime() > limits::TICKET_LIFETIME) {
        let what =
            "rotate times keep is more than 7 days, the longest a ticket may live (RFC 8446 section 4.6.1)";
        reader.fault(position(text), what, "rotate more often or keep fewer keys");
    }
    let shared = reader.flag("valkey", raw.valkey.as_ref(), false);
    if let Some(text) = raw.directory.as_ref().filter(|_| shared) {
        let what = "directory: ticket keys come from a directory or from the store, not from both";
        reader.fault(position(text), what, "remove directory or valkey");
    }
    let directory = raw.directory.as_ref().map(|text| directory(text, reader));
    Tickets { directory, shared, policy }
}

/// A directory that is missing is a warning: on a tmpfs it comes with the first key.
fn directory(text: &Text, reader: &mut Reader<'_>) -> std::path::PathBuf {
    let path = reader.path(text);
    if path.exists() {
        let faults = reader.number_of_faults();
        reader.directory("directory", text);
        if reader.number_of_faults() > faults {
            return path;
        }
    }
    warn_of_content(&path, position(text), reader);
    path
}

/// Warns of faults in the directory. They never keep the server from starting: resumption matters less than service.
fn warn_of_content(path: &Path, here: Position, reader: &mut Reader<'_>) {
    match TicketDirectory::new(path, Tickets::DIRECTORY_LIMITS).read() {
        Ok(listing) => {
            for complaint in listing.complaints(path) {
                reader.warning(here, format!("directory: {}", complaint.what), complaint.instead);
            }
        }
        Err(error) => {
            let what = format!("directory: {} cannot be listed ({error})", path.display());
            reader.warning(here, what, "until it can be, a random key seals, which no other machine has");
        }
    }
}
