//! Translates the facts of a handshake into the labels of metrics.

use penstock_origin::directory::OpenFilesCounters;
use penstock_origin::residency::ResidencyCounters;
use penstock_tls::early_data::EarlyDataOutcome;
use penstock_tls::ocsp::StapleFault;

use crate::metrics::{FileCounts, Shard, StapleOutcome};

/// Counts the early data of a handshake, if it had any.
pub(crate) fn count_early_data(shard: &Shard, early_data: EarlyDataOutcome) {
    match early_data {
        EarlyDataOutcome::None => {}
        EarlyDataOutcome::Accepted => shard.early_data("accepted", "none"),
        EarlyDataOutcome::Delayed(reason) => shard.early_data("delayed", reason),
        EarlyDataOutcome::Rejected(reason) => shard.early_data("rejected", reason),
    }
}

pub(crate) fn staple_fault(fault: StapleFault) -> StapleOutcome {
    match fault {
        StapleFault::Malformed => StapleOutcome::Malformed,
        StapleFault::Refused => StapleOutcome::Refused,
        StapleFault::WrongCertificate => StapleOutcome::WrongCertificate,
        StapleFault::BadSignature => StapleOutcome::BadSignature,
        StapleFault::WrongResponder => StapleOutcome::WrongResponder,
        StapleFault::Early => StapleOutcome::Early,
        StapleFault::Stale => StapleOutcome::Stale,
        StapleFault::Revoked => StapleOutcome::Revoked,
        StapleFault::Unknown => StapleOutcome::UnknownCertificate,
    }
}

pub(crate) fn files(files: &OpenFilesCounters, residency: &ResidencyCounters) -> FileCounts {
    FileCounts {
        open: files.files as u64,
        hits: files.hits,
        opened: files.opens,
        revalidated: files.revalidations,
        missing: files.absent_hits,
        page_cache_misses: residency.loaded,
    }
}
