//! `penstock tickets`: the keys that a fleet shares.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use penstock_config::{Config, Tickets as Settings};
use penstock_edge::{FleetKeyUse, look_at_fleet};
use penstock_tls::tickets::TicketPolicy;
use penstock_tls::tickets::directory::TicketDirectory;
use penstock_tls::tickets::rotation::{self, KeyUse, Rotated};

use crate::arguments::{TicketsArgs, TicketsCommand};
use crate::failure::Failure;
use crate::terminal;

pub(crate) fn run(arguments: &TicketsArgs) -> Result<(), Failure> {
    match &arguments.command {
        TicketsCommand::Rotate(keys) => rotate(&keys.directory, keys.keep),
        TicketsCommand::List(keys) => match (&keys.directory, &keys.config) {
            (Some(directory), _) => list(directory, keys.keep),
            (None, Some(config)) => list_fleet(config),
            (None, None) => Err(Failure::Usage("write a directory, or --fleet -c FILE".to_owned())),
        },
    }
}

fn rotate(directory: &Path, keep: usize) -> Result<(), Failure> {
    let rotated = rotation::rotate(directory, keep, Settings::DIRECTORY_LIMITS, SystemTime::now());
    let Rotated { added, removed, complaints } =
        rotated.map_err(Failure::machine(format!("rotate the keys in {}", directory.display())))?;
    for complaint in &complaints {
        terminal::complain(&format!("{complaint} (warning)"));
    }
    let shown = |name: &OsStr| directory.join(name).display().to_string();
    terminal::say_well(&format!("{}: added", shown(&added)));
    for name in &removed {
        terminal::say(&format!("{}: removed", shown(name)));
    }
    Ok(())
}

fn list(directory: &Path, keep: usize) -> Result<(), Failure> {
    let listing = TicketDirectory::new(directory, Settings::DIRECTORY_LIMITS).read();
    let listing = listing.map_err(Failure::machine(format!("list {}", directory.display())))?;
    let policy = TicketPolicy { keep, ..Settings::default().policy };
    let now = SystemTime::now();
    let used = rotation::uses(&listing.files, &policy, now);
    if !used.is_empty() {
        terminal::say(&row("NAME", "AGE", "KIND", "USE", "FILE"));
    }
    for (file, key, use_of) in used {
        let name: String = key.name().iter().map(|byte| format!("{byte:02x}")).collect();
        let age = now.duration_since(file.modified).map_or_else(|_| "in the future".to_owned(), age);
        let kind = format!("AES-{}", key.bits());
        terminal::say(&row(&name, &age, &kind, word(use_of), &file.name.to_string_lossy()));
    }
    for complaint in listing.complaints(directory) {
        terminal::complain(&format!("{complaint} (warning)"));
    }
    Ok(())
}

/// The keys in the store of a fleet, and which edge has the newest.
fn list_fleet(config: &Path) -> Result<(), Failure> {
    let config = Config::load(config).map_err(Failure::Config)?;
    let view = look_at_fleet(&config)
        .map_err(|error| Failure::machine("ask the store of the fleet")(std::io::Error::other(error)))?;
    let Some(view) = view else {
        return Err(Failure::Usage("this configuration has no fleet".to_owned()));
    };
    if view.keys.is_empty() {
        terminal::say("there is no ticket key in the store: no edge has tls.tickets.valkey: true");
    } else {
        terminal::say(&format!("{:<32}  {:<10}  SEALS", "NAME", "USE"));
    }
    for key in &view.keys {
        let use_of = match key.use_of {
            FleetKeyUse::Introduced => "introduced",
            FleetKeyUse::Seals => "seals",
            FleetKeyUse::Opens => "opens",
        };
        let time = age(Duration::from_secs(key.seals_in_seconds.unsigned_abs()));
        let when = if key.seals_in_seconds > 0 { format!("in {time}") } else { format!("since {time}") };
        terminal::say(&format!("{:<32}  {use_of:<10}  {when}", key.name));
    }
    let newest = view.keys.first().map(|key| key.name.as_str());
    for edge in &view.edges {
        let keys = match edge.newest_ticket_key.as_deref() {
            None => "shares no ticket keys",
            key if key == newest => "has all keys",
            Some(_) => "lacks the newest key",
        };
        let presence = if edge.is_present { "present" } else { "away" };
        terminal::say(&format!("edge {}: {presence}, {keys}", edge.name));
    }
    Ok(())
}

fn row(name: &str, age: &str, kind: &str, use_of: &str, file: &str) -> String {
    format!("{name:<32}  {age:>8}  {kind:<7}  {use_of:<10}  {file}")
}

fn word(use_of: KeyUse) -> &'static str {
    match use_of {
        KeyUse::Introduced => "introduced",
        KeyUse::Seals => "seals",
        KeyUse::Opens => "opens",
        KeyUse::Dropped => "dropped",
    }
}

/// The age in its largest whole unit and the next, which is all that matters.
pub(crate) fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m {}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h {minutes}m"),
        (days, hours, _) => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        for (seconds, shown) in
            [(0, "0s"), (59, "59s"), (61, "1m 1s"), (3600, "1h 0m"), (43_260, "12h 1m"), (90_000, "1d 1h")]
        {
            assert_eq!(age(Duration::from_secs(seconds)), shown);
        }
    }
}
