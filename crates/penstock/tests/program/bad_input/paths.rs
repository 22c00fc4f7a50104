//! Paths that lead where nothing is served from.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use penstock_testkit::{Client, Setup};

use super::cases::{get_path, play, server, server_with, stays};

/// None of these is served.
const ATTEMPTS: &[&str] = &[
    "/..",
    "/../",
    "/../secret.txt",
    "/../root/next.txt",
    "/a/../../secret.txt",
    "/a/../next.txt",
    "/./next.txt",
    "/a/./inside.txt",
    "/a/..",
    "/%2e%2e/secret.txt",
    "/%2E%2E/secret.txt",
    "/.%2e/secret.txt",
    "/%2e./secret.txt",
    "/..%2fsecret.txt",
    "/..%2Fsecret.txt",
    "/%2e%2e%2fsecret.txt",
    "/%2fetc/passwd",
    "/..%5csecret.txt",
    "/..\\secret.txt",
    "/a\\inside.txt",
    "/%5c",
    "/%00",
    "/next.txt%00",
    "/next.txt%00.html",
    "/%0a",
    "/%0d%0aX:%20y",
    "/%7f",
    "//",
    "//next.txt",
    "//etc/passwd",
    "///",
    "/a//inside.txt",
    "/a//",
    "/%",
    "/%2",
    "/%zz",
    "/%2g",
    "/%%",
    "/%25%",
    "/%c0%ae%c0%ae/secret.txt",
    "/%ff",
    "/..;/secret.txt",
    "/..%252fsecret.txt",
    "/link",
    "/a/deeper",
    "/parent/secret.txt",
    "/parent/root/next.txt",
    "/slash/etc/passwd",
    "/absolute",
    "/absolute-secret",
    "/process",
    "/loop",
    "/dangling",
    "/next.txt/",
    "/next.txt/x",
    "/next.txt/../next.txt",
];

#[test]
fn no_path_leads_out_of_the_root() {
    let server = server();
    let root = server.root();
    server.write("a/inside.txt", "inside\n");
    server.write("%2e%2e/literal.txt", "literal\n");
    symlink("../secret.txt", root.join("link")).unwrap();
    symlink("../../secret.txt", root.join("a/deeper")).unwrap();
    symlink("..", root.join("parent")).unwrap();
    symlink("/", root.join("slash")).unwrap();
    symlink("/etc/passwd", root.join("absolute")).unwrap();
    symlink(server.directory().join("secret.txt"), root.join("absolute-secret")).unwrap();
    symlink("/proc/self/environ", root.join("process")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    symlink("a/inside.txt", root.join("good")).unwrap();
    let long = format!("/{}", "n".repeat(300));
    let deep = "/d".repeat(4000);
    let paths = ATTEMPTS.iter().copied().chain([long.as_str(), deep.as_str()]);
    let cases: Vec<_> = paths.map(|path| stays(get_path(path), 404, "")).collect();
    play(&server, &cases);
    // Decoded once and never twice: this is a directory with percent signs in its name.
    assert_eq!(Client::plain(&server).get("/%252e%252e/literal.txt").text(), "literal\n");
    assert_eq!(Client::plain(&server).get("/good").text(), "inside\n");
    assert_eq!(Client::plain(&server).get("/next%2Etxt").text(), "next\n");
}

#[test]
fn a_special_file_is_404_and_is_never_opened() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let server = server();
    let root = server.root();
    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    let _socket = UnixListener::bind(root.join("socket")).unwrap();
    let mut cases = vec![stays(get_path("/fifo"), 404, ""), stays(get_path("/socket"), 404, "")];
    // Only root can make a device; opening this one would succeed, and reading it never end.
    let zero = rustix::fs::makedev(1, 5);
    if mknodat(CWD, root.join("zero"), FileType::CharacterDevice, Mode::from_raw_mode(0o644), zero).is_ok() {
        cases.push(stays(get_path("/zero"), 404, ""));
    } else {
        println!("not root: no device among the cases");
    }
    play(&server, &cases);
}

#[test]
fn a_directory_redirects_to_its_slash_and_has_no_listing() {
    let server = server();
    server.write("video/index.html", "player\n");
    server.write("bare/clip.mp4", "clip\n");
    std::fs::create_dir(server.path("odd")).unwrap();
    std::fs::create_dir(server.path("odd/index.html")).unwrap();
    let redirect = |path: &str| Client::plain(&server).get(path).field("Location").map(str::to_owned);
    assert_eq!(redirect("/video").as_deref(), Some("/video/"));
    assert_eq!(redirect("/video?a=b").as_deref(), Some("/video/?a=b"));
    assert_eq!(Client::plain(&server).get("/video/").text(), "player\n");
    play(
        &server,
        &[
            stays(get_path("/video"), 301, ""),
            stays(get_path("/bare"), 301, ""),
            stays(get_path("/bare/"), 404, ""),
            stays(get_path("/"), 404, ""),
            stays(get_path("/odd/"), 404, ""),
        ],
    );
}

#[test]
fn an_unreadable_file_is_403() {
    let server = server_with(&Setup::new().unprivileged());
    let forbid = |name: &str| {
        let none = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(server.path(name), none).unwrap();
    };
    server.write("locked.mp4", "locked\n");
    server.write("closed/clip.mp4", "clip\n");
    forbid("locked.mp4");
    forbid("closed");
    play(&server, &[stays(get_path("/locked.mp4"), 403, ""), stays(get_path("/closed/clip.mp4"), 403, "")]);
    // The directory of this server is about to be removed.
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(server.path("closed"), all).unwrap();
}
