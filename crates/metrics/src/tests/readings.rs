//! Readings of a program with all parts.

use std::time::{Duration, UNIX_EPOCH};

use crate::{
    ChaCha20Reading, DiskCounters, DiskTierReading, FleetEdgeReading, FleetReading, KernelTlsReading,
    OrderedName, OrdersReading, OriginCounters, OriginRequestsReading, OriginServerReading, PeerReading,
    Readings, RemoteKeysReading, SessionCacheCounts, SignerStatus, StapleReading, TierCounters,
};

fn full_orders() -> OrdersReading {
    let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    OrdersReading {
        states: [("missing", 0), ("ordering", 0), ("waiting", 0), ("valid", 1), ("failing", 0)],
        outcomes: vec![("issued", 190)],
        names: vec![OrderedName {
            name: "video.example".to_owned(),
            state: "valid",
            not_after: Some(at(191)),
            next: Some(at(192)),
            error: None,
        }],
        clock: None,
    }
}

/// A program with all parts. All numbers differ.
pub(super) fn full_readings() -> Readings {
    let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    Readings {
        chacha20: Some(ChaCha20Reading {
            mode: "auto",
            set_by_admin: true,
            is_last_choice: true,
            switches: [101, 102, 103],
        }),
        seal_rates: vec![("aes_128_gcm", 7.8e9), ("chacha20_poly1305", 2.4e9)],
        kernel_tls: KernelTlsReading { cpu: 104, network_card: 105 },
        session_cache: SessionCacheCounts {
            sessions: 106,
            bytes: 107,
            stored: 108,
            hits: 109,
            misses: 110,
            expired: 111,
            evicted: 112,
        },
        orders: Some(full_orders()),
        staples: vec![StapleReading {
            subject: "video.example".to_owned(),
            kind: "ecdsa",
            this_update: at(113),
            next_update: at(114),
        }],
        remote_keys: Some(full_remote_keys()),
        origin_servers: vec![full_origin_server()],
        origin_requests: vec![full_origin_requests()],
        peers: vec![full_peer()],
        memory_tier: Some(TierCounters {
            bytes: 117,
            slices: 118,
            evictions: 119,
            refusals: 120,
            bytes_max: 136,
            in_service: true,
            waiting: true,
            evicted_bytes: 918,
            copied_bytes: 919,
            ..TierCounters::default()
        }),
        disk_tier: Some(DiskTierReading {
            disks: vec![DiskCounters {
                directory: "/disk".into(),
                segments: 0,
                in_service: true,
                bytes: 121,
                bytes_max: 137,
                written_bytes: 122,
                scrubbed_bytes: 123,
                errors: 124,
                segments_dropped: 125,
                written: 126,
                read: 127,
                promoted: 128,
                damaged: 129,
                busy: 130,
            }],
            slices: 131,
            index_bytes: 132,
            waiting_bytes: 133,
            skipped: 134,
        }),
        purge_list: Some(135),
        fleet: Some(full_fleet()),
    }
}

fn full_origin_server() -> OriginServerReading {
    OriginServerReading {
        url: "http://192.0.2.1".to_owned(),
        up: true,
        connections: 115,
        waiting: 116,
        answered: 144,
        failed: 145,
        time: Duration::from_secs(146),
        fault: String::new(),
    }
}

fn full_peer() -> PeerReading {
    PeerReading {
        purges_missed: 923,
        name: "edge2".to_owned(),
        up: true,
        fault: String::new(),
        load: 920,
        requests: vec![("answered", 921), ("failed", 922)],
    }
}

fn full_fleet() -> FleetReading {
    FleetReading {
        is_up: true,
        is_circuit_open: true,
        latency: Duration::from_millis(137),
        under_way: 138,
        losses: std::array::from_fn(|column| (1100 + column) as u64),
        operations: std::array::from_fn(|row| {
            std::array::from_fn(|column| (1000 + 10 * row + column) as u64)
        }),
        purges_applied: 139,
        purges_waiting: 140,
        purges_missed: 141,
        revoked_ids: 1441,
        revoked_waiting: 1442,
        revoked_dropped: 1443,
        strangers: 142,
        namesakes: 143,
        members: 1440,
        fingerprint: "0123abcd".to_owned(),
        edges: [("edge1", true, 0), ("edge2", false, 1444)]
            .map(|(name, is_own, purges_missing)| FleetEdgeReading {
                name: name.to_owned(),
                is_own,
                is_present: is_own,
                seen: UNIX_EPOCH,
                purges_missing,
            })
            .into(),
    }
}

fn full_remote_keys() -> RemoteKeysReading {
    RemoteKeysReading {
        fallbacks: 901,
        under_way: 902,
        keyservers: vec![SignerStatus {
            name: "192.0.2.9:2407".to_owned(),
            up: true,
            circuit_open: false,
            under_way: 903,
            results: [904, 905, 906, 907, 908, 911],
            time: Duration::from_secs(909),
            connections: 910,
            certificate_end: Some(UNIX_EPOCH + Duration::from_secs(940)),
        }],
        tokens: vec![SignerStatus {
            name: "edge".to_owned(),
            up: true,
            circuit_open: false,
            under_way: 931,
            results: [932, 933, 934, 935, 936, 937],
            time: Duration::from_secs(938),
            connections: 939,
            certificate_end: None,
        }],
    }
}

fn full_origin_requests() -> OriginRequestsReading {
    let counters = OriginCounters::default();
    counters.connected(Duration::from_millis(20));
    counters.answered(Duration::from_millis(30));
    counters.ended(Duration::from_millis(40));
    counters.outcome("timeout");
    counters.incomplete("cut_short");
    counters.reading("video.example", "http://192.0.2.1")
}
