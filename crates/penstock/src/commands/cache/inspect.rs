//! `penstock cache ls`, `stat` and `verify`: read the tiers, whether a server runs or not.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use penstock_config::Config;
use penstock_edge::contents::{CachedObject, Depth, TierContents, look, objects};
use serde_json::{Value, json};

use crate::arguments::{ListArgs, TierArgs};
use crate::commands::tickets::age;
use crate::failure::Failure;
use crate::terminal;

pub(super) fn list(arguments: &ListArgs) -> Result<(), Failure> {
    let tiers = tiers(&arguments.tiers, Depth::Metadata)?;
    complain(&tiers);
    let mut objects = objects(tiers);
    if let Some(part) = &arguments.url {
        objects.retain(|object| url(object).contains(part.as_str()));
    }
    let all = objects.len();
    objects.truncate(arguments.limit);
    let now = SystemTime::now();
    if arguments.tiers.json {
        let objects: Vec<Value> = objects.iter().map(|object| in_json(object, now)).collect();
        terminal::say(&format!("{:#}", json!({"objects": objects, "of": all})));
        return Ok(());
    }
    if !objects.is_empty() {
        terminal::say(&object_row("STATUS", "LENGTH", "MEMORY", "DISK", "AGE", "FRESH FOR", "URL"));
    }
    for object in &objects {
        let written = &object.written;
        let held = now.duration_since(written.received).map_or_else(|_| "new".to_owned(), age);
        let fresh = written.fresh_until.duration_since(now).map_or_else(|_| "stale".to_owned(), age);
        let length = object.length.map_or_else(|| "?".to_owned(), size);
        let (memory, disk) =
            (share(object.memory_bytes, object.length), share(object.disk_bytes, object.length));
        let status = written.status.to_string();
        terminal::say(&object_row(&status, &length, &memory, &disk, &held, &fresh, &url(object)));
    }
    if all > objects.len() {
        terminal::say(&format!("and {} more: --limit, --url", all - objects.len()));
    }
    Ok(())
}

pub(super) fn stat(arguments: &TierArgs) -> Result<(), Failure> {
    show(&tiers(arguments, Depth::Count)?, arguments.json);
    Ok(())
}

pub(super) fn verify(arguments: &TierArgs) -> Result<(), Failure> {
    let tiers = tiers(arguments, Depth::Verify)?;
    show(&tiers, arguments.json);
    let damaged: u64 =
        tiers.iter().filter_map(|tier| tier.contents.as_ref().ok()).map(|found| found.damaged).sum();
    let unreadable = tiers.iter().filter(|tier| tier.contents.is_err()).count();
    match (damaged, unreadable) {
        (0, 0) => {
            if !arguments.json {
                terminal::say_well("all checksums are right");
            }
            Ok(())
        }
        _ => Err(Failure::Damaged { count: damaged + unreadable as u64 }),
    }
}

fn tiers(arguments: &TierArgs, depth: Depth) -> Result<Vec<TierContents>, Failure> {
    let config = Config::load(&arguments.config).map_err(Failure::Config)?;
    Ok(look(&config.cache, depth))
}

fn show(tiers: &[TierContents], json: bool) {
    if json {
        let tiers: Vec<Value> = tiers.iter().map(tier_in_json).collect();
        terminal::say(&format!("{:#}", json!({ "tiers": tiers })));
        return;
    }
    terminal::say(&tier_row("TIER", "SIZE", "USED", "OBJECTS", "SLICES", "SEGMENTS", "DAMAGED", "DIRECTORY"));
    for tier in tiers {
        let Ok(found) = &tier.contents else { continue };
        let segments = if tier.is_disk { found.segments.to_string() } else { "-".to_owned() };
        terminal::say(&tier_row(
            kind(tier),
            &size(tier.size),
            &size(found.file_bytes),
            &found.objects.len().to_string(),
            &found.slices.to_string(),
            &segments,
            &found.damaged.to_string(),
            &tier.directory.display().to_string(),
        ));
    }
    complain(tiers);
}

fn complain(tiers: &[TierContents]) {
    for tier in tiers {
        if let Err(error) = &tier.contents {
            terminal::complain(&format!("{}: {error} (warning)", tier.directory.display()));
        }
    }
}

fn kind(tier: &TierContents) -> &'static str {
    if tier.is_disk { "disk" } else { "memory" }
}

#[expect(clippy::too_many_arguments, reason = "one for each column")]
fn tier_row(
    tier: &str,
    size: &str,
    used: &str,
    objects: &str,
    slices: &str,
    segments: &str,
    damaged: &str,
    directory: &str,
) -> String {
    format!(
        "{tier:<6}  {size:>9}  {used:>9}  {objects:>8}  {slices:>8}  {segments:>8}  {damaged:>7}  {directory}"
    )
}

fn object_row(
    status: &str,
    length: &str,
    memory: &str,
    disk: &str,
    age: &str,
    fresh: &str,
    url: &str,
) -> String {
    format!("{status:<6}  {length:>9}  {memory:>6}  {disk:>6}  {age:>8}  {fresh:>9}  {url}")
}

/// The URL at the origin, which is the cache key.
fn url(object: &CachedObject) -> String {
    format!("{}{}", object.written.site, object.written.target)
}

fn share(bytes: u64, length: Option<u64>) -> String {
    match (bytes, length) {
        (0, _) => "-".to_owned(),
        (bytes, Some(length)) if length > 0 => {
            format!("{} %", (u128::from(bytes) * 100 / u128::from(length)).clamp(1, 100))
        }
        _ => "some".to_owned(),
    }
}

/// Bytes in the largest unit that leaves a whole number, with one digit behind it.
fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut tenths = u128::from(bytes) * 10;
    let mut unit = "B";
    for larger in units {
        if tenths < 10_240 {
            break;
        }
        tenths /= 1024;
        unit = larger;
    }
    if unit == "B" || tenths >= 1000 {
        format!("{} {unit}", tenths / 10)
    } else {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

fn tier_in_json(tier: &TierContents) -> Value {
    let directory = tier.directory.display().to_string();
    match &tier.contents {
        Ok(found) => json!({
            "tier": kind(tier),
            "directory": directory,
            "size_bytes": tier.size,
            "used_bytes": found.file_bytes,
            "objects": found.objects.len(),
            "slices": found.slices,
            "slice_bytes": found.bytes,
            "segments": found.segments,
            "damaged": found.damaged,
        }),
        Err(error) => json!({"tier": kind(tier), "directory": directory, "error": error.to_string()}),
    }
}

fn in_json(object: &CachedObject, now: SystemTime) -> Value {
    let written = &object.written;
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let fresh = written.fresh_until.duration_since(now).unwrap_or(Duration::ZERO);
    json!({
        "site": written.site,
        "target": written.target,
        "status": written.status,
        "content_type": written.content_type,
        "etag": written.etag,
        "length_bytes": object.length,
        "memory_bytes": object.memory_bytes,
        "disk_bytes": object.disk_bytes,
        "received": seconds(written.received),
        "fresh_for_seconds": fresh.as_secs(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (100 << 10, "100 KiB"),
            (10 << 30, "10.0 GiB"),
            (5000 << 40, "5000 TiB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
    }

    #[test]
    fn shares_are_whole_and_never_nothing_for_something() {
        assert_eq!(share(0, Some(10)), "-");
        assert_eq!(share(1, Some(1000)), "1 %");
        assert_eq!(share(500, Some(1000)), "50 %");
        assert_eq!(share(5, None), "some");
    }
}
