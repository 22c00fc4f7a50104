//! Orders of operators that the other edges of the fleet carry out too.

use std::time::Duration;

use penstock_content::{PurgeFailure, PurgeOrder, Purged};
use penstock_fleet::FleetReport;

use crate::background::Reach;
use crate::server::Server;

impl Server {
    /// Purges what is cached, also by the other nodes of the cluster and the other edges of the fleet. Blocks until that is
    /// written down here, nodes have confirmed it or had time to, and edges that are present have applied it or
    /// `patience` has passed. The report is `None` without a fleet.
    ///
    /// # Errors
    /// See [`PurgeFailure`]; a purge that is not valid is not passed on.
    pub fn purge(
        &self,
        order: &PurgeOrder,
        patience: Duration,
    ) -> Result<(Purged, Option<FleetReport>), PurgeFailure> {
        let outcome = self.purger.purge(order, Reach::Cluster);
        if matches!(outcome, Err(PurgeFailure::Wrong(_))) {
            return outcome.map(|purged| (purged, None));
        }
        let fleet = self.tls_state.fleet.as_ref();
        let report = fleet.map(|fleet| fleet.purge(order, patience));
        outcome.map(|purged| (purged, report))
    }

    /// Refuses the tokens with these ids here and on the other edges of the fleet, until `end` in seconds since 1970. Blocks until
    /// that is written down here, and edges that are present have applied it or `patience` has passed. `None` without a fleet.
    pub fn revoke(&self, ids: &[String], end: u64, patience: Duration) -> Option<FleetReport> {
        self.tls_state.fleet.as_ref().map(|fleet| fleet.revoke(ids, end, patience))
    }
}
