//! Purges the cache of the settings in force, for operators and for other edges of the fleet.

use std::sync::{Arc, Mutex};

use penstock_content::{PurgeFailure, PurgeOrder, Purged, purge_cluster};
use penstock_fleet::PurgeSink;
use penstock_sys::lock::Unpoisoned;

use crate::metrics::Metrics;
use crate::settings::Settings;

/// Where a purge is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// In this process.
    Here,
    /// Also by the other nodes of its cluster.
    Cluster,
}

/// Purges for all workers.
pub(crate) struct Purger {
    settings: Mutex<Arc<Settings>>,
    metrics: Arc<Metrics>,
}

impl Purger {
    pub(crate) fn new(settings: &Arc<Settings>, metrics: &Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { settings: Mutex::new(Arc::clone(settings)), metrics: Arc::clone(metrics) })
    }

    /// Purges by other settings from now on.
    pub(crate) fn change(&self, settings: &Arc<Settings>) {
        *self.settings.lock().unpoisoned() = Arc::clone(settings);
    }

    /// Purges what is cached. Blocks until that is written down, and nodes have confirmed it or had time to.
    ///
    /// # Errors
    /// See [`PurgeFailure`].
    pub(crate) fn purge(&self, order: &PurgeOrder, reach: Reach) -> Result<Purged, PurgeFailure> {
        let settings = Arc::clone(&self.settings.lock().unpoisoned());
        let Some(store) = &settings.store else { return Ok(Purged { objects: 0, cluster: None }) };
        let outcome = match (&settings.cluster, reach) {
            (Some(cluster), Reach::Cluster) => purge_cluster(store, order, &settings.sites, &cluster.peers),
            (None, Reach::Cluster) | (_, Reach::Here) => store.purge(order, &settings.sites),
        };
        self.metrics.purged(order.target.kind(), outcome.as_ref().map_or(0, |purged| purged.objects));
        outcome
    }
}

impl PurgeSink for Purger {
    fn apply(&self, order: &PurgeOrder) {
        match self.purge(order, Reach::Here) {
            Ok(_) => {}
            // A site that only the other edge has.
            Err(PurgeFailure::Wrong(why)) => tracing::debug!("fleet: a purge concerns nothing here: {why}"),
            Err(failure) => tracing::error!("fleet: {failure}"),
        }
    }
}
