//! Connection ids (RFC 9000 §5.1).

/// Bytes of the connection ids that this server chooses.
pub const CONNECTION_ID_BYTES: usize = 16;

/// The longest id of QUIC version 1.
const BYTES_MAX: usize = 20;

/// A connection id: one that this server chose, or that a client chose for its first packets.
///
/// An id of this server is random, but for one thing: its first two bytes, as a number in network order, leave the number of
/// its worker when they are divided by the number of workers. Who sees several ids cannot tell which belong together, beyond
/// the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    length: u8,
    bytes: [u8; BYTES_MAX],
}

impl ConnectionId {
    /// An id of other bytes; `None` for more than 20.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut id = Self { length: u8::try_from(bytes.len()).ok()?, bytes: [0; BYTES_MAX] };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(id)
    }

    /// A new id of worker `worker` among `workers`.
    pub fn random(worker: u16, workers: u16) -> Self {
        let mut bytes = [0; CONNECTION_ID_BYTES];
        fill_random(&mut bytes);
        let workers = workers.max(1);
        let drawn = u16::from_be_bytes([bytes[0], bytes[1]]);
        // The last numbers have no whole set of workers behind them.
        let base = drawn - drawn % workers;
        let number = base.checked_add(worker % workers).unwrap_or(worker % workers);
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        Self::new(&bytes).unwrap_or(Self { length: 0, bytes: [0; BYTES_MAX] })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The worker among `workers` that packets with this id reach.
    pub fn worker(&self, workers: u16) -> u16 {
        u16::from_be_bytes([self.bytes[0], self.bytes[1]]) % workers.max(1)
    }

    pub(crate) fn quic(&self) -> quiche::ConnectionId<'_> {
        quiche::ConnectionId::from_ref(self.as_bytes())
    }
}

/// Fills `bytes` with random bytes.
pub(crate) fn fill_random(bytes: &mut [u8]) {
    // BoringSSL ends the process rather than fail here.
    drop(boring::rand::rand_bytes(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_worker_and_nothing_else_repeats() {
        for workers in [1, 2, 3, 7, 64, 300, 65_535] {
            for worker in [0, 1, workers / 2, workers - 1] {
                let worker = worker.min(workers - 1);
                let ids = [(); 8].map(|()| ConnectionId::random(worker, workers));
                assert!(ids.iter().all(|id| id.worker(workers) == worker), "{worker} of {workers}");
                assert!(ids.iter().all(|id| id.as_bytes().len() == CONNECTION_ID_BYTES));
                assert!(ids.windows(2).all(|two| two[0] != two[1]));
            }
        }
    }

    #[test]
    fn ids_of_clients_have_up_to_twenty_bytes() {
        for length in 0..=20 {
            let bytes = vec![7; length];
            assert_eq!(ConnectionId::new(&bytes).unwrap().as_bytes(), bytes);
        }
        assert_eq!(ConnectionId::new(&[7; 21]), None);
        assert_ne!(ConnectionId::new(&[0; 8]), ConnectionId::new(&[0; 9]));
    }
}
