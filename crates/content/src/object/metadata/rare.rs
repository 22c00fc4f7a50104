//! Values that few objects have.

use std::sync::{Mutex, OnceLock};

use arc_swap::ArcSwapOption;
use once_cell::race::OnceBox;
use penstock_config::limits;
use penstock_http::manifest::Manifest;
use penstock_sys::lock::Unpoisoned;

use crate::fault::FillFault;
use crate::site::{OwnWords, RequestFields};

/// What an allocation takes beside its bytes, about.
const BLOCK_BYTES: usize = 24;

/// Values that few objects have.
#[derive(Default)]
pub(super) struct Rare {
    /// Why there is no response, if the object stands for an origin that failed.
    pub(super) failure: Option<FillFault>,
    /// The last fault of the fill of a slice, by slice; see [`limits::FILL_FAULTS`].
    pub(super) faults: Mutex<Vec<(u32, FillFault)>>,
    /// The words of a client that the response may be about.
    pub(super) own_words: OnceLock<OwnWords>,
    /// The parsed body, if it is a manifest.
    pub(super) manifest: Option<Manifest>,
    /// Fields of the request that went to the origin.
    pub(super) request_fields: RequestFields,
    /// Names of those fields that the response varies by, in lowercase letters.
    pub(super) varies_by: Vec<String>,
    /// The fields for the client, packed, if a 304 has changed them.
    pub(super) updated_fields: ArcSwapOption<Vec<u8>>,
}

impl Rare {
    /// These values, if there is one.
    pub(super) fn kept(self) -> OnceBox<Self> {
        let is_needed = self.failure.is_some()
            || self.manifest.is_some()
            || !self.request_fields.is_empty()
            || !self.varies_by.is_empty();
        if is_needed { OnceBox::with_value(Box::new(self)) } else { OnceBox::new() }
    }

    /// Memory in bytes.
    pub(super) fn heap_size(&self) -> usize {
        let fields = self.request_fields.iter().map(|(name, value)| name.len() + value.len() + 48);
        let updated = self.updated_fields.load().as_ref().map_or(0, |lines| lines.len());
        let segments = self.manifest.as_ref().and_then(Manifest::media).map_or(0, |playlist| {
            let uris = playlist.segments.iter().map(|uri| uri.len() + BLOCK_BYTES);
            playlist.segments.capacity() * size_of::<String>() + uris.sum::<usize>()
        });
        size_of::<Self>() + fields.sum::<usize>() + updated + segments
    }

    /// Why the last fill of this slice failed. If so many fills have failed that some of the faults were dropped, this may be
    /// the last fault of another slice: a cache without space or an origin without answers fails them all.
    pub(super) fn fault_of(&self, slice: u32) -> Option<FillFault> {
        let faults = self.faults.lock().unpoisoned();
        let own = faults.iter().rfind(|(failed, _)| *failed == slice);
        let last = || faults.last().filter(|_| faults.len() >= limits::FILL_FAULTS);
        own.or_else(last).map(|(_, fault)| *fault)
    }

    /// Records why the fill of a slice failed.
    pub(super) fn set_fault(&self, slice: u32, fault: FillFault) {
        let mut faults = self.faults.lock().unpoisoned();
        faults.retain(|(failed, _)| *failed != slice);
        if faults.len() >= limits::FILL_FAULTS {
            faults.remove(0);
        }
        faults.push((slice, fault));
    }
}

#[cfg(test)]
mod tests {
    use penstock_sys::heap::live_bytes;

    use super::*;

    #[test]
    fn when_all_fills_fail_for_lack_of_space_each_reader_is_told_so() {
        let rare = Rare::default();
        rare.set_fault(7, FillFault::ServerError);
        assert_eq!((rare.fault_of(7), rare.fault_of(8)), (Some(FillFault::ServerError), None));
        for slice in 0..4 * u32::try_from(limits::FILL_FAULTS).unwrap() {
            rare.set_fault(slice, FillFault::NoSpace);
            assert!((0..=slice).all(|slice| rare.fault_of(slice) == Some(FillFault::NoSpace)), "{slice}");
        }
        assert_eq!(rare.faults.lock().unwrap().len(), limits::FILL_FAULTS);
    }

    #[test]
    fn the_memory_of_a_low_latency_playlist_is_counted() {
        let mut text = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-PART-INF:PART-TARGET=1.0\n".to_owned();
        for segment in 0..1000 {
            for part in 0..4 {
                text += &format!("#EXT-X-PART:DURATION=1,URI=\"s{segment}.{part}.mp4\"\n");
            }
            text += &format!("#EXTINF:4,\ns{segment}.mp4\n");
        }
        let before = live_bytes();
        let rare = Box::new(Rare { manifest: Manifest::parse(text.as_bytes()), ..Rare::default() });
        let taken = (live_bytes() - before).unsigned_abs();
        let counted = rare.heap_size();
        // The numbers of parts are not counted: they take at most 272 bytes.
        assert!((taken - 1024..taken * 3 / 2).contains(&counted), "{counted} of {taken} bytes");
    }
}
