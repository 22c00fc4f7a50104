//! The tiers of the cache, and the freshness of a site's objects.

use std::time::Duration;

use serde_saphyr::Spanned;

use super::reader::Reader;
use crate::limits;
use crate::model::{Bypass, Cache, CachePolicy, DiskTier, MemoryTier, StatusTimes};
use crate::raw;
use crate::section::{Pairs, Sections, Texts, position};
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
    default: CachePolicy,
    reader: &mut Reader<'_>,
) -> CachePolicy {
    let Some(Spanned { value: raw, .. }) = section else { return default };
    let range = Duration::ZERO..=Duration::from_secs(limits::TTL_SECONDS_MAX);
    let grace = &(Duration::ZERO..=Duration::from_secs(limits::STALE_SECONDS_MAX));
    let mut stale = |key: &str, text, default| reader.time(key, text, grace, default);
    let while_revalidate = raw.stale_while_revalidate.as_ref();
    let stale_while_revalidate =
        stale("stale_while_revalidate", while_revalidate, default.stale_while_revalidate);
    let stale_if_error = stale("stale_if_error", raw.stale_if_error.as_ref(), default.stale_if_error);
    let grace = stale("grace", raw.grace.as_ref(), default.grace);
    let list = raw.cookies.as_ref();
    let cookies = list.map_or(default.cookies, |list| names("cookies", list, is_token, reader));
    let mut vary = raw.vary.as_ref().map_or(default.vary, |list| super::query::vary(Some(list), reader));
    if !cookies.is_empty() && !vary.iter().any(|name| name == "cookie") {
        vary.push("cookie".to_owned());
    }
    CachePolicy {
        stale_while_revalidate,
        stale_if_error,
        grace,
        default_ttl: reader.time("default_ttl", raw.default_ttl.as_ref(), &range, default.default_ttl),
        missing_ttl: reader.time("missing_ttl", raw.missing_ttl.as_ref(), &range, default.missing_ttl),
        ttl: raw.ttl.as_ref().map_or(default.ttl, |pairs| status_times(pairs, reader)),
        ignore_origin: reader.flag("ignore_origin", raw.ignore_origin.as_ref(), default.ignore_origin),
        bypass: raw.bypass.as_ref().map_or(default.bypass, |section| bypass(&section.value, reader)),
        cookies,
        vary,
        query: raw.query.as_ref().map_or(default.query, |rules| super::query::query(Some(rules), reader)),
        prefetch_numbers: reader.flag(
            "prefetch_numbers",
            raw.prefetch_numbers.as_ref(),
            default.prefetch_numbers,
        ),
        coalescing: reader.flag("coalescing", raw.coalescing.as_ref(), default.coalescing),
        prefetch: reader.number(
            "prefetch",
            raw.prefetch.as_ref(),
            &(0..=limits::PREFETCH_SEGMENTS_MAX),
            default.prefetch,
        ),
    }
}

fn bypass(raw: &raw::Bypass, reader: &mut Reader<'_>) -> Bypass {
    let mut of = |key, list: Option<&Texts>, is_name| {
        list.map_or_else(Vec::new, |list| names(key, list, is_name, reader))
    };
    Bypass {
        fields: of("fields", raw.fields.as_ref(), is_token as fn(u8) -> bool)
            .iter()
            .map(|name| name.to_ascii_lowercase())
            .collect(),
        cookies: of("cookies", raw.cookies.as_ref(), is_token),
        query: of("query", raw.query.as_ref(), is_parameter),
    }
}

/// Statuses or classes of them, with times.
fn status_times(pairs: &Pairs, reader: &mut Reader<'_>) -> StatusTimes {
    let range = Duration::ZERO..=Duration::from_secs(limits::TTL_SECONDS_MAX);
    let mut times = StatusTimes::default();
    for (key, time) in &pairs.value.0 {
        let text = key.value.as_str();
        let class = text.strip_suffix("xx").and_then(|class| class.parse::<u16>().ok());
        let statuses = match (class, text.parse::<u16>()) {
            (Some(class @ 2..=5), _) => class * 100..=class * 100 + 99,
            (None, Ok(status @ 200..=599)) => status..=status,
            _ => {
                let what = format!("ttl: `{}` is no status", text.escape_debug());
                reader.fault(position(key), what, "write one from 200 to 599, or a class such as 5xx");
                continue;
            }
        };
        if matches!(text, "206" | "304" | "425") {
            let what = format!("ttl: {text} is never stored as such");
            reader.fault(position(key), what, "remove it: parts and confirmations belong to a 200");
        } else if times.0.iter().any(|(known, _)| *known == statuses) {
            reader.fault(position(key), format!("ttl: {text} has a time already"), "remove one of them");
        } else {
            times.0.push((statuses, reader.time("ttl", Some(time), &range, Duration::ZERO)));
        }
    }
    times
}

/// A list of names, each once.
fn names(key: &str, list: &Texts, is_name: fn(u8) -> bool, reader: &mut Reader<'_>) -> Vec<String> {
    if list.value.len() > limits::VARY_NAMES_MAX {
        let what = format!("{key}: there are {} names", list.value.len());
        reader.fault(position(list), what, format!("write at most {}", limits::VARY_NAMES_MAX));
    }
    let mut names: Vec<String> = Vec::new();
    for text in &list.value {
        if text.value.is_empty() || !text.value.bytes().all(is_name) {
            let what = format!("{key}: `{}` cannot be a name", text.value.escape_debug());
            reader.fault(position(text), what, "write a name such as session");
        } else if !names.contains(&text.value) {
            names.push(text.value.clone());
        }
    }
    names
}

/// Whether names of fields and cookies have this byte (RFC 9110 section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether the name of a parameter has this byte.
fn is_parameter(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"=&?#".contains(&byte)
}
