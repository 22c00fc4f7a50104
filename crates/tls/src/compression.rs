//! Compressed certificates (RFC 8879): each message is compressed once and kept.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, RwLock};

use penstock_metrics::CertificateCompression;
use penstock_sys::lock::Unpoisoned;
use penstock_sys::ssl;

/// Algorithms that compress Certificate messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Brotli: what Chromium and Safari offer.
    Brotli,
    /// Zstandard.
    Zstd,
    /// zlib: offered by nearly every client with certificate compression.
    Zlib,
}

impl Compression {
    /// All algorithms, the tightest first.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Zlib];

    /// The word used in the configuration, logs and metrics.
    pub fn label(self) -> &'static str {
        self.counted().label()
    }

    pub(crate) fn counted(self) -> CertificateCompression {
        match self {
            Self::Brotli => CertificateCompression::Brotli,
            Self::Zstd => CertificateCompression::Zstd,
            Self::Zlib => CertificateCompression::Zlib,
        }
    }

    pub(crate) fn number(self) -> u16 {
        match self {
            Self::Brotli => ssl::BROTLI,
            Self::Zstd => ssl::ZSTD,
            Self::Zlib => ssl::ZLIB,
        }
    }

    pub(crate) fn of_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.number() == number)
    }

    fn compress(self, message: &[u8]) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Brotli => {
                let mut writer =
                    brotli::CompressorWriter::new(Vec::new(), 4096, BROTLI_QUALITY, BROTLI_WINDOW);
                writer.write_all(message)?;
                Ok(writer.into_inner())
            }
            Self::Zstd => zstd::bulk::compress(message, ZSTD_LEVEL),
            Self::Zlib => {
                let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
                writer.write_all(message)?;
                writer.finish()
            }
        }
    }
}

/// A high level, because each chain is compressed once, but not the slowest, because a worker does it.
const BROTLI_QUALITY: u32 = 9;
/// Logarithm of the window, 64 KiB: longer than any chain.
const BROTLI_WINDOW: u32 = 16;
const ZSTD_LEVEL: i32 = 19;

/// Compressed messages of all certificates. A message changes with its staple, so old ones accumulate. Above the limit in
/// bytes all are dropped; those in use are soon compressed again.
#[derive(Debug)]
pub(crate) struct CompressedMessages {
    bytes_max: usize,
    kept: RwLock<CachedMessage>,
}

type ByMessage = HashMap<Box<[u8]>, Arc<[u8]>>;

#[derive(Debug, Default)]
struct CachedMessage {
    by_message: [ByMessage; Compression::ALL.len()],
    bytes: usize,
}

impl CompressedMessages {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: RwLock::default() }
    }

    fn get(&self, compression: Compression, message: &[u8]) -> Option<Arc<[u8]>> {
        let kept = self.kept.read().unpoisoned();
        kept.by_message[compression as usize].get(message).map(Arc::clone)
    }

    fn keep(&self, compression: Compression, message: &[u8], compressed: &Arc<[u8]>) {
        let bytes = message.len() + compressed.len();
        let mut kept = self.kept.write().unpoisoned();
        if kept.bytes + bytes > self.bytes_max {
            *kept = CachedMessage::default();
        }
        if bytes <= self.bytes_max
            && kept.by_message[compression as usize].insert(message.into(), Arc::clone(compressed)).is_none()
        {
            kept.bytes += bytes;
        }
    }
}

impl ssl::CertificateCompressor for CompressedMessages {
    fn compress(&self, algorithm: u16, message: &[u8]) -> Option<Arc<[u8]>> {
        let compression = Compression::of_number(algorithm)?;
        if let Some(compressed) = self.get(compression, message) {
            return Some(compressed);
        }
        let compressed: Arc<[u8]> = compression.compress(message).ok()?.into();
        self.keep(compression, message, &compressed);
        Some(compressed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use penstock_sys::ssl::CertificateCompressor;

    use super::*;

    fn unpacked(compression: Compression, compressed: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        match compression {
            Compression::Brotli => {
                brotli::Decompressor::new(compressed, 4096).read_to_end(&mut message).unwrap();
            }
            Compression::Zstd => message = zstd::bulk::decompress(compressed, 1 << 20).unwrap(),
            Compression::Zlib => {
                flate2::read::ZlibDecoder::new(compressed).read_to_end(&mut message).unwrap();
            }
        }
        message
    }

    #[test]
    fn every_algorithm_gives_back_what_it_took_and_less_of_it() {
        let messages = CompressedMessages::new(1 << 20);
        let message = b"a chain of certificates ".repeat(100);
        for compression in Compression::ALL {
            let compressed = messages.compress(compression.number(), &message).unwrap();
            assert!(compressed.len() < message.len() / 2, "{compression:?}: {}", compressed.len());
            assert_eq!(unpacked(compression, &compressed), message);
        }
        assert_eq!(messages.compress(7, &message), None, "an unknown algorithm");
    }

    #[test]
    fn a_message_is_compressed_once_and_kept() {
        let messages = CompressedMessages::new(1 << 20);
        let first = messages.compress(ssl::BROTLI, b"one").unwrap();
        assert!(Arc::ptr_eq(&first, &messages.compress(ssl::BROTLI, b"one").unwrap()));
        let other = messages.compress(ssl::ZLIB, b"one").unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
    }

    #[test]
    fn kept_messages_are_bounded_and_a_larger_message_is_still_compressed() {
        let messages = CompressedMessages::new(1000);
        for number in 0..100_u32 {
            messages.compress(ssl::ZLIB, &number.to_be_bytes().repeat(20)).unwrap();
            assert!(messages.kept.read().unwrap().bytes <= 1000);
        }
        assert!(messages.compress(ssl::ZLIB, &[0; 5000]).is_some());
        assert_eq!(messages.get(Compression::Zlib, &[0; 5000]), None);
    }
}
