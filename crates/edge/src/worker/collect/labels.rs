//! Translates the facts of a handshake into the labels of metrics.

use penstock_origin::directory::OpenFilesCounters;
use penstock_origin::residency::ResidencyCounters;
use penstock_tls::early_data::EarlyDataOutcome;
use penstock_tls::ocsp::StapleFault;
use penstock_tls::session_store::LookupWait;
use penstock_tls::tickets::{TicketFacts, TicketOutcome};
use penstock_tls::{Compression, EncryptedHello, Extensions, StapleStatus, Timing};

use crate::metrics::{
    CertificateCompression, EncryptedHelloOutcome, ExtensionFacts, FileCounts, HandshakeTiming,
    OfferedTicket, PurgeKind, SessionWait, Shard, StapleOutcome, StapleSending,
};
use penstock_content::PurgeWhat;

/// Counts the tickets of a successful handshake.
pub(crate) fn count_tickets(shard: &Shard, tickets: &TicketFacts) {
    let offered = tickets.offered.map(|outcome| match outcome {
        TicketOutcome::AcceptedCurrent => OfferedTicket::AcceptedCurrent,
        TicketOutcome::AcceptedOld => OfferedTicket::AcceptedOld,
        TicketOutcome::UnknownKey => OfferedTicket::UnknownKey,
        TicketOutcome::Expired => OfferedTicket::Expired,
        TicketOutcome::NotYetValid => OfferedTicket::NotYetValid,
        TicketOutcome::Forged => OfferedTicket::Forged,
        TicketOutcome::Unsuitable => OfferedTicket::Unsuitable,
        TicketOutcome::OtherSoftware => OfferedTicket::OtherSoftware,
    });
    shard.tickets(tickets.issued.into(), offered);
}

/// Counts the early data of a handshake, if it had any.
pub(crate) fn count_early_data(shard: &Shard, early_data: EarlyDataOutcome) {
    match early_data {
        EarlyDataOutcome::None => {}
        EarlyDataOutcome::Accepted => shard.early_data("accepted", "none"),
        EarlyDataOutcome::Delayed(reason) => shard.early_data("delayed", reason),
        EarlyDataOutcome::Rejected(reason) => shard.early_data("rejected", reason),
    }
}

pub(crate) fn session_wait(wait: LookupWait) -> SessionWait {
    match wait {
        LookupWait::Answered => SessionWait::Answered,
        LookupWait::TimedOut => SessionWait::Deadline,
    }
}

pub(crate) fn timing(timing: &Timing) -> HandshakeTiming {
    HandshakeTiming {
        waiting: timing.waiting,
        queued: timing.queued,
        signing: timing.signing,
        signing_remote: timing.signing_remote,
        key_exchange: timing.key_exchange,
        rest: timing.rest,
    }
}

pub(crate) fn extensions(extensions: &Extensions) -> ExtensionFacts {
    ExtensionFacts {
        encrypted_hello: match extensions.encrypted_hello {
            EncryptedHello::Accepted => EncryptedHelloOutcome::Accepted,
            EncryptedHello::Rejected => EncryptedHelloOutcome::Rejected,
            EncryptedHello::NotOffered => EncryptedHelloOutcome::NotOffered,
        },
        staple: match extensions.staple {
            StapleStatus::Sent => StapleSending::Sent,
            StapleStatus::Missing => StapleSending::Missing,
            StapleStatus::NotAsked => StapleSending::NotAsked,
        },
        compression: match extensions.compression {
            None => CertificateCompression::None,
            Some(Compression::Brotli) => CertificateCompression::Brotli,
            Some(Compression::Zstd) => CertificateCompression::Zstd,
            Some(Compression::Zlib) => CertificateCompression::Zlib,
        },
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

pub(crate) fn purge_kind(what: &PurgeWhat) -> PurgeKind {
    match what {
        PurgeWhat::Url(_) => PurgeKind::Url,
        PurgeWhat::Prefix(_) => PurgeKind::Prefix,
        PurgeWhat::Tag(_) => PurgeKind::Tag,
        PurgeWhat::Everything => PurgeKind::Everything,
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

#[cfg(test)]
mod tests {
    use penstock_tls::tickets::directory::IgnoredReason;

    use super::*;
    use crate::metrics::IgnoredTicketFile;

    #[test]
    fn the_labels_of_tickets_are_those_of_the_tls_crate() {
        assert_eq!(TicketOutcome::LABELS, OfferedTicket::LABELS);
        assert_eq!(IgnoredReason::LABELS, IgnoredTicketFile::LABELS);
    }
}
