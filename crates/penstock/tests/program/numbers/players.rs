//! What players say of themselves.

use penstock_testkit::{Client, Setup, Tool};

use super::{section, status, top_entry};

const TELEVISION: &str = "Mozilla/5.0 (SMART-TV; LINUX; Tizen 6.0) AppleWebKit/537.36";

#[test]
fn what_players_say_in_fields_and_in_the_query_is_counted_by_site_kind_and_title() {
    let server = Setup::new().sites("- {hosts: [localhost], origin: {directory: root}}").start();
    server.file("seg.m4s", 100);
    let mut client = Client::plain(&server);
    let starved = "CMCD-Request: mtp=6000,bl=1500\r\nCMCD-Object: br=3000,d=4004\r\nCMCD-Status: bs\r\n\
                   CMCD-Session: sid=\"one\",cid=\"film\"\r\n";
    for _ in 0..2 {
        let fields = format!("User-Agent: {TELEVISION}\r\n{starved}");
        assert_eq!(client.get_with("/seg.m4s", &fields).status, 200);
    }
    let query = "/seg.m4s?CMCD=bl%3D3500%2Csu%2Csid%3D%22two%22%2Ccid%3D%22film%22";
    for agent in ["player/1.0", "Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X)"] {
        Tool::curl(&server)
            .args(["--http2", "-A", agent, "-o", "/dev/null"])
            .arg(server.url(query))
            .run()
            .ok();
    }
    client.get("/seg.m4s");
    let television = ["site=\"localhost\"", "client=\"television\""];
    server.counted("penstock_player_requests_total", &["site=\"localhost\""], 4.0);
    server.counted("penstock_player_starved_requests_total", &television, 2.0);
    server.counted("penstock_player_startup_requests_total", &["client=\"phone\""], 1.0);
    server.counted("penstock_player_startup_requests_total", &["client=\"other\""], 1.0);
    server.counted("penstock_player_buffer_seconds_sum", &television, 3.0);
    server.counted("penstock_player_throughput_ratio_sum", &television, 4.0);
    server.counted("penstock_client_connections_total", &["client=\"television\""], 1.0);
    let players = &section(&server, "localhost")["players"];
    assert_eq!(players["starved"], 2);
    let of_kind = |kind: &str| players["clients"][kind].clone();
    assert_eq!(
        (&of_kind("television")["requests"], &of_kind("television")["sessions"]),
        (&2.into(), &1.into())
    );
    assert_eq!((&of_kind("phone")["startup"], &of_kind("phone")["sessions"]), (&1.into(), &1.into()));
    assert!(of_kind("tool").is_null(), "{players}");
    let title = top_entry(&server, "titles", "localhost film");
    assert_eq!(title["requests"], 4);
    assert_eq!(
        (&title["players"]["requests"], &title["players"]["starved"]),
        (&4.into(), &2.into()),
        "{title}"
    );
    assert_eq!(title["players"]["startup"], 2);
    assert_eq!(title["clients"]["television"]["players"]["starved"], 2, "{title}");
    assert_eq!(title["clients"]["phone"]["bytes"], 100, "{title}");
    assert_eq!(top_entry(&server, "starved_titles", "localhost film")["requests"], 2);
    let other = top_entry(&server, "titles", "localhost/seg.m4s");
    assert!(other["players"].is_null() && other["clients"]["other"]["requests"] == 1, "{other}");
}

#[test]
fn different_sessions_of_players_are_counted_once_however_often_they_ask() {
    let server = Setup::new().sites("- {hosts: [localhost], origin: {directory: root}}").start();
    server.file("seg.m4s", 100);
    let mut client = Client::plain(&server);
    for session in (0..15).chain(0..15) {
        let fields = format!("User-Agent: {TELEVISION}\r\nCMCD-Session: sid=\"{session}\",cid=\"film\"\r\n");
        assert_eq!(client.get_with("/seg.m4s", &fields).status, 200);
    }
    server.counted("penstock_player_requests_total", &["site=\"localhost\""], 30.0);
    let metrics = server.metrics();
    let site = metrics.sum("penstock_player_sessions_total", &["site=\"localhost\""]);
    let of_kind =
        |kind: &str| metrics.sum("penstock_player_client_sessions_total", &[&format!("client=\"{kind}\"")]);
    let title = &top_entry(&server, "titles", "localhost film")["players"]["sessions"];
    // Some may be in one register: of 1,024, of 256 and of 64. Once in a hundred thousand runs it is more of them.
    assert!((12.0..=16.0).contains(&site), "{site}");
    assert!((10.0..=17.0).contains(&of_kind("television")), "{}", of_kind("television"));
    assert!((7..=25).contains(&title.as_u64().unwrap()), "{title}");
    assert_eq!(of_kind("phone"), 0.0);
}

#[test]
fn a_file_says_of_which_kind_clients_are_and_the_configuration_what_a_title_is() {
    let setup = Setup::new().sites("- {hosts: [localhost], origin: {directory: root}}");
    let table = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(table.path(), "television Our Box/\ntool ja4:t1\n").unwrap();
    let keys = format!("metrics: {{title_directories: 1, clients: {}}}", table.path().display());
    let server = setup.section(&keys).start();
    std::fs::create_dir_all(server.path("vod/film")).unwrap();
    server.file("vod/film/seg.m4s", 100);
    // Over plain HTTP there is no fingerprint.
    for agent in ["Our Box/2", "curl/8.5.0"] {
        Client::plain(&server).get_with("/vod/film/seg.m4s", &format!("User-Agent: {agent}\r\n"));
    }
    assert_eq!(Client::tls(&server).get("/vod/film/seg.m4s").status, 200);
    for kind in ["television", "other", "tool"] {
        server.counted("penstock_client_connections_total", &[&format!("client=\"{kind}\"")], 1.0);
    }
    server.counted("penstock_client_handshakes_total", &["client=\"tool\"", "version=\"TLSv1.3\""], 1.0);
    server.counted("penstock_client_handshakes_total", &["client=\"television\""], 0.0);
    let spent = |client: &str, resumed: &str| {
        let labels = [format!("client=\"{client}\""), format!("resumed=\"{resumed}\"")];
        server.metrics().sum("penstock_client_handshake_seconds_total", &[&labels[0], &labels[1]])
    };
    assert!(spent("tool", "false") > 0.0);
    assert_eq!((spent("tool", "true"), spent("television", "false")), (0.0, 0.0));
    let clients = &status(&server)["clients"];
    let full = &clients["tool"]["handshakes"]["full"];
    assert_eq!((&full["count"], &full["busy_seconds_mean"]), (&1.into(), &spent("tool", "false").into()));
    assert_eq!(clients["television"]["handshakes"]["full"]["count"], 0, "{clients}");
    assert_eq!(clients["tool"]["handshakes"]["versions"]["TLSv1.3"]["count"], 1, "{clients}");
    assert_eq!(top_entry(&server, "titles", "localhost/vod/")["requests"], 3);
}
