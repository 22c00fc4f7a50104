//! The processor and the instructions that decide how fast it seals.

use super::source::Source;
use super::text;

/// The processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// The model as the kernel names it.
    pub model: Option<String>,
    /// The architecture this program was built for, such as `x86_64`.
    pub architecture: &'static str,
    /// Processors that this process may run on.
    pub available: Option<usize>,
    /// Instructions that matter for sealing, as the processor itself tells.
    pub features: Vec<CpuFeature>,
}

/// A group of instructions that matters for sealing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuFeature {
    /// AES rounds in one instruction (AES-NI; the ARMv8 cryptography extension).
    Aes,
    /// Carry-less multiplication, for GCM's checksum (PCLMULQDQ; PMULL).
    CarrylessMultiply,
    /// AES on vectors of two or four blocks.
    Vaes,
    /// Carry-less multiplication on such vectors.
    VectorCarrylessMultiply,
    /// Vectors of 256 bits.
    Avx2,
    /// Vectors of 512 bits, with what AES-GCM needs of them (F, BW, VL).
    Avx512,
    /// SHA-256 rounds, for handshakes and tickets.
    Sha,
}

impl CpuFeature {
    /// The name that people know.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes if cfg!(target_arch = "x86_64") => "AES-NI",
            Self::Aes => "AES",
            Self::CarrylessMultiply if cfg!(target_arch = "aarch64") => "PMULL",
            Self::CarrylessMultiply => "PCLMULQDQ",
            Self::Vaes => "VAES",
            Self::VectorCarrylessMultiply => "VPCLMULQDQ",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
            Self::Sha => "SHA",
        }
    }
}

impl Cpu {
    pub(super) fn read(source: &Source) -> Self {
        Self {
            model: source.text("proc/cpuinfo").as_deref().and_then(text::cpu_model),
            architecture: std::env::consts::ARCH,
            available: std::thread::available_parallelism().ok().map(Into::into),
            features: features(),
        }
    }

    /// Whether the processor has these instructions.
    #[must_use]
    pub fn has(&self, feature: CpuFeature) -> bool {
        self.features.contains(&feature)
    }
}

/// Whether the processor has the instructions without which AES-GCM is slower than ChaCha20.
#[must_use]
pub fn has_aes_hardware() -> bool {
    let features = features();
    features.contains(&CpuFeature::Aes) && features.contains(&CpuFeature::CarrylessMultiply)
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<CpuFeature> {
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl");
    present(&[
        (CpuFeature::Aes, is_x86_feature_detected!("aes")),
        (CpuFeature::CarrylessMultiply, is_x86_feature_detected!("pclmulqdq")),
        (CpuFeature::Vaes, is_x86_feature_detected!("vaes")),
        (CpuFeature::VectorCarrylessMultiply, is_x86_feature_detected!("vpclmulqdq")),
        (CpuFeature::Avx2, is_x86_feature_detected!("avx2")),
        (CpuFeature::Avx512, avx512),
        (CpuFeature::Sha, is_x86_feature_detected!("sha")),
    ])
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<CpuFeature> {
    present(&[
        (CpuFeature::Aes, std::arch::is_aarch64_feature_detected!("aes")),
        (CpuFeature::CarrylessMultiply, std::arch::is_aarch64_feature_detected!("pmull")),
        (CpuFeature::Sha, std::arch::is_aarch64_feature_detected!("sha2")),
    ])
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<CpuFeature> {
    present(&[])
}

fn present(features: &[(CpuFeature, bool)]) -> Vec<CpuFeature> {
    features.iter().filter(|(_, present)| *present).map(|(feature, _)| *feature).collect()
}
