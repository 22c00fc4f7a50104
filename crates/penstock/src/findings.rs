//! Findings about a configuration: one list for `check`, `doctor` and `serve`.

use std::path::PathBuf;

use penstock_config::{Config, ConfigPart, Fault};
use penstock_edge::check_space;

use crate::advice::{Circumstances, advise, congestion_advice};
use crate::finding::Finding;
use crate::{ports, storage_advice, store_advice};

/// What a server says at its start.
pub(crate) fn at_start(config: &Config, circumstances: &Circumstances) -> Vec<Finding> {
    let mut found: Vec<Finding> = config.warnings.iter().cloned().map(Finding::warning).collect();
    found.extend(advise(config, circumstances));
    found
}

/// All findings about a configuration on this machine but those about the store of its fleet. Reads each certificate of
/// each directory.
pub(crate) fn examine(config: &Config, circumstances: &Circumstances) -> Vec<Finding> {
    let mut found = at_start(config, circumstances);
    let space = config.uses_cache().then(|| check_space(&config.cache)).flatten();
    let faults = config.inconsistencies().into_iter().chain(config.verify_directories());
    let faults = faults
        .chain(ports::absent(config))
        .chain(congestion_advice(config))
        .chain(space.map(|what| config.fault_of(ConfigPart::MemoryTier, what)))
        .chain(storage_advice::advise(config));
    found.extend(faults.map(Finding::warning));
    in_order(found, config.files())
}

/// Findings about the store of a fleet. Blocks for some seconds at most.
pub(crate) fn of_store(config: &Config) -> Vec<Finding> {
    let found = store_advice::examine(config).into_iter();
    let wanting = found.filter_map(|found| {
        let what = format!("fleet: {}: {}", found.what, found.value);
        let fault = config.fault_of(ConfigPart::Store, what);
        Some(Finding::warning(Fault { instead: format!("it should be {}", found.wanted?), ..fault }))
    });
    wanting.collect()
}

/// In the order of files and lines; those without a line come last.
fn in_order(mut found: Vec<Finding>, files: &[PathBuf]) -> Vec<Finding> {
    let place = |fault: &Fault| files.iter().position(|file| *file == fault.file);
    found.sort_by_key(|one| (one.fault.line == 0, place(&one.fault), one.fault.line, one.fault.column));
    found
}
