//! The tiers of the cache, and the freshness of a site's objects.

use std::time::Duration;

use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::model::{Cache, DiskTier, MemoryTier, SiteCache};
use crate::raw;
use crate::section::{Sections, position};
use crate::units::{Size, binary_unit};

/// A slice is a multiple of the page size.
const PAGE_BYTES: u32 = 4096;

pub(super) fn cache(section: Option<&Spanned<raw::Cache>>, reader: &mut Reader<'_>) -> Cache {
    let default = Cache::default();
    let Some(Spanned { value: raw, .. }) = section else { return default };
    let range = limits::SLICE_BYTES_MIN..=limits::SLICE_BYTES_MAX;
    let slice = reader.size("slice", raw.slice.as_ref(), &range, default.slice);
    if let Some(text) = raw.slice.as_ref().filter(|_| !slice.is_multiple_of(PAGE_BYTES)) {
        let rounded = Size(u64::from(slice.next_multiple_of(PAGE_BYTES)));
        let what = format!("slice: {} is not a multiple of 4KiB", text.value);
        let instead = binary_unit(&text.value).unwrap_or_else(|| rounded.to_string());
        reader.fault(position(text), what, format!("write {instead}"));
    }
    let memory = memory(raw.memory.as_ref(), slice, reader);
    let disks = disks(raw.disk.as_ref(), slice, &memory, reader);
    Cache { slice, memory, disks }
}

fn disks(
    list: Option<&Sections<raw::DiskTier>>,
    slice: u32,
    memory: &MemoryTier,
    reader: &mut Reader<'_>,
) -> Vec<DiskTier> {
    let sections = list.map_or(&[][..], |list| &list.value);
    if let (Some(list), true) = (list, sections.len() > limits::DISK_TIERS_MAX) {
        let what = format!("disk: there are {} directories", sections.len());
        reader.fault(position(list), what, format!("write at most {}", limits::DISK_TIERS_MAX));
    }
    let least = limits::DISK_TIER_SLICES_MIN * u64::from(slice);
    let mut disks: Vec<DiskTier> = Vec::new();
    for section in sections {
        let raw = &section.value;
        let Some(text) = &raw.directory else {
            reader.fault(
                position(section),
                "disk: there is no directory",
                "add directory: /var/cache/penstock",
            );
            continue;
        };
        let directory = reader.path(text);
        let taken = disks.iter().map(|disk| &disk.directory).chain([&memory.directory]);
        if taken.into_iter().any(|other| *other == directory) {
            let what = format!("directory: another tier is in {} already", directory.display());
            reader.fault(position(text), what, "give each a directory of its own");
        }
        if raw.size.is_none() {
            reader.fault(position(section), "disk: there is no size", "add size: 100GiB or what it may take");
        }
        let size = reader.size("size", raw.size.as_ref(), &(least..=limits::DISK_TIER_BYTES_MAX), least);
        disks.push(DiskTier { directory, size });
    }
    disks
}

fn memory(section: Option<&Spanned<raw::MemoryTier>>, slice: u32, reader: &mut Reader<'_>) -> MemoryTier {
    let default = Cache::default().memory;
    let Some(Spanned { value: raw, .. }) = section else { return default };
    let least = limits::MEMORY_TIER_SLICES_MIN * u64::from(slice);
    let size = reader.size("size", raw.size.as_ref(), &(least..=limits::MEMORY_TIER_BYTES_MAX), default.size);
    let directory = raw.directory.as_ref().map_or(default.directory, |text| reader.path(text));
    MemoryTier { directory, size }
}

/// The caching of a site, or of a route with what its site has for the keys that it lacks.
pub(super) fn site_cache(
    section: Option<&Spanned<raw::SiteCache>>,
    default: SiteCache,
    reader: &mut Reader<'_>,
) -> SiteCache {
    let Some(Spanned { value: raw, .. }) = section else { return default };
    let range = Duration::ZERO..=Duration::from_secs(limits::TTL_SECONDS_MAX);
    SiteCache {
        default_ttl: reader.time("default_ttl", raw.default_ttl.as_ref(), &range, default.default_ttl),
        missing_ttl: reader.time("missing_ttl", raw.missing_ttl.as_ref(), &range, default.missing_ttl),
        vary: raw.vary.as_ref().map_or(default.vary, |list| super::query::vary(Some(list), reader)),
        query: raw.query.as_ref().map_or(default.query, |rules| super::query::query(Some(rules), reader)),
        prefetch: reader.number(
            "prefetch",
            raw.prefetch.as_ref(),
            &(0..=limits::PREFETCH_SEGMENTS_MAX),
            default.prefetch,
        ),
    }
}
