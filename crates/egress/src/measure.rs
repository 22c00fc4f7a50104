//! Measures the cost of sending on this machine.
//!
//! Every figure is CPU time of the sending thread (user and kernel) per byte of body, so that neither a busy
//! neighbour nor a slow reader decides. Of several short rounds the best one counts: noise only ever adds.

mod send;
mod summary;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_metrics::Readings;
use penstock_sys::aead::{Cipher, Plaintext};
use penstock_sys::file::OpenFile;
use penstock_sys::traffic::{Secret, TrafficKeys};
use rustix::fs::MemfdFlags;
use rustix::time::ClockId;

use crate::batch::Batch;
use crate::framing::ContentType;
use crate::pace::RECORD_BYTES;
use crate::record::{OVERHEAD_BYTES, Sealer};

pub use summary::{CipherOrder, Cost, Costs, Rate, Sample, best, cipher_order};

/// The ciphers that are measured, in the order in which they are shown.
pub const CIPHERS: [Cipher; 3] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

/// The names of [`CIPHERS`] in metrics and in JSON.
pub const CIPHER_LABELS: [&str; CIPHERS.len()] = Readings::CIPHERS;

/// How much may be spent on measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasureLimits {
    /// Rounds of each measurement; the best one counts.
    pub rounds: u32,
    /// CPU time after which a round ends.
    pub round_cpu: Duration,
    /// Wall time after which all rounds of one measurement end, whatever they have got so far.
    pub patience: Duration,
    /// Bytes of the file that is sent over and over. More than the CPU's caches hold, as large bodies are.
    pub source_bytes: usize,
    /// Ciphertext per `send` in user space, in bytes.
    pub batch_bytes: usize,
    /// Frames per `sendmsg` to the kernel, in bytes.
    pub frames_bytes: usize,
    /// Body per `sendfile` to the kernel, in bytes.
    pub window_bytes: usize,
    /// Whether to measure sending over loopback too, or only sealing.
    pub end_to_end: bool,
}

/// Measures each cipher on each path. A cost that cannot be measured here is `None`.
///
/// Blocks its thread for at most 12 times [`MeasureLimits::patience`] (3 with only sealing), usually for
/// `rounds * round_cpu` instead. A worker must not call it.
#[must_use]
pub fn measure(limits: MeasureLimits) -> Costs {
    // Without a source there is nothing to measure, which the costs then say.
    let source = source(limits.source_bytes).ok();
    let measure = |cipher| match &source {
        Some(source) => Cost {
            user_space_seal: seal(cipher, source, &limits),
            user_space_send: limits.end_to_end.then(|| send::user_space(cipher, source, &limits)).flatten(),
            kernel_send: limits.end_to_end.then(|| send::kernel(cipher, source, &limits)).flatten(),
            kernel_send_frames: limits
                .end_to_end
                .then(|| send::kernel_frames(cipher, source, &limits))
                .flatten(),
        },
        None => Cost::default(),
    };
    Costs {
        aes_128_gcm: measure(Cipher::Aes128Gcm),
        aes_256_gcm: measure(Cipher::Aes256Gcm),
        chacha20_poly1305: measure(Cipher::ChaCha20Poly1305),
    }
}

/// Sealing alone: full records out of place from the mapped file, as bodies are sealed.
fn seal(cipher: Cipher, source: &Arc<OpenFile>, limits: &MeasureLimits) -> Option<Rate> {
    let mut sealer = sealer(cipher)?;
    let mut batch = Batch::new();
    let mut at = Cycle::new(source.len());
    rounds(limits, || batch_of_records(&mut sealer, &mut batch, source, &mut at, limits.batch_bytes))
}

/// Fills `batch` with full records and returns their plaintext bytes.
fn batch_of_records(
    sealer: &mut Sealer,
    batch: &mut Batch,
    source: &OpenFile,
    at: &mut Cycle,
    batch_bytes: usize,
) -> io::Result<usize> {
    batch.begin(batch_bytes + RECORD_BYTES + OVERHEAD_BYTES);
    let mut plaintext_bytes = 0;
    while batch.len() < batch_bytes {
        let window = source.window(at.next(RECORD_BYTES as u64), RECORD_BYTES as u64)?;
        sealer
            .seal(ContentType::ApplicationData, Plaintext::Mapped(window), batch)
            .map_err(|error| io::Error::other(error.to_string()))?;
        plaintext_bytes += window.len();
    }
    Ok(plaintext_bytes)
}

/// Runs `step`, which returns how many bytes it dealt with, in rounds, and takes the best of them.
fn rounds(limits: &MeasureLimits, mut step: impl FnMut() -> io::Result<usize>) -> Option<Rate> {
    let start = Instant::now();
    let mut samples = Vec::new();
    // The first step faults pages in and wakes the CPU's wide units: it belongs to no round.
    step().ok()?;
    for _ in 0..limits.rounds {
        let mut sample = Sample::default();
        let before = cpu_time();
        while sample.cpu < limits.round_cpu && start.elapsed() < limits.patience {
            let bytes = step().ok()?;
            if bytes == 0 {
                return None;
            }
            sample.bytes += bytes as u64;
            sample.cpu = cpu_time().saturating_sub(before);
        }
        samples.push(sample);
    }
    best(&samples)
}

/// CPU time of this thread, in user space and in the kernel.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A file in memory, full of bytes.
fn source(bytes: usize) -> io::Result<Arc<OpenFile>> {
    let whole_records = (bytes / RECORD_BYTES).max(1) * RECORD_BYTES;
    let fd = rustix::fs::memfd_create("penstock-measure", MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(fd);
    let piece = [0x5a; RECORD_BYTES];
    for _ in 0..whole_records / RECORD_BYTES {
        io::Write::write_all(&mut file, &piece)?;
    }
    let source = OpenFile::from_fd(file.into())?;
    touch(&source)?;
    Ok(Arc::new(source))
}

/// Reads a byte here and there, so that the first cipher does not pay for mapping the pages.
fn touch(source: &OpenFile) -> io::Result<()> {
    // No page is smaller.
    const STEP_BYTES: usize = 4096;
    let mut byte = [0];
    for offset in (0..source.len()).step_by(STEP_BYTES) {
        source.window(offset, 1)?.copy_to(&mut byte)?;
    }
    Ok(())
}

/// A sealer with keys that protect nothing: only the source's filler bytes are ever sealed with them.
fn sealer(cipher: Cipher) -> Option<Sealer> {
    Sealer::new(throwaway_keys(cipher)?.into(), u64::MAX)
}

fn throwaway_keys(cipher: Cipher) -> Option<TrafficKeys> {
    TrafficKeys::tls13(cipher, Secret::new(vec![0x17; 48]), 0)
}

/// Offsets that go round and round a file.
struct Cycle {
    at: u64,
    length: u64,
}

impl Cycle {
    fn new(length: u64) -> Self {
        Self { at: 0, length }
    }

    /// Where the next `bytes` start.
    fn next(&mut self, bytes: u64) -> u64 {
        if self.at + bytes > self.length {
            self.at = 0;
        }
        let from = self.at;
        self.at += bytes;
        from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: MeasureLimits = MeasureLimits {
        rounds: 2,
        round_cpu: Duration::from_micros(200),
        patience: Duration::from_secs(20),
        source_bytes: 1024 * 1024,
        batch_bytes: 64 * 1024,
        frames_bytes: 64 * 1024,
        window_bytes: 256 * 1024,
        end_to_end: true,
    };

    #[test]
    fn every_cipher_has_a_cost_in_user_space() {
        let costs = measure(SHORT);
        for cipher in CIPHERS {
            assert!(costs.of(cipher).user_space_seal.is_some(), "{cipher:?}");
            assert!(costs.of(cipher).user_space_send.is_some(), "{cipher:?}");
        }
    }

    #[test]
    fn sealing_alone_opens_no_sockets_and_leaves_the_rest_unknown() {
        let costs = measure(MeasureLimits { end_to_end: false, ..SHORT });
        assert!(costs.aes_128_gcm.user_space_seal.is_some());
        assert_eq!(costs.aes_128_gcm.user_space_send, None);
        assert_eq!(costs.aes_128_gcm.kernel_send, None);
        assert_eq!(costs.aes_128_gcm.kernel_send_frames, None);
    }

    #[test]
    fn without_patience_or_rounds_there_is_no_cost_rather_than_a_wrong_one() {
        assert_eq!(measure(MeasureLimits { patience: Duration::ZERO, ..SHORT }), Costs::default());
        assert_eq!(measure(MeasureLimits { rounds: 0, ..SHORT }), Costs::default());
    }

    #[test]
    fn offsets_go_round_a_file_and_never_past_its_end() {
        let mut cycle = Cycle::new(100);
        let starts: Vec<u64> = (0..5).map(|_| cycle.next(40)).collect();
        assert_eq!(starts, [0, 40, 0, 40, 0]);
    }
}
