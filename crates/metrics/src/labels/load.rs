//! Labels of what the CPU does, and of what the server gives up while it is short.

use super::LabelValue;

labels! {
    /// What the server can do without while the CPU is short.
    Sacrifice {
        /// An unlimited rate of full handshakes, with `limits.handshake_rate: auto`.
        Handshakes = "handshakes",
        /// Fetching segments in advance.
        Prefetch = "prefetch",
        /// Compressing files that were not compressed before.
        Compression = "compression",
        /// ChaCha20-Poly1305 for clients that prefer it, with `tls.chacha20: auto`.
        ChaCha20 = "chacha20",
    }
}

labels! {
    /// What a worker does with its time on the CPU.
    Work {
        /// All that has no value of its own: requests, lookups, heads, the event loop.
        Rest = "rest",
        /// Handshakes: key exchange, signatures, tickets.
        Handshakes = "handshakes",
        /// Encryption of what is sent, in this process. QUIC: with the making of its packets.
        Sealing = "sealing",
        /// System calls that send, in which the kernel seals if it does.
        Sending = "sending",
        /// Requests to origins and other nodes, and what they answer on its way into the cache.
        Filling = "filling",
    }
}

labels! {
    /// Where the CPU is.
    CpuMode {
        /// In the program.
        User = "user",
        /// In the kernel: system calls.
        System = "system",
    }
}
