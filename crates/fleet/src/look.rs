//! A look at a fleet from outside, without joining it.

use std::time::{Duration, SystemTime};

use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::connect::connect;
use crate::duty::{CONNECT, FleetDuties};
use crate::edges::EdgeStatus;
use crate::fleet::{FleetOptions, parts};
use crate::ticket_keys::{FleetKeyUse, seconds};

/// A session ticket key of a fleet. The key itself is not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetKeyStatus {
    /// Its name, which is the first part of each of its tickets.
    pub name: String,
    /// How it is used now.
    pub use_of: FleetKeyUse,
    /// Seconds until it seals; negative if it does or did already.
    pub seals_in_seconds: i64,
}

/// What the store says about a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetView {
    /// Session ticket keys, the newest first.
    pub keys: Vec<FleetKeyStatus>,
    /// All edges by name.
    pub edges: Vec<EdgeStatus>,
}

/// Asks the store for the keys and edges of a fleet. Blocks.
///
/// # Errors
/// Why the store could not be asked.
pub fn look(options: &FleetOptions) -> Result<FleetView, String> {
    visit(options, async |parts| {
        let keys = parts.tickets.stored().await.ok_or("it does not answer")?;
        let edges = parts.edges.read().await.map_err(|_| "it does not answer")?;
        let now = seconds(SystemTime::now());
        let keys = keys.uses(now).map(|(key, use_of)| FleetKeyStatus {
            name: key.shown(),
            use_of,
            seals_in_seconds: key.seals_from.cast_signed().saturating_sub(now.cast_signed()),
        });
        Ok(FleetView { keys: keys.collect(), edges })
    })
}

/// Connects with the store of a fleet, and asks it something.
pub(crate) fn visit<T>(
    options: &FleetOptions,
    ask: impl AsyncFnOnce(&FleetDuties) -> Result<T, String>,
) -> Result<T, String> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let view = runtime.block_on(async {
        let (parts, ..) = parts(options).map_err(|error| error.to_string())?;
        let connecting = connect(&options.address, &options.login, &parts.link.meter);
        let connected = timeout(CONNECT, connecting).await;
        let (connection, driver) = connected.map_err(|_| "it does not answer".to_owned())??;
        parts.link.connected(connection);
        tokio::select! {
            view = ask(&parts) => view,
            () = driver => Err("the connection broke".to_owned()),
        }
    });
    runtime.shutdown_timeout(Duration::ZERO);
    view
}
