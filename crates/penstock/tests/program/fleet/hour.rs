//! The commands of `docs/fleet-in-an-hour.md`, as they stand there, on five machines that are namespaces.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use penstock_testkit::{Tool, not_tested};
use rcgen::generate_simple_self_signed;
use rustix::process::geteuid;

const PAGE: &str = include_str!("../../../../../docs/fleet-in-an-hour.md");
const MACHINES: &str = include_str!("machines.sh");
const UNIT: &str = include_str!("../../../../../packaging/penstock.service");

/// Longer than all steps take on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(280);

/// All blocks of shell commands, in their order.
fn commands() -> String {
    let blocks = PAGE.split("```sh\n").skip(1);
    blocks.map(|rest| rest.split("```").next().expect("the end of a block")).collect()
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).exists())
}

/// What the page has in the directory of its reader.
fn prepare(directory: &Path) {
    symlink(penstock_testkit::program(), directory.join("penstock")).unwrap();
    fs::write(directory.join("penstock.service"), UNIT).unwrap();
    let made = generate_simple_self_signed(vec!["video.example.com".to_owned()]).unwrap();
    fs::write(directory.join("video.pem"), made.cert.pem()).unwrap();
    fs::write(directory.join("video.key"), made.signing_key.serialize_pem()).unwrap();
}

#[test]
fn five_bare_machines_become_a_fleet_by_the_commands_of_the_page() {
    let missing =
        ["redis-server", "promtool", "nsenter", "ip", "useradd"].map(|one| (one, is_installed(one)));
    if let Some((program, _)) = missing.iter().find(|(_, installed)| !installed) {
        not_tested(&format!("a fleet in an hour; {program} is not installed"));
        return;
    }
    if !geteuid().is_root() {
        not_tested("a fleet in an hour; namespaces need root");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let work = directory.path().join("work");
    fs::create_dir(&work).unwrap();
    prepare(&work);
    let page = format!("set -euo pipefail\n{}\n{AFTERWARDS}", commands());
    fs::write(directory.path().join("page.sh"), page).unwrap();
    fs::write(directory.path().join("machines.sh"), MACHINES).unwrap();
    let done = Tool::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "machines.sh"])
        .directory(directory.path())
        .time_limit(TIME_LIMIT)
        .run();
    let said = done.text();
    assert_eq!(done.code, 0, "{said}\n{}", done.stderr);
    let count = |part: &str| said.lines().filter(|line| line.contains(part)).count();
    assert_eq!(count("the first film"), 10, "of five edges before the purge and behind it: {said}");
    let requests = said.lines().find_map(|line| line.strip_prefix("requests for the film: "));
    // One before the purge and one behind it; on a busy machine a node may take another for hanging.
    assert!((2..=4).contains(&requests.unwrap().parse::<u32>().unwrap()), "{said}");
    assert_eq!(count("Reused, TLSv1.2"), 1, "{said}");
    assert!(said.contains("applied by 5 of 5 edges"), "{said}");
    assert_eq!(count("replaced edge"), 5, "{said}");
    assert_eq!(count("ok from edge"), 5, "{said}");
    assert!(said.contains("SUCCESS"), "promtool: {said}");
}

/// What the test looks at behind the last step.
const AFTERWARDS: &str = r#"
echo "requests for the film: $(grep -c 'GET /film.txt' ../origin.log)"
for edge in $edges; do
  [ "$(ssh "root@$edge" 'systemctl show penstock')" != "$(ssh "root@$edge" 'cat /run/penstock.pid')" ] && echo "replaced $edge"
  curl --silent --fail "http://$(address_of "$edge"):9600/metrics" > metrics.txt
  for name in penstock_fleet_up penstock_fleet_circuit_open penstock_fleet_edges_with_other_secret penstock_cluster_peer_up \
    penstock_certificate_expiry_timestamp_seconds penstock_build_info; do
    grep -q "^$name" metrics.txt || { echo "no metric $name"; exit 1; }
  done
  ask "$edge" /film.txt >/dev/null && echo "ok from $edge"
done
"#;
