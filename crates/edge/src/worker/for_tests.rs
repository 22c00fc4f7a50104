//! A worker without a thread or listeners, for unit tests.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use penstock_config::Config;
use penstock_tls::tickets::TicketKeyring;

use super::{AllWorkers, Collector, Worker};
use crate::metrics::Metrics;
use crate::settings::{Before, Settings};
use crate::tls::{KtlsSupport, TlsState};

/// The only worker of a server with this configuration, and the counters of that server.
pub(crate) fn worker_for_tests(config: &Config) -> (Rc<Worker>, Arc<Metrics>) {
    let metrics = Metrics::new(1);
    let tls_state = TlsState::begin(Instant::now(), None);
    let collector = Collector::new(Arc::clone(&metrics), &tls_state);
    let policy = config.tls.tickets.policy;
    let ring = TicketKeyring::new(policy, &[], Instant::now(), SystemTime::now()).unwrap();
    let kernel = KtlsSupport::default().plan(config).unwrap();
    let chacha20 = collector.chacha20().switch();
    let settings =
        Settings::prepare(config, Before::Nothing, &Arc::new(ring), &tls_state, None, kernel, chacha20);
    let common = AllWorkers::new(config, &tls_state, &collector).unwrap();
    let worker = Worker::new(0, metrics.shard(0), Arc::new(settings.unwrap()), &common);
    (Rc::new(worker), metrics)
}
