//! Orders of certificates for the configuration in force.

use std::io;
use std::sync::Arc;

use penstock_acme::Acme;
use penstock_config::Config;

use crate::settings::StartError;
use crate::tls::TlsState;

/// Makes the storage of ordered certificates.
pub(super) fn open_storage(config: &Config) -> Result<(), StartError> {
    let storage = config.tls.acme.as_ref().map(penstock_acme::Storage::open);
    storage.transpose().map(drop).map_err(StartError::Storage)
}

/// Orders the certificates of a configuration: by the thread that is `running`, if it has these settings.
pub(super) fn order_certificates(
    config: &Config,
    running: Option<Acme>,
    tls_state: &TlsState,
) -> io::Result<Option<Acme>> {
    let Some(settings) = config.tls.acme.as_ref().filter(|settings| !settings.names.is_empty()) else {
        tls_state.orders.reset(&[]);
        return Ok(None);
    };
    match running {
        Some(running) if running.is_for(settings) => Ok(Some(running)),
        _ => {
            let shared = tls_state.fleet.as_ref().map(|fleet| fleet.files());
            Acme::start(settings.clone(), Arc::clone(&tls_state.orders), shared).map(Some)
        }
    }
}
