//! Optional features of the kernel that seals.

/// Optional features of this machine's kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelAbilities {
    /// It can change keys on a connection (Linux 6.14).
    pub rekey: bool,
    /// A network card seals, and may read the pages of files that never change while they are sent.
    pub zerocopy: bool,
}
