//! What a listener does with requests before their site is known.

use penstock_config::{HttpsPort, Listener};

/// The rules of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerRules {
    /// Its name, by which sites name it.
    pub(crate) name: Option<String>,
    /// The path of health checks, which the server answers itself, whatever the host.
    pub(crate) health: Option<String>,
    /// The port of HTTPS to which all requests are redirected.
    pub(crate) redirect: Option<HttpsPort>,
}

impl ListenerRules {
    /// The rules of a configured listener; `None` if it has none.
    pub fn of(listener: &Listener) -> Option<Self> {
        let Listener { name, health, redirect, .. } = listener;
        let has_rules = name.is_some() || health.is_some() || redirect.is_some();
        has_rules.then(|| Self { name: name.clone(), health: health.clone(), redirect: *redirect })
    }
}
