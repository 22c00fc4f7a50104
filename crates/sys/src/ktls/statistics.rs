//! The kernel's counters of its TLS connections: `/proc/net/tls_stat`.

use std::io;

/// Counters of this network namespace since it began, for all programs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Connections that the CPU seals now (`TlsCurrTxSw`).
    pub open_software: u64,
    /// Connections that a network card seals now (`TlsCurrTxDevice`).
    pub open_device: u64,
    /// Connections that the CPU was to seal (`TlsTxSw`).
    pub opened_software: u64,
    /// Connections that a network card was to seal (`TlsTxDevice`).
    pub opened_device: u64,
    /// Received records that could not be opened (`TlsDecryptError`).
    pub decrypt_errors: u64,
    /// Key changes for sending that worked (`TlsTxRekeyOk`, Linux 6.14).
    pub rekeys: u64,
    /// Key changes for sending that failed (`TlsTxRekeyError`, Linux 6.14).
    pub rekey_errors: u64,
}

/// Reads the counters.
///
/// # Errors
/// `NotFound` while the `tls` module is not loaded, or what else the system said.
pub fn statistics() -> io::Result<Statistics> {
    std::fs::read_to_string("/proc/net/tls_stat").map(|text| parse(&text))
}

/// Lines of `Name  number`; what is unknown is passed over, what is missing stays 0.
fn parse(text: &str) -> Statistics {
    let mut statistics = Statistics::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(Ok(value))) = (words.next(), words.next().map(str::parse)) else { continue };
        let counter = match name {
            "TlsCurrTxSw" => &mut statistics.open_software,
            "TlsCurrTxDevice" => &mut statistics.open_device,
            "TlsTxSw" => &mut statistics.opened_software,
            "TlsTxDevice" => &mut statistics.opened_device,
            "TlsDecryptError" => &mut statistics.decrypt_errors,
            "TlsTxRekeyOk" => &mut statistics.rekeys,
            "TlsTxRekeyError" => &mut statistics.rekey_errors,
            _ => continue,
        };
        *counter = value;
    }
    statistics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_a_6_1_kernel_are_read() {
        let text = "TlsCurrTxSw                     \t3\nTlsCurrRxSw                     \t0\n\
                    TlsCurrTxDevice                 \t1\nTlsTxSw                         \t12\n\
                    TlsTxDevice                     \t2\nTlsDecryptError                 \t4\n";
        let expected = Statistics {
            open_software: 3,
            open_device: 1,
            opened_software: 12,
            opened_device: 2,
            decrypt_errors: 4,
            ..Statistics::default()
        };
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn unknown_lines_are_ignored() {
        assert_eq!(
            parse("TlsNew 3 4\n\nTlsTxSw many\nTlsTxRekeyOk 5"),
            Statistics { rekeys: 5, ..Statistics::default() }
        );
    }
}
