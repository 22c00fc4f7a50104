//! Files that change while they are served, names of all kinds, and what is no file at all.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use penstock_testkit::{Client, Content, Server, Setup, Tool, until};
use rustix::fs::{Advice, CWD, FileType, Mode, fadvise, mknodat};

const MIB: u64 = 1 << 20;

#[test]
fn a_replaced_file_shows_soon_and_a_running_response_keeps_the_old_one() {
    let server = Setup::new().start();
    let old = server.file("film.mp4", 24 * MIB);
    let mut running = Client::tls(&server);
    running.send(get("/film.mp4"));
    let head = running.response_to_head().unwrap();

    let new = Content::new(999, 25 * MIB);
    new.write_to(&server.path("next"));
    fs::rename(server.path("next"), server.path("film.mp4")).unwrap();
    let mut client = Client::plain(&server);
    let response = until("the new film", || {
        Some(client.get("/film.mp4")).filter(|response| response.field("ETag") != head.field("ETag"))
    });
    new.assert_range(0..new.len, &response.body);
    old.assert_range(0..old.len, &running.body(old.len).unwrap());
    // The running connection may live on another worker, which looks at the name again in its own time.
    until("the new film on the old connection", || {
        (running.get("/film.mp4").field("ETag") == response.field("ETag")).then_some(())
    });
}

#[test]
fn a_growing_file_shows_its_new_end() {
    let server = Setup::new().start();
    let whole = Content::new(5, 3 * MIB);
    let path = server.write("live.ts", whole.bytes(0..MIB));
    let mut client = Client::tls(&server);
    whole.assert_range(0..MIB, &client.get("/live.ts").body);
    OpenOptions::new().append(true).open(path).unwrap().write_all(&whole.bytes(MIB..3 * MIB)).unwrap();
    let grown = || Some(client.get("/live.ts")).filter(|response| response.body.len() as u64 > MIB);
    whole.assert_range(0..whole.len, &until("the new end", grown).body);
}

#[test]
fn a_deleted_file_is_sent_to_its_end_and_then_404() {
    let server = Setup::new().start();
    let file = server.file("film.mp4", 24 * MIB);
    let mut running = Client::tls(&server);
    running.send(get("/film.mp4"));
    assert_eq!(running.response_to_head().unwrap().status, 200);
    fs::remove_file(server.path("film.mp4")).unwrap();
    let mut client = Client::tls(&server);
    until("the 404", || (client.get_range("/film.mp4", 0, 9).status == 404).then_some(()));
    file.assert_range(0..file.len, &running.body(file.len).unwrap());
}

#[test]
fn a_new_file_shows_where_there_was_none() {
    let server = Setup::new().start();
    let mut client = Client::tls(&server);
    assert_eq!(client.get("/segment-1.m4s").status, 404);
    let file = server.file("segment-1.m4s", 1000);
    let response =
        until("the segment", || Some(client.get("/segment-1.m4s")).filter(|found| found.status == 200));
    file.assert_range(0..1000, &response.body);
}

#[test]
fn a_truncated_file_ends_its_own_responses_and_no_other() {
    let server = Setup::new().start();
    let cut_to = 300_001;
    for (number, way) in [(1.0, "https"), (2.0, "http")] {
        let name = format!("{way}.mp4");
        let connect = || match way {
            "https" => Client::tls(&server).boxed(),
            _ => Client::plain(&server).boxed(),
        };
        let doomed = server.file(&name, 64 * MIB);
        let other = server.file("other.mp4", 64 * MIB);
        let (mut victim, mut neighbour) = (connect(), connect());
        victim.send(get(&format!("/{name}")));
        assert_eq!(victim.response_to_head().unwrap().status, 200);
        neighbour.send(get("/other.mp4"));
        assert_eq!(neighbour.response_to_head().unwrap().status, 200);

        let file = OpenOptions::new().write(true).open(server.path(&name)).unwrap();
        file.set_len(cut_to).unwrap();
        let received = victim.rest_until_cut();
        assert!((received.len() as u64) < doomed.len, "{way}: everything arrived");
        let sure = usize::try_from(cut_to).unwrap().min(received.len());
        doomed.assert_range(0..sure as u64, &received[..sure]);
        other.assert_range(0..other.len, &neighbour.body(other.len).unwrap());
        neighbour.assert_open();

        let short = || server.metrics().sum("penstock_short_responses_total", &["reason=\"truncated\""]);
        until("the short response to be counted", || (short() == number).then_some(()));
        // For up to a second the old length is believed, and then responses end early.
        let again = until("the short file", || {
            let response = connect().try_get(&format!("/{name}")).ok();
            response.filter(|response| response.body.len() as u64 == cut_to)
        });
        doomed.assert_range(0..cut_to, &again.body);
    }
}

#[test]
fn a_file_truncated_to_nothing_is_an_empty_file() {
    let server = Setup::new().start();
    server.file("film.mp4", 64 * MIB);
    let mut victim = Client::tls(&server);
    victim.send(get("/film.mp4"));
    assert_eq!(victim.response_to_head().unwrap().status, 200);
    File::create(server.path("film.mp4")).unwrap();
    assert!((victim.rest_until_cut().len() as u64) < 64 * MIB);
    let empty = until("the empty file", || {
        let response = Client::tls(&server).try_get("/film.mp4").ok();
        response.filter(|response| response.body.is_empty())
    });
    assert_eq!((empty.status, empty.field("Content-Length")), (200, Some("0")));
}

#[test]
fn an_empty_file_is_200_and_empty() {
    let server = Setup::new().start();
    server.write("empty.m3u8", "");
    for mut client in [Client::tls(&server).boxed(), Client::plain(&server).boxed()] {
        for fields in ["", "Accept-Encoding: br\r\n"] {
            let response = client.get_with("/empty.m3u8", fields);
            assert_eq!((response.status, response.body.len()), (200, 0));
            assert_eq!(response.field("Content-Length"), Some("0"));
        }
        client.assert_open();
    }
}

#[test]
fn links_inside_the_root_are_followed_and_no_others() {
    let server = Setup::new().start();
    server.write("films/a.mp4", "inside");
    fs::write(server.directory().join("secret.mp4"), "outside").unwrap();
    for (target, link) in [
        ("films/a.mp4", "link.mp4"),
        ("films", "movies"),
        ("../films/a.mp4", "films/up.mp4"),
        ("../secret.mp4", "out.mp4"),
        ("..", "parent"),
        ("../../secret.mp4", "films/out.mp4"),
        ("nowhere.mp4", "dangling.mp4"),
        ("loop.mp4", "loop.mp4"),
        ("/proc/self/environ", "proc.mp4"),
    ] {
        symlink(target, server.path(link)).unwrap();
    }
    symlink(server.path("films/a.mp4"), server.path("absolute.mp4")).unwrap();
    let mut client = Client::tls(&server);
    for path in ["/link.mp4", "/movies/a.mp4", "/films/up.mp4"] {
        assert_eq!(client.get(path).text(), "inside", "{path}");
    }
    for path in [
        "/out.mp4",
        "/parent/secret.mp4",
        "/parent/",
        "/films/out.mp4",
        "/dangling.mp4",
        "/loop.mp4",
        "/proc.mp4",
        // An absolute link says where the root lies, so it leads out of it, wherever it ends.
        "/absolute.mp4",
    ] {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
    client.assert_open();
}

#[test]
fn a_link_that_is_turned_outwards_is_followed_no_more() {
    let server = Setup::new().start();
    server.write("a.mp4", "inside");
    fs::write(server.directory().join("secret.mp4"), "outside").unwrap();
    symlink("a.mp4", server.path("link.mp4")).unwrap();
    let mut client = Client::tls(&server);
    assert_eq!(client.get("/link.mp4").text(), "inside");
    symlink("../secret.mp4", server.path("next")).unwrap();
    fs::rename(server.path("next"), server.path("link.mp4")).unwrap();
    until("the 404", || {
        let response = client.get("/link.mp4");
        assert_ne!(response.text(), "outside");
        (response.status == 404).then_some(())
    });
}

#[test]
fn a_directory_is_its_index_or_404() {
    let server = Setup::new().start();
    server.write("index.html", "<p>home");
    server.write("show/index.html", "<p>show");
    server.write("empty/a.mp4", "x");
    let mut client = Client::tls(&server);
    assert_eq!(client.get("/").text(), "<p>home");
    assert_eq!(client.get("/show/").text(), "<p>show");
    assert_eq!(client.get("/show/").field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(client.get("/empty/").status, 404);
    for (path, location) in
        [("/show", "/show/"), ("/show?t=12&x", "/show/?t=12&x"), ("/empty", "/empty/"), ("/show/.", "")]
    {
        let response = client.get(path);
        let status = if location.is_empty() { 404 } else { 301 };
        assert_eq!((response.status, response.field("Location").unwrap_or("")), (status, location), "{path}");
    }
    assert_eq!(Tool::curl(&server).arg("-L").arg(server.url("/show")).run().ok().text(), "<p>show");
    assert_eq!(client.get("/show/index.html/").status, 404, "a file is no directory");
}

#[test]
fn another_index_can_be_named() {
    let server = Setup::new().sites("- {origin: {directory: root}, index: start.m3u8}").start();
    server.write("start.m3u8", "#EXTM3U\n");
    server.write("index.html", "<p>home");
    let response = Client::tls(&server).get("/");
    assert_eq!(response.text(), "#EXTM3U\n");
    assert_eq!(response.field("Content-Type"), Some("application/vnd.apple.mpegurl"));
}

#[test]
fn an_unreadable_file_is_403() {
    let server = Setup::new().unprivileged().start();
    let forbid = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
    server.write("locked/inside.mp4", "x");
    server.write("open.mp4", "x");
    forbid(&server.write("locked.mp4", "x"));
    forbid(&server.path("locked"));
    let mut client = Client::tls(&server);
    for path in ["/locked.mp4", "/locked/inside.mp4"] {
        assert_eq!(client.get(path).status, 403, "{path}");
    }
    assert_eq!(client.get("/open.mp4").status, 200);
    // So that the directory can be removed.
    fs::set_permissions(server.path("locked"), Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_special_file_is_404_and_is_not_waited_for() {
    let server = Setup::new().workers(1).start();
    mknodat(CWD, server.path("fifo.mp4"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listening = UnixListener::bind(server.path("socket.mp4")).unwrap();
    let mut paths = vec!["/fifo.mp4", "/socket.mp4"];
    // The one that never ends: making it needs rights that not every machine gives.
    let zero = rustix::fs::makedev(1, 5);
    match mknodat(CWD, server.path("zero.mp4"), FileType::CharacterDevice, Mode::RWXU, zero) {
        Ok(()) => paths.push("/zero.mp4"),
        Err(error) => {
            penstock_testkit::not_tested(&format!("a device, because none can be made here ({error})"))
        }
    }
    let mut client = Client::tls(&server);
    for path in paths {
        assert_eq!(client.get(path).status, 404, "{path}");
        client.assert_open();
    }
}

#[test]
fn files_that_begin_with_a_dot_are_not_served_by_default() {
    let hidden =
        [".env", ".git/config", "a/.b/c.txt", "a/.htpasswd", "..c", ".well-known/.key", ".well-knownx"];
    for (site, status) in [("", 404), ("\n  dot_files: deny", 404), ("\n  dot_files: allow", 200)] {
        let server = Setup::new().sites(&format!("- origin: {{directory: root}}{site}")).start();
        let mut client = Client::tls(&server);
        for name in hidden.into_iter().chain([".well-known/acme-challenge/x", "a.b/c.d"]) {
            fs::create_dir_all(server.path(name).parent().unwrap()).unwrap();
            server.write(name, "x");
        }
        for name in hidden {
            assert_eq!(client.get(&format!("/{name}")).status, status, "{name}");
            assert_eq!(client.get(&format!("/{}", name.replace('.', "%2e"))).status, status, "{name}");
        }
        assert_eq!(client.get("/.git").status, if status == 200 { 301 } else { 404 });
        assert_eq!(client.get("/.well-known/acme-challenge/x").text(), "x");
        assert_eq!(client.get("/a.b/c.d").text(), "x");
    }
}

#[test]
fn names_may_contain_what_file_systems_allow() {
    let server = Setup::new().sites("- origin: {directory: root}\n  dot_files: allow").start();
    let mut client = Client::tls(&server);
    for (name, target) in [
        ("a b.mp4", "/a%20b.mp4"),
        ("фильм.mp4", "/%D1%84%D0%B8%D0%BB%D1%8C%D0%BC.mp4"),
        ("电影.mp4", "/%e7%94%b5%e5%bd%b1.mp4"),
        ("🎬.mp4", "/%F0%9F%8E%AC.mp4"),
        ("100%.mp4", "/100%25.mp4"),
        ("a+b.mp4", "/a+b.mp4"),
        ("a;b=c&d.mp4", "/a;b=c&d.mp4"),
        ("what?.mp4", "/what%3F.mp4"),
        ("#1.mp4", "/%231.mp4"),
        ("it's \"quoted\".mp4", "/it's%20%22quoted%22.mp4"),
        ("...mp4", "/...mp4"),
        (".hidden", "/.hidden"),
        ("~user", "/%7euser"),
        ("plain.mp4", "/%70l%61in.mp4"),
    ] {
        server.write(name, name);
        let response = client.get(target);
        assert_eq!((response.status, &*response.body), (200, name.as_bytes()), "{target}");
    }
    let longest = format!("{}.mp4", "n".repeat(251));
    server.write(&longest, "long");
    assert_eq!(client.get(&format!("/{longest}")).text(), "long");
    assert_eq!(client.get(&format!("/n{longest}")).status, 404, "longer than any name");
    // curl encodes nothing by itself, and --path-as-is leaves everything as it is.
    let url = server.url("/%D1%84%D0%B8%D0%BB%D1%8C%D0%BC.mp4?session=1");
    assert_eq!(Tool::curl(&server).arg(url).run().ok().text(), "фильм.mp4");
}

#[test]
fn a_file_larger_than_4_gib_is_served_beyond_that() {
    const GIB: u64 = 1 << 30;
    let server = Setup::new().start();
    // Sparse: it takes a few pages on the disk.
    let mut file = File::create(server.path("film.mp4")).unwrap();
    file.set_len(5 * GIB + 5).unwrap();
    let pieces = [0, 2 * GIB - 70_000, 4 * GIB - 70_000, 5 * GIB + 5 - 140_000];
    let content = Content::new(1, 140_000);
    for start in pieces {
        file.seek(SeekFrom::Start(start)).unwrap();
        file.write_all(&content.all()).unwrap();
    }
    for mut client in [Client::tls(&server).boxed(), Client::plain(&server).boxed()] {
        let head = client.head_with("/film.mp4", "");
        assert_eq!(head.field("Content-Length"), Some(&*(5 * GIB + 5).to_string()));
        for start in pieces {
            let response = client.get_range("/film.mp4", start, start + 139_999);
            assert_eq!(response.status, 206);
            content.assert_range(0..140_000, &response.body);
        }
        let end = client.get_with("/film.mp4", "Range: bytes=-5000\r\n");
        content.assert_range(135_000..140_000, &end.body);
        let both = client.get_with("/film.mp4", &format!("Range: bytes={}-{},-5\r\n", 4 * GIB - 1, 4 * GIB));
        let parts = both.parts("video/mp4");
        let expected = [
            (4 * GIB - 1..4 * GIB + 1, content.bytes(69_999..70_001)),
            (5 * GIB..5 * GIB + 5, content.bytes(139_995..140_000)),
        ];
        assert_eq!(parts, expected);
        let hole = client.get_range("/film.mp4", 3 * GIB, 3 * GIB + MIB - 1);
        assert!(hole.body.len() as u64 == MIB && hole.body.iter().all(|&byte| byte == 0));
    }
    let range = format!("{}-", 5 * GIB);
    let curl = Tool::curl(&server).args(["-r", &range]).arg(server.url("/film.mp4")).run().ok();
    content.assert_range(139_995..140_000, &curl.stdout);
    // A viewer that goes away early; 5 GiB are not waited for.
    let mut client = Client::tls(&server);
    client.send(get("/film.mp4"));
    let head = client.response_to_head().unwrap();
    assert_eq!(head.field("Content-Length"), Some(&*(5 * GIB + 5).to_string()));
    content.assert_range(0..140_000, &client.body(140_000).unwrap());
}

#[test]
fn files_that_are_not_in_memory_are_exact() {
    let server = Setup::new().start();
    for (number, mut client) in
        [Client::tls(&server).boxed(), Client::plain(&server).boxed()].into_iter().enumerate()
    {
        let name = format!("{number}.mp4");
        let file = server.file(&name, 20 * MIB + 3);
        evict(&server.path(&name));
        let middle = client.get_range(&format!("/{name}"), 9 * MIB, 9 * MIB + 99_999);
        file.assert_range(9 * MIB..9 * MIB + 100_000, &middle.body);
        file.assert_range(0..file.len, &client.get(&format!("/{name}")).body);
    }
    let misses = || server.metrics().sum("penstock_page_cache_misses_total", &[]);
    until("the misses to be counted", || (misses() >= 2.0).then_some(()));
}

#[test]
fn a_cold_file_holds_up_neither_its_worker_nor_other_viewers() {
    let server = Setup::new().workers(1).start();
    let warm = server.file("warm.mp4", 100_000);
    let mut viewer = Client::tls(&server);
    warm.assert_range(0..warm.len, &viewer.get("/warm.mp4").body);
    for (name, mut client) in
        [("tls.mp4", Client::tls(&server).boxed()), ("plain.mp4", Client::plain(&server).boxed())]
    {
        let cold = server.file(name, 48 * MIB);
        evict(&server.path(name));
        let read_before = read_by_the_worker(&server);
        let (begun, done) = (mpsc::channel(), mpsc::channel());
        let answered = thread::scope(|scope| {
            scope.spawn(move || {
                client.send(get(&format!("/{name}")));
                assert_eq!(client.response_to_head().unwrap().status, 200);
                begun.0.send(()).unwrap();
                let body = client.body(cold.len).unwrap();
                done.0.send(()).unwrap();
                cold.assert_range(0..cold.len, &body);
            });
            begun.1.recv().unwrap();
            let mut answered = 0;
            while done.1.try_recv() == Err(mpsc::TryRecvError::Empty) {
                warm.assert_range(0..warm.len, &viewer.get("/warm.mp4").body);
                answered += 1;
            }
            answered
        });
        assert!(answered > 1, "the other viewer had to wait for the whole film");
        // Whatever the worker reads from the disk, it waits for. A little may be read ahead in its name.
        let read = read_by_the_worker(&server) - read_before;
        assert!(read < cold.len / 4, "the worker itself read {read} bytes from the disk");
    }
}

/// Empties the page cache of a file that is not mapped.
fn evict(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let left =
        Tool::new("fincore").args(["--bytes", "--noheadings", "--output", "RES"]).arg(path).run().ok().text();
    let left: u64 = left.trim().parse().unwrap();
    let len = file.metadata().unwrap().len();
    assert!(
        left < len / 10,
        "{left} of {len} bytes stay in memory: the target directory has to be on a disk"
    );
}

/// Bytes that the only worker, and none of the other threads, has had the disk read.
fn read_by_the_worker(server: &Server) -> u64 {
    let tasks = format!("/proc/{}/task", server.pid().as_raw_nonzero());
    let mut threads = fs::read_dir(tasks).unwrap().map(|entry| entry.unwrap().path());
    let is_worker = |thread: &PathBuf| fs::read_to_string(thread.join("comm")).unwrap() == "worker-0\n";
    let worker = threads.find(is_worker).expect("a thread called worker-0");
    let io = fs::read_to_string(worker.join("io")).expect("a kernel that counts I/O by task");
    io.lines().find_map(|line| line.strip_prefix("read_bytes: ")).unwrap().parse().unwrap()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}
