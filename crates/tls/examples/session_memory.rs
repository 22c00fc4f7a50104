//! Measures the memory of a session in the internal cache:
//! `cargo run --release -p penstock-tls --example session_memory`.
//!
//! Fills the cache with 200,000 sessions of the size of real ones and compares the memory of this process.
#![expect(clippy::print_stdout, reason = "this is what it is for")]

use penstock_tls::session_cache::{SessionCache, SessionCacheLimits};
use penstock_tls::session_store::SessionKey;

const SESSIONS: u64 = 200_000;

/// A session of TLS 1.2 with an ECDSA certificate as BoringSSL writes it down, without its identifier.
const SESSION_BYTES: usize = 125;

fn main() {
    let limits = SessionCacheLimits {
        sessions: 400_000,
        bytes: 128 * 1024 * 1024,
        lifetime_seconds: 7200,
        shards: 256,
    };
    let cache = SessionCache::new(limits);
    let session = vec![7; SESSION_BYTES];
    let before = resident_bytes();
    for _ in 0..SESSIONS {
        let id: Vec<u8> = (0..4).flat_map(|_| penstock_tls::random_number().to_le_bytes()).collect();
        cache.insert(SessionKey { id: &id, server_name: Some("video.example.com") }, &session, 0);
    }
    let grown = resident_bytes().saturating_sub(before);
    let counts = cache.counts();
    println!("{} sessions of {SESSION_BYTES} bytes, {} evicted", counts.sessions, counts.evicted);
    println!("memory of the process: {} bytes each", grown / counts.sessions.max(1));
    println!("counted by the cache:  {} bytes each", counts.bytes / counts.sessions.max(1));
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}
