//! The fleet that the server belongs to, as its configuration says.
mod membership;

pub(crate) use membership::Membership;
pub use membership::locate;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use penstock_config::{Config, StorePlace, limits};
use penstock_fleet::{Fleet, FleetOptions, FleetView, RevokedLimits, StoreAddress, StoreFacts, StoreLogin};
use penstock_tls::Outbound;

/// How long a start waits for the store.
pub(crate) const START: Duration = Duration::from_millis(limits::FLEET_START_MILLISECONDS);

/// Joins the fleet of the configuration, if it has one.
///
/// # Errors
/// When the system has no randomness or no space for a thread.
pub(crate) fn join(config: &Config) -> io::Result<Option<Arc<Fleet>>> {
    let Some(options) = options(config)? else { return Ok(None) };
    let fleet = Arc::new(Fleet::start(options)?);
    if config.tls.tickets.shared {
        fleet.wait_for_tickets(START);
    }
    Ok(Some(fleet))
}

/// What the store says about the fleet of a configuration; `None` if the configuration has none. Blocks.
///
/// # Errors
/// Why the store could not be asked.
pub fn look_at_fleet(config: &Config) -> Result<Option<FleetView>, String> {
    let options = options(config).map_err(|error| error.to_string())?;
    options.map(|options| penstock_fleet::look(&options)).transpose()
}

/// What the store of a configuration says about itself; `None` if the configuration has no fleet. Blocks for some seconds at
/// most.
#[must_use]
pub fn examine_store(config: &Config) -> Option<Result<StoreFacts, String>> {
    let options = options(config).map_err(|error| error.to_string()).transpose()?;
    Some(options.and_then(|options| penstock_fleet::examine(&options)))
}

fn options(config: &Config) -> io::Result<Option<FleetOptions>> {
    let Some(fleet) = &config.fleet else { return Ok(None) };
    let address = match &fleet.store.place {
        StorePlace::Unix(path) => StoreAddress::Unix(path.clone()),
        StorePlace::Tcp { host, port, authorities } => {
            let client = |authorities| Outbound::new(authorities, host, limits::FLEET_TLS_SESSIONS, None);
            let tls = authorities.as_ref().map(client).transpose().map_err(io::Error::other)?;
            StoreAddress::Tcp { host: host.clone(), port: *port, tls: tls.map(Arc::new) }
        }
    };
    Ok(Some(FleetOptions {
        address,
        login: StoreLogin {
            user: fleet.store.user.clone(),
            password: fleet.store.password.clone(),
            database: fleet.store.database,
        },
        secret: fleet.secret.clone(),
        name: fleet.name.clone(),
        state: fleet.state.clone(),
        deadline: fleet.deadline,
        tickets: config.tls.tickets.shared.then_some(config.tls.tickets.policy),
        session_lifetime: Duration::from_secs(u64::from(limits::SESSION_LIFETIME_SECONDS)),
        revoked: RevokedLimits { ids: limits::FLEET_REVOKED_IDS, kept: limits::TOKEN_LEEWAY_MAX },
    }))
}
