//! The fleet that the server belongs to, as its configuration says.
mod membership;

pub(crate) use membership::Membership;
pub use membership::locate;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use penstock_config::{Config, StorePlace, limits};
use penstock_fleet::{
    AnswerLimits, Fleet, FleetLimits, FleetOptions, FleetView, Intervals, PurgeStreamLimits, StoreAddress,
    StoreFacts, StoreLogin,
};
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
        limits: LIMITS,
    }))
}

const LIMITS: FleetLimits = FleetLimits {
    patience: Duration::from_millis(limits::FLEET_PATIENCE_MILLISECONDS),
    operations: limits::FLEET_OPERATIONS,
    failures: limits::FLEET_FAILURES,
    probes: limits::FLEET_PROBES,
    answers: AnswerLimits { bytes: limits::FLEET_ANSWER_BYTES, lines: limits::FLEET_ANSWER_LINES },
    session_bytes: limits::FLEET_SESSION_BYTES,
    sessions_percent: limits::FLEET_SESSIONS_PERCENT,
    session_lifetime: Duration::from_secs(limits::SESSION_LIFETIME_SECONDS as u64),
    sessions_queued: limits::FLEET_SESSIONS_QUEUED,
    sessions_batch: limits::FLEET_SESSIONS_BATCH,
    state_file_bytes: limits::FLEET_STATE_FILE_BYTES,
    lock: Duration::from_millis(limits::FLEET_LOCK_MILLISECONDS),
    presence: Duration::from_secs(limits::FLEET_PRESENCE_SECONDS),
    forgotten: Duration::from_secs(limits::FLEET_FORGOTTEN_SECONDS),
    edges: limits::FLEET_EDGES,
    purges: PurgeStreamLimits {
        entries: limits::FLEET_PURGES,
        batch: limits::FLEET_PURGES_BATCH,
        purge_bytes: limits::FLEET_PURGE_BYTES,
        own: limits::FLEET_OWN_PURGES,
        own_seconds: limits::FLEET_OWN_PURGES_SECONDS,
    },
    intervals: Intervals {
        purges: Duration::from_millis(limits::FLEET_POLL_MILLISECONDS),
        renewal: Duration::from_millis(limits::FLEET_RENEWAL_MILLISECONDS),
        connect: Duration::from_millis(limits::FLEET_CONNECT_MILLISECONDS),
        retry_min: Duration::from_millis(limits::FLEET_RETRY_MILLISECONDS),
        retry_max: Duration::from_millis(limits::FLEET_RETRY_MILLISECONDS_MAX),
    },
};
