//! What players say of themselves.

use penstock_testkit::{Client, Setup, Tool};

use super::{section, top_entry};

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
    // Two, unless their hashes choose the same register.
    let sessions = players["sessions"].as_u64().unwrap();
    assert!((1..=2).contains(&sessions), "{sessions}");
    let title = top_entry(&server, "titles", "localhost film");
    assert_eq!(title["requests"], 4);
    assert_eq!(
        (&title["players"]["requests"], &title["players"]["starved"]),
        (&4.into(), &2.into()),
        "{title}"
    );
    assert_eq!(top_entry(&server, "starved_titles", "localhost film")["requests"], 2);
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
    assert_eq!(top_entry(&server, "titles", "localhost/vod/")["requests"], 3);
}
