//! How the network carried a response.

use std::cell::Cell;

use penstock_config::limits;
use penstock_sys::socket::Carriage;

use crate::metrics::Carried;

/// What one connection has sent, when it was measured last.
#[derive(Debug, Default)]
pub(crate) struct CarriageMeter(Cell<(u64, u64)>);

impl CarriageMeter {
    /// How the network carried a response of `bytes` bytes. `None` for a short one: it says little, and the system would be asked
    /// as often as there are responses.
    pub(crate) fn measure(&self, bytes: u64, ask: impl FnOnce() -> Option<Carriage>) -> Option<Carried> {
        if bytes < limits::CARRIAGE_BYTES_MIN {
            return None;
        }
        let Carriage { round_trip, delivery_rate, sent, sent_again } = ask()?;
        let (sent_before, again_before) = self.0.replace((sent, sent_again));
        Some(Carried {
            delivery_rate: Some(delivery_rate).filter(|rate| *rate > 0),
            round_trip,
            // A client of QUIC may have moved to another path, which counts from zero.
            sent: (
                sent.checked_sub(sent_before).unwrap_or(sent),
                sent_again.checked_sub(again_before).unwrap_or(sent_again),
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_response_has_what_was_sent_since_the_last_one() {
        let meter = CarriageMeter::default();
        let state = |sent, sent_again| Carriage {
            round_trip: Duration::from_millis(5),
            delivery_rate: 0,
            sent,
            sent_again,
        };
        let large = limits::CARRIAGE_BYTES_MIN;
        assert_eq!(meter.measure(large - 1, || panic!("not asked for")), None);
        let first = meter.measure(large, || Some(state(100, 10))).unwrap();
        assert_eq!((first.sent, first.delivery_rate), ((100, 10), None));
        assert_eq!(meter.measure(large, || Some(state(300, 10))).unwrap().sent, (200, 0));
        assert_eq!(meter.measure(large, || Some(state(50, 1))).unwrap().sent, (50, 1), "another path");
        assert_eq!(meter.measure(large, || None), None);
    }
}
