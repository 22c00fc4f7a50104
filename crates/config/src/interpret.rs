//! From what was written to what it means.

mod bounds;
mod cache;
mod certificates;
mod ciphers;
mod client_certificates;
mod compression;
mod early_data;
mod ech;
mod listeners;
mod ocsp;
mod origins;
mod passing;
mod query;
pub(crate) mod reader;
mod signed_urls;
mod sites;
mod strays;
mod tickets;
mod tls;
mod versions;

use std::num::NonZeroUsize;
use std::thread;

use crate::limits;
use crate::meaning::{Admin, Config, Log, Written};
use crate::raw;
use crate::section::{Place, Text, place};
pub(crate) use listeners::default_options;
use reader::Reader;
pub(crate) use sites::INDEX;

/// Reads everything, whatever it finds. Only if `reader` has no faults afterwards, the result may be used.
pub(crate) fn interpret(root: &raw::Root, reader: &mut Reader<'_>) -> Config {
    strays::report(root, reader);
    let workers = workers(root.workers.as_ref(), reader);
    let affinity = reader.flag("affinity", root.affinity.as_ref(), true);
    let tls = tls::tls(root.tls.as_ref(), reader);
    let admin = root.admin.as_ref().and_then(|section| {
        let default = ([127, 0, 0, 1], limits::ADMIN_PORT).into();
        let written = section.value.address.as_ref();
        let address = written.map_or(Some(default), |text| reader.address("address", text))?;
        Some((Admin { address }, written.map_or_else(|| place(section), place)))
    });
    let (listeners, addresses) = listeners::listeners(root, admin, reader);
    let sites = sites::sites(root.sites.as_ref(), reader);
    let cache = cache::cache(root.cache.as_ref(), reader);
    let log = root.log.as_ref().map_or_else(Log::default, |section| log(&section.value, reader));
    let limits = bounds::limits(root.limits.as_ref(), reader);
    let admin = admin.map(|(admin, _)| admin);
    let written = Written { file: reader.file.to_owned(), addresses };
    Config {
        workers,
        affinity,
        listeners,
        tls,
        sites,
        cache,
        admin,
        log,
        limits,
        warnings: Vec::new(),
        written,
    }
}

fn log(raw: &raw::Log, reader: &mut Reader<'_>) -> Log {
    let access = raw.access.as_ref().map(|text| reader.written_file("access", text));
    let ja4 = reader.flag("ja4", raw.ja4.as_ref(), false);
    if let Some(text) = raw.ja4.as_ref().filter(|_| ja4 && access.is_none()) {
        reader.fault(
            place(text),
            "ja4: there is no access log to write it to",
            "add access: FILE or remove ja4",
        );
    }
    Log { ja4, access }
}

/// One worker for each core this process may use: affinity masks and CPU quotas count.
pub(crate) fn worker_for_each_core() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn workers(written: Option<&Text>, reader: &mut Reader<'_>) -> NonZeroUsize {
    let automatic = worker_for_each_core();
    let Some(text) = written.filter(|text| text.value != "auto") else { return automatic };
    let most = limits::WORKERS_MAX;
    match text.value.parse::<NonZeroUsize>() {
        Ok(number) if number.get() <= most => number,
        Ok(_) | Err(_) => {
            let instead = format!("write auto or a number from 1 to {most}");
            reader.fault(place(text), format!("workers: `{}` cannot be", text.value), instead);
            automatic
        }
    }
}

/// The place to complain about a key that is missing from a section.
fn start<T>(section: Option<&serde_saphyr::Spanned<T>>) -> Place {
    section.map_or(Place::NOWHERE, place)
}
