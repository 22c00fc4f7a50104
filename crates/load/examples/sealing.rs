//! Measures the cost of sealing alone: `cargo run --release -p penstock-load --example sealing`.
//!
//! Seals one GiB in records of 16 KiB, as the server does, from memory that is larger than the processor's caches into
//! a buffer that is not, and prints the processor time. No socket, no file, nothing else.
#![expect(clippy::print_stdout, reason = "this is what it is for")]

use penstock_sys::aead::{Cipher, NONCE_BYTES, Plaintext, SealingKey, TAG_BYTES};

const GIB: usize = 1 << 30;
const SOURCE_BYTES: usize = 128 << 20;
const RECORD_BYTES: usize = 16 << 10;
const BATCH_BYTES: usize = 512 << 10;

fn main() {
    let key = SealingKey::new(Cipher::Aes128Gcm, &[7; 16]);
    let Some(key) = key else { return };
    // Written, so that no page is the one page of zeros.
    let source: Vec<u8> = (0..SOURCE_BYTES).map(|place| place.to_le_bytes()[0]).collect();
    let mut out = vec![0; BATCH_BYTES];
    seal(&key, &source, &mut out, SOURCE_BYTES);
    let began = processor_seconds();
    seal(&key, &source, &mut out, GIB);
    println!("{{\"cpu_s_per_gib\": {:.6}}}", processor_seconds() - began);
}

fn seal(key: &SealingKey, source: &[u8], out: &mut [u8], bytes: usize) {
    let sealed_bytes = RECORD_BYTES + 1 + TAG_BYTES;
    let mut place = 0;
    for number in 0..bytes / RECORD_BYTES {
        let mut nonce = [0; NONCE_BYTES];
        nonce[4..].copy_from_slice(&(number as u64).to_be_bytes());
        let start = number * RECORD_BYTES % source.len();
        let record = Plaintext::Memory(&source[start..start + RECORD_BYTES]);
        let sealed =
            key.seal(&nonce, &[23, 3, 3, 64, 17], record, &[23], &mut out[place..place + sealed_bytes]);
        assert!(sealed.is_ok(), "the library refused to seal");
        place = if place + 2 * sealed_bytes > out.len() { 0 } else { place + sealed_bytes };
    }
}

fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
