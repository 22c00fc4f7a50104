//! Whether keyservers and hardware modules sign.

use std::time::{Duration, SystemTime};

use penstock_config::limits;
use penstock_edge::RemoteKeyCheck;

use crate::commands::doctor::facts::Facts;
use crate::commands::doctor::finding::{Finding, Section};

const DAY: Duration = Duration::from_secs(24 * 3600);

pub(super) fn examine(facts: &Facts, now: SystemTime) -> Vec<Finding> {
    facts.configuration.remote_keys.iter().map(|check| finding(check, now)).collect()
}

fn finding(check: &RemoteKeyCheck, now: SystemTime) -> Finding {
    let left = check.certificate_end.map(|end| end.duration_since(now).unwrap_or_default());
    let value = match &check.signed {
        Ok(time) => format!("signs in {:.1} ms", time.as_secs_f64() * 1000.0),
        Err(why) => why.clone(),
    };
    let value = match left {
        Some(left) => format!("{value}; its certificate ends in {} days", left.as_secs() / DAY.as_secs()),
        None => value,
    };
    let why =
        format!("handshakes with the certificate of {} need it; see docs/keyserver.md", check.certificate);
    let soon = left.is_some_and(|left| left < limits::CERTIFICATE_WARNING);
    Finding::ok(Section::Configuration, "private_key", check.signer.clone(), value, why)
        .better_if(soon, "a renewed certificate", "")
        .problem_if(check.signed.is_err(), "a signature", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::Rating;
    use crate::commands::doctor::fixtures::bare;

    #[test]
    fn a_key_elsewhere_that_signs_is_fine_until_its_keyserver_is_to_be_renewed() {
        let now = SystemTime::now();
        let check = RemoteKeyCheck {
            signer: "keyserver 192.0.2.1:2407".to_owned(),
            certificate: "video.example.com".to_owned(),
            signed: Ok(Duration::from_micros(420)),
            certificate_end: Some(now + 100 * DAY),
        };
        let mut facts = bare();
        facts.configuration.remote_keys = vec![
            check.clone(),
            RemoteKeyCheck { certificate_end: Some(now + 2 * DAY), ..check.clone() },
            RemoteKeyCheck { certificate_end: None, signed: Err("no answer in time".to_owned()), ..check },
        ];
        let found = examine(&facts, now);
        let values: Vec<_> = found.iter().map(|one| one.value.as_str()).collect();
        assert_eq!(
            values,
            [
                "signs in 0.4 ms; its certificate ends in 100 days",
                "signs in 0.4 ms; its certificate ends in 2 days",
                "no answer in time"
            ]
        );
        let ratings: Vec<_> = found.iter().map(|one| one.rating.label()).collect();
        assert_eq!(ratings, ["ok", "better", "problem"]);
        assert_eq!(found[2].rating, Rating::Problem("a signature".to_owned()));
        assert!(found[0].why.contains("video.example.com"));
    }
}
