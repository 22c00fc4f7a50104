//! Commands that ask the store: `check`, `doctor`, `tickets list --fleet`, `cache purge --fleet`.

use penstock_testkit::{Finished, Server, Setup, Tool};
use serde_json::Value;

use super::{Fleet, serving};

fn penstock(words: &[&str], server: &Server) -> Finished {
    Tool::penstock().args(words).arg("-c").arg(server.directory().join("penstock.yaml")).run()
}

/// The finding of this name: its verdict and value.
fn finding(server: &Server, name: &str) -> (String, String) {
    let report = penstock(&["doctor", "--quick", "--json"], server).ok();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(found["section"], "fleet");
    let text = |key: &str| found[key].as_str().unwrap().to_owned();
    (text("verdict"), text("value"))
}

#[test]
fn check_and_doctor_say_whether_the_store_fits() {
    let Some(mut fleet) = Fleet::start() else { return };
    let server = fleet.edge("a", "early_data: {register: valkey}");
    server.expect_warning("fleet: the store drops entries when its memory is full");
    for (policy, verdict) in [("noeviction", "ok"), ("allkeys-lru", "better")] {
        for (key, value) in [("maxmemory", "1000000000"), ("maxmemory-policy", policy)] {
            assert_eq!(fleet.store.command(&["CONFIG", "SET", key, value]), "OK\n");
        }
        let found = finding(&server, "fleet_memory");
        assert_eq!(found, (verdict.to_owned(), format!("1000000000 bytes, then {policy}")));
        let said = penstock(&["check"], &server).ok().stderr;
        assert_eq!(
            said.contains("the register of early data must forget nothing"),
            verdict == "better",
            "{said}"
        );
    }
    server.wait_for_log("fleet: the store drops entries when its memory is full");
    assert_eq!(finding(&server, "fleet_store"), ("ok".to_owned(), "answers".to_owned()));
    assert_eq!(finding(&server, "fleet_clock").0, "ok");
    fleet.store.kill();
    assert!(finding(&server, "fleet_store").1.starts_with("cannot be used: "));
    let said = penstock(&["check"], &server).ok().stderr;
    assert!(said.contains("fleet: store: cannot be used: "), "{said}");
    server.tolerate_warning("fleet: the store cannot be used");
}

#[test]
fn commands_for_a_fleet_say_what_is_missing() {
    let Some(mut fleet) = Fleet::start() else { return };
    let lone = Setup::new().start();
    for words in [&["tickets", "list", "--fleet"][..], &["cache", "purge", "--everything", "--fleet"]] {
        let said = penstock(words, &lone).exits_with(2).stderr;
        assert!(said.contains("fleet"), "{said}");
    }
    let alone = Tool::penstock().args(["tickets", "list", "--fleet"]).run().exits_with(2).stderr;
    assert!(alone.contains("--config <FILE>"), "{alone}");
    let server = fleet.edge("a", "");
    let both = penstock(&["tickets", "list", "keys", "--fleet"], &server).exits_with(2).stderr;
    assert!(both.contains("cannot be used with"), "{both}");
    let none = penstock(&["tickets", "list", "--fleet"], &server).ok().text();
    assert!(
        none.starts_with("there is no ticket key in the store") && none.contains("edge a: present"),
        "{none}"
    );
    fleet.store.kill();
    server.tolerate_warning("fleet: the store cannot be used");
    let away = penstock(&["tickets", "list", "--fleet"], &server).exits_with(1).stderr;
    assert!(away.contains("ask the store of the fleet"), "{away}");
    let away = penstock(&["cache", "purge", "--everything", "--fleet"], &server).exits_with(1).stderr;
    assert!(away.contains("the store does not answer"), "{away}");
}

#[test]
fn a_reload_says_which_changes_of_the_fleet_need_a_restart() {
    let Some(fleet) = Fleet::start() else { return };
    let server = serving(&fleet.setup("a", ""));
    server.expect_warning("fleet: a change of ");
    let keys = format!("valkey: \"redis://{}/1\", deadline: 30ms", fleet.store.address());
    server.reload(&fleet.setup_with(&keys, "a", ""));
    server.wait_for_log("fleet: a change of valkey, deadline takes effect with a restart only");
}
