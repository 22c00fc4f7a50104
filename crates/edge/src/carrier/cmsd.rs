//! What players are told of their connection: Common Media Server Data (CTA-5006).

use std::fmt::Write as _;
use std::time::Duration;

use penstock_config::limits;
use penstock_content::{RouteNumber, SiteNumber};
use penstock_http::Fields;
use penstock_sys::socket::Carriage;

use crate::settings::Settings;

const NAME: &str = "CMSD-Dynamic";

/// Adds what the network says of the connection, if the site tells it.
pub(crate) fn tell_path(
    fields: &mut Fields,
    settings: &Settings,
    (site, route): (Option<SiteNumber>, Option<RouteNumber>),
    ask: impl FnOnce() -> Option<Carriage>,
) {
    if site.is_some_and(|site| settings.sites.tells_path(site, route))
        && let Some(carriage) = ask()
    {
        fields.field(NAME, told(&carriage));
    }
}

/// The round-trip time in milliseconds, and the throughput in kbit/s once enough was sent to have measured it.
fn told(carriage: &Carriage) -> String {
    let Carriage { round_trip, delivery_rate, sent, .. } = *carriage;
    let mut told = "\"penstock\"".to_owned();
    if delivery_rate > 0 && sent >= limits::CMSD_BYTES_MIN {
        let _infallible = write!(told, ";etp={}", delivery_rate.saturating_mul(8) / 1000);
    }
    let rounded = (round_trip + Duration::from_micros(500)).as_millis();
    let _infallible = write!(told, ";rtt={rounded}");
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_in_kilobits_once_it_was_measured_and_times_are_rounded() {
        let carriage = |round_trip, delivery_rate, sent| Carriage {
            round_trip: Duration::from_micros(round_trip),
            delivery_rate,
            sent,
            sent_again: 0,
        };
        let enough = limits::CMSD_BYTES_MIN;
        for (measured, expected) in [
            (carriage(20_499, 1_250_000, enough), "\"penstock\";etp=10000;rtt=20"),
            (carriage(20_500, 1_250_000, enough - 1), "\"penstock\";rtt=21"),
            (carriage(80, 0, enough), "\"penstock\";rtt=0"),
        ] {
            assert_eq!(told(&measured), expected);
        }
    }
}
