//! Units of bytes.

/// One KiB in bytes.
pub const KIB: u64 = 1024;
/// One MiB in bytes.
pub const MIB: u64 = 1024 * KIB;
/// One GiB in bytes.
pub const GIB: u64 = 1024 * MIB;
