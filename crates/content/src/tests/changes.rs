//! Changes by requests of clients, beside purges and with a clock that was set back.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use penstock_cache::Object;
use penstock_config::SiteSettings;
use tokio::time::advance;

use super::fixture::{Fixture, run};
use super::scripted::{FieldList, Reply};
use crate::nodes::{PurgeOrder, PurgeTarget};
use crate::object::ObjectMetadata;

const FRESH: FieldList<'static> = &[("cache-control", "max-age=60"), ("etag", "\"a\"")];
/// A fixed number, as Linux has it on x86-64 and on AArch64.
const O_NONBLOCK: i32 = 0o4000;

fn with_post(site: &mut SiteSettings) {
    site.methods = vec!["POST".to_owned()];
}

fn purge_of(url: &str) -> PurgeOrder {
    PurgeOrder { target: PurgeTarget::Url(url.to_owned()), soft: false }
}

fn only_object(fixture: &Fixture) -> Arc<Object<ObjectMetadata>> {
    let mut found = None;
    fixture.store.index.for_each(|object| found = Some(Arc::clone(object)));
    found.unwrap()
}

/// Adds a directory to the list of purges of a store, whose file cannot be written to: it is a pipe that is full. Returns
/// its end to read from.
fn add_full_directory(fixture: &Fixture, directory: &Path) -> File {
    let pipe = directory.join("purges");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let end = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            fs::write(&pipe, "penstock purges 1\n").unwrap();
            File::open(&pipe).unwrap()
        });
        fixture.store.purges.add_directory(directory, fixture.context.clock.wall()).unwrap();
        reader.join().unwrap()
    });
    let mut writer = OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(&pipe).unwrap();
    let full = loop {
        if let Err(error) = writer.write(&[b'x'; 4096]) {
            break error.kind();
        }
    };
    assert_eq!(full, ErrorKind::WouldBlock);
    end
}

#[test]
fn a_change_while_a_purge_is_written_does_not_exempt_objects_from_the_purge() {
    run(async {
        let fixture = Fixture::with(with_post);
        let directory = tempfile::tempdir().unwrap();
        let mut pipe = add_full_directory(&fixture, directory.path());
        fixture.origin.reply(Reply::ok(FRESH, b"old"));
        fixture.get("GET /x", "").await;
        let purge = {
            let (store, sites) = (Arc::clone(&fixture.store), Arc::clone(&fixture.sites));
            let moment = fixture.context.moment();
            thread::spawn(move || store.purge_at(&purge_of("/x"), &sites, moment).is_err())
        };
        while fixture.store.purges.complete_until(u64::MAX) == u64::MAX - 1 {
            thread::yield_now();
        }
        advance(Duration::from_secs(5)).await;
        fixture.origin.reply(Reply::new(204));
        fixture.get("POST /other", "").await;
        let hit = fixture.get("GET /x", "").await;
        assert_eq!(hit.summary(), (200, "hit", "old".to_owned()), "the purge is not in force yet");
        let mut waiting = vec![0; 1 << 16];
        assert!(pipe.read(&mut waiting).unwrap() > 0);
        assert!(purge.join().unwrap(), "a pipe cannot be synced");
        fixture.origin.reply(Reply::ok(FRESH, b"new"));
        assert_eq!(fixture.get("GET /x", "").await.summary(), (200, "miss", "new".to_owned()));
    });
}

#[test]
fn a_purge_while_a_change_is_noted_does_not_exempt_objects_from_the_change() {
    run(async {
        let fixture = Fixture::cached();
        fixture.origin.reply(Reply::ok(FRESH, b"old"));
        fixture.get("GET /x", "").await;
        let object = only_object(&fixture);
        let (store, now) = (&fixture.store, fixture.context.moment());
        let is_purged = || store.is_purged(object.metadata(), now.0);
        store.invalidations.add(&fixture.http_site().name, "/x", || {
            let at = store.purges.later_stamp(now.1);
            store.purge_at(&purge_of("/other"), &fixture.sites, now).unwrap();
            assert!(!is_purged());
            at
        });
        assert!(is_purged());
    });
}

#[test]
fn a_change_after_the_clock_was_set_back_affects_objects_that_were_asked_for_before() {
    run(async {
        let fixture = Fixture::with(|site| {
            with_post(site);
            site.cache.vary = vec!["cookie".to_owned()];
        });
        const USER: &str = "Cookie: user=1\r\n";
        let (store, wall) = (&fixture.store, fixture.context.clock.wall());
        let mut first = 0;
        for hours in [0, 1] {
            let ahead = store.stamp(wall + Duration::from_secs(3600 * hours));
            first = ahead.max(first);
            for round in 0..50 {
                fixture.origin.reply(Reply::ok(FRESH, b"old"));
                // Its key is not known to a request of another client.
                assert_eq!(fixture.get("GET /x", USER).await.summary().1, "miss", "{hours} {round}");
                only_object(&fixture).metadata().judged.fetch_max(ahead, Ordering::Relaxed);
                assert_eq!(fixture.get("GET /x", USER).await.summary().1, "hit", "{hours} {round}");
                fixture.origin.reply(Reply::new(204));
                fixture.get("POST /x", "").await;
            }
        }
        assert!(store.stamp(wall) < first + 3_000_000_000, "changes do not move time ahead");
    });
}
