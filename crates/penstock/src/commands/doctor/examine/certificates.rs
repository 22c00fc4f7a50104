//! Until when certificates are valid, and where their keys are.

use std::time::SystemTime;

use crate::commands::doctor::certificates::{CertificateFact, KeyPlace, ShownTo};
use crate::commands::doctor::facts::Facts;
use crate::commands::doctor::finding::{Finding, Section};

const DAY: u64 = 24 * 3600;

/// Names of a certificate that are shown.
const NAMES: usize = 3;

pub(super) fn examine(facts: &Facts, now: SystemTime) -> Vec<Finding> {
    facts.configuration.certificates.iter().map(|fact| finding(fact, now)).collect()
}

fn finding(fact: &CertificateFact, now: SystemTime) -> Finding {
    let (value, (end, late), why) = match fact {
        CertificateFact::One { shown_to, names, kind, end, late, key } => {
            let who = match shown_to {
                ShownTo::Clients => "clients refuse one that has expired; see docs/certificates.md",
                ShownTo::Nodes => "the other nodes refuse one that has expired; see docs/cluster.md",
                ShownTo::Keyservers => "keyservers refuse one that has expired; see docs/keyserver.md",
            };
            (format!("{}: {kind}, {}{}", named(names), when(*end, now), place(key)), (*end, *late), who)
        }
        CertificateFact::Directory { path, count, first, late } => {
            let (end, file) = match first {
                Some((end, file)) => {
                    (Some(*end), format!(", the first, {}, {}", file.display(), when(Some(*end), now)))
                }
                None => (None, String::new()),
            };
            (
                format!("{count} in {}{file}", path.display()),
                (end, *late),
                "clients refuse one that has expired; see docs/certificates.md",
            )
        }
    };
    let what = match fact {
        CertificateFact::One { shown_to: ShownTo::Clients, .. } => "certificate",
        CertificateFact::One { shown_to: ShownTo::Nodes, .. } => "certificate for nodes",
        CertificateFact::One { shown_to: ShownTo::Keyservers, .. } => "for keyservers",
        CertificateFact::Directory { .. } => "certificates",
    };
    Finding::ok(Section::Configuration, "certificate", what, value, why)
        .better_if(late.is_some_and(|late| late < now), "a renewed certificate", "")
        .problem_if(end.is_some_and(|end| end <= now), "a renewed certificate", "")
}

fn named(names: &[String]) -> String {
    let shown = names.iter().take(NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => "no name".to_owned(),
        1..=NAMES => shown,
        more => format!("{shown} and {} more", more - NAMES),
    }
}

fn when(end: Option<SystemTime>, now: SystemTime) -> String {
    let Some(end) = end else { return "end not known".to_owned() };
    match end.duration_since(now) {
        Ok(left) => format!("ends in {} days", left.as_secs() / DAY),
        Err(_) => "has expired".to_owned(),
    }
}

fn place(key: &KeyPlace) -> String {
    match key {
        KeyPlace::File => String::new(),
        KeyPlace::Keyservers(servers) => format!(", its key on keyserver {}", servers.join(" or ")),
        KeyPlace::Token(token) => format!(", its key in token {token}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::commands::doctor::fixtures::bare;

    #[test]
    fn certificates_are_named_with_their_ends_and_the_places_of_their_keys() {
        let now = SystemTime::now();
        let days = |days: u64| Some(now + Duration::from_secs(days * DAY + 60));
        let late = |end: Option<SystemTime>| end.map(|end| end - Duration::from_secs(14 * DAY));
        let one = |names: &[&str], end, key, shown_to| CertificateFact::One {
            shown_to,
            names: names.iter().map(ToString::to_string).collect(),
            kind: "ecdsa",
            end,
            late: late(end),
            key,
        };
        let servers = KeyPlace::Keyservers(vec!["a.example:2407".to_owned(), "b.example:2407".to_owned()]);
        let mut facts = bare();
        facts.configuration.certificates = vec![
            one(&["a.example", "*.a.example"], days(40), KeyPlace::File, ShownTo::Clients),
            one(&["a", "b", "c", "d", "e"], days(3), servers, ShownTo::Clients),
            one(&[], Some(now - Duration::from_secs(60)), KeyPlace::Token("edge".to_owned()), ShownTo::Nodes),
            CertificateFact::Directory {
                path: "/certificates".into(),
                count: 2,
                first: days(5).map(|end| (end, "/certificates/a.crt".into())),
                late: late(days(5)),
            },
            CertificateFact::Directory {
                path: "/acme".into(),
                count: 1,
                first: days(5).map(|end| (end, "/acme/a.pem".into())),
                late: days(4),
            },
            CertificateFact::Directory { path: "/empty".into(), count: 0, first: None, late: None },
        ];
        let found = examine(&facts, now);
        let values: Vec<_> = found.iter().map(|one| (one.value.as_str(), one.rating.label())).collect();
        assert_eq!(
            values,
            [
                ("a.example, *.a.example: ecdsa, ends in 40 days", "ok"),
                (
                    "a, b, c and 2 more: ecdsa, ends in 3 days, its key on keyserver a.example:2407 or b.example:2407",
                    "better"
                ),
                ("no name: ecdsa, has expired, its key in token edge", "problem"),
                ("2 in /certificates, the first, /certificates/a.crt, ends in 5 days", "better"),
                ("1 in /acme, the first, /acme/a.pem, ends in 5 days", "ok"),
                ("0 in /empty", "ok"),
            ]
        );
        assert_eq!(found[2].what, "certificate for nodes");
    }
}
