//! `penstock cache ls`, `stat` and `verify`: what an operator sees of the tiers while a server uses them.

use std::fs;
use std::process::{Command, Output};

use penstock_testkit::{Client, Content};
use serde_json::Value;

use super::disk::{Tiered, film};

fn run(tiered: &Tiered, arguments: &[&str]) -> Output {
    let config = tiered.server.directory().join("penstock.yaml");
    let mut command = Command::new(penstock_testkit::program());
    command.arg("cache").arg(arguments[0]).arg("-c").arg(config).args(&arguments[1..]);
    command.output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn an_operator_sees_what_is_where_and_what_is_damaged() {
    let body = Content::new(61, 200_000);
    let origin = film(&body);
    let tiered = Tiered::of(&origin);
    tiered.have_on_disk("/film.mp4", &body);
    let mut client = Client::plain(&tiered.server);
    client.get_range("/once.mp4", 0, 9);

    let stat = json(&run(&tiered, &["stat", "--json"]));
    let (memory, disk) = (&stat["tiers"][0], &stat["tiers"][1]);
    assert_eq!((&memory["tier"], &disk["tier"]), (&"memory".into(), &"disk".into()));
    assert_eq!((disk["slices"].as_u64(), disk["objects"].as_u64()), (Some(4), Some(1)), "{stat}");
    assert_eq!(disk["slice_bytes"].as_u64(), Some(200_000));
    assert_eq!(memory["objects"].as_u64(), Some(2), "{stat}");

    let list = run(&tiered, &["ls"]);
    let text = String::from_utf8(list.stdout).unwrap();
    let line = text.lines().find(|line| line.ends_with("/film.mp4")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.starts_with("200 ") && line.contains("195 KiB") && line.contains("100 %"), "{line}");
    let once = json(&run(&tiered, &["ls", "--json", "--url", "/once"]));
    assert_eq!(
        (once["of"].as_u64(), once["objects"][0]["disk_bytes"].as_u64()),
        (Some(1), Some(0)),
        "{once}"
    );
    assert_eq!(once["objects"][0]["etag"], "\"v1\"");

    let verified = run(&tiered, &["verify"]);
    assert!(verified.status.success(), "{verified:?}");
    let segment = tiered.segments().into_iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    bytes[5000] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let damaged = run(&tiered, &["verify", "--json"]);
    assert_eq!(damaged.status.code(), Some(1), "{damaged:?}");
    assert_eq!(json(&damaged)["tiers"][1]["damaged"].as_u64(), Some(1));
    let complaint = String::from_utf8(damaged.stderr).unwrap();
    assert!(complaint.contains("1 damaged"), "{complaint}");
}

#[test]
fn a_tier_that_is_not_there_is_named() {
    let body = Content::new(62, 1000);
    let origin = film(&body);
    let tiered = Tiered::of(&origin);
    tiered.server.expect_warning("is out of service until the next start");
    fs::remove_dir_all(tiered.disk.path()).unwrap();
    let stat = run(&tiered, &["stat"]);
    assert!(stat.status.success());
    let complaint = String::from_utf8(stat.stderr).unwrap();
    assert!(complaint.contains(&tiered.disk.path().display().to_string()), "{complaint}");
    assert_eq!(run(&tiered, &["verify"]).status.code(), Some(1));
    tiered.server.wait_for_log("out of service");
}
