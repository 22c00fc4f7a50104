//! Steering manifests follow the state of the cluster's nodes.

use penstock_testkit::{Client, ReservedAddress, Server, Setup, Tool, until};
use rustix::process::Signal;
use serde_json::{Value, json};

const STEERING: &str = "steering: {hls: /steering.json, dash: /dash.json, ttl: 5s";

fn manifest(server: &Server, target: &str) -> Value {
    let response = Client::plain(server).get(target);
    assert_eq!((response.status, response.field("Content-Type")), (200, Some("application/json")));
    assert_eq!(response.field("Cache-Control"), Some("no-store"));
    serde_json::from_str(response.text()).unwrap()
}

fn priority(server: &Server) -> Vec<String> {
    let manifest = manifest(server, "/steering.json");
    let ids = manifest["PATHWAY-PRIORITY"].as_array().unwrap();
    ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

/// Nodes with these addresses, each of which goes on accepting until a second signal.
fn setup(addresses: &[ReservedAddress], own: usize, pathways: &str) -> Setup {
    let sites = format!("- {{hosts: [localhost], origin: {{directory: root}}, {STEERING}{pathways}}}}}");
    cluster(addresses, own).sites(&sites).limits("lame_duck: 1h")
}

/// Nodes with these addresses.
fn cluster(addresses: &[ReservedAddress], own: usize) -> Setup {
    let node = |(number, address): (usize, &ReservedAddress)| {
        format!("{{name: edge{}, address: \"{}\"}}", number + 1, address.address())
    };
    let nodes: Vec<String> = addresses.iter().enumerate().map(node).collect();
    Setup::new().section(&format!("cluster: {{self: edge{}, nodes: [{}]}}", own + 1, nodes.join(", ")))
}

#[test]
fn a_node_that_drains_or_is_out_goes_last_on_all_nodes_and_comes_back() {
    let addresses = [(); 3].map(|()| ReservedAddress::reserve());
    let setups = [0, 1, 2].map(|own| setup(&addresses, own, ""));
    let mut servers = setups.each_ref().map(Setup::start);
    for server in &servers {
        server.tolerate_warning("is out: ");
        server.tolerate_warning("without ca every machine");
        until("all nodes", || (priority(server) == ["edge1", "edge2", "edge3"]).then_some(()));
    }
    servers[0].signal(Signal::TERM);
    for server in &servers {
        until("the first to go last", || (priority(server) == ["edge2", "edge3", "edge1"]).then_some(()));
    }
    servers[1].signal(Signal::TERM);
    servers[1].wait_for_log("stopping: health checks fail");
    servers[1].signal(Signal::TERM);
    servers[1].wait();
    for server in [&servers[0], &servers[2]] {
        until("the one that is gone to go last", || {
            (priority(server) == ["edge3", "edge1", "edge2"]).then_some(())
        });
    }
    servers[0].signal(Signal::TERM);
    servers[0].wait();
    servers[0] = setups[0].start();
    servers[0].tolerate_warning("is out: ");
    servers[0].tolerate_warning("without ca every machine");
    until("the first to come back", || (priority(&servers[2]) == ["edge1", "edge3", "edge2"]).then_some(()));
    // The next signal, at the end of the test, is the second.
    for server in [&servers[0], &servers[2]] {
        server.signal(Signal::TERM);
        server.wait_for_log("stopping: health checks fail");
    }
}

/// Segments of a second.
const FILM: u64 = 30;

/// How long players wait before they ask for the pathway again, in seconds.
const TTL: u64 = 2;

/// How much a player buffers, in seconds.
const BUFFER: u64 = 8;

/// Writes a film to the roots of two nodes, and its manifest, `index` and this ending, to that of the second.
fn write_film(servers: &[Server; 2], ending: &str) {
    let mut list = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n".to_owned();
    (0..FILM).for_each(|number| list.push_str(&format!("#EXTINF:1,\n{number}.ts\n")));
    list.push_str("#EXT-X-ENDLIST\n");
    let mut variants = String::new();
    let mut places = String::new();
    for (server, pathway) in servers.iter().zip(["edge1", "edge2"]) {
        for number in 0..FILM {
            server.write(&format!("{number}.ts"), vec![b'x'; 1000]);
        }
        server.write("film.m3u8", &*list);
        let (film, root) = (server.plain_url("/film.m3u8"), server.plain_url("/"));
        variants.push_str(&format!("#EXT-X-STREAM-INF:BANDWIDTH=8000,PATHWAY-ID=\"{pathway}\"\n{film}\n"));
        places.push_str(&format!("<BaseURL serviceLocation=\"{pathway}\">{root}</BaseURL>"));
    }
    let manifest = match ending {
        "m3u8" => format!(
            "#EXTM3U\n#EXT-X-CONTENT-STEERING:SERVER-URI=\"/steering.json\",PATHWAY-ID=\"edge1\"\n{variants}"
        ),
        _ => format!(
            "<MPD type=\"static\" mediaPresentationDuration=\"PT{FILM}S\">{places}\
             <ContentSteering defaultServiceLocation=\"edge1\">/steering.json</ContentSteering>\
             <Period><AdaptationSet mimeType=\"video/mp4\">\
             <SegmentTemplate timescale=\"1\" duration=\"1\" startNumber=\"0\" media=\"$Number$.ts\"/>\
             <Representation id=\"one\" bandwidth=\"8000\"/></AdaptationSet></Period></MPD>"
        ),
    };
    servers[1].write(&format!("index.{ending}"), manifest);
}

#[test]
fn two_hundred_players_of_hls_leave_a_node_that_drains_within_one_time_to_live_and_none_stalls() {
    players_leave("m3u8", 200);
}

#[test]
fn a_hundred_players_of_dash_leave_a_node_that_drains_within_one_time_to_live_and_none_stalls() {
    players_leave("mpd", 100);
}

/// Players of a manifest with this ending leave the first of two nodes.
fn players_leave(ending: &str, players: u64) {
    let addresses = [(); 2].map(|()| ReservedAddress::reserve());
    let sites = format!(
        "- {{hosts: [localhost], origin: {{directory: root}}, \
         steering: {{hls: /steering.json, dash: /steering.json, ttl: {TTL}s}}}}"
    );
    // Other nodes know of the drain within two seconds, and players one time to live later.
    let servers = [0, 1].map(|own| cluster(&addresses, own).sites(&sites).limits("lame_duck: 7s").start());
    for server in &servers {
        server.tolerate_warning("is out: ");
        server.tolerate_warning("without ca every machine");
    }
    write_film(&servers, ending);
    let [leaving, staying] = &servers;
    until("both nodes", || (priority(staying) == ["edge1", "edge2"]).then_some(()));
    let (number, buffer) = (players.to_string(), format!("{BUFFER}s"));
    let load =
        Tool::penstock().args(["load", "playback", "--json", "--quiet", "--ramp", "4s", "--start", "1s"]);
    let load = load.args(["--buffer", &buffer, "--viewers", &number, "--requests", &number]);
    let load = load.arg(staying.plain_url(&format!("/index.{ending}")));
    let report = std::thread::scope(|scope| {
        let playing = scope.spawn(|| load.run().ok());
        until("all players at the first node", || {
            let requests = leaving.metrics().sum("penstock_requests_total", &[]);
            (requests >= (BUFFER * players) as f64).then_some(())
        });
        leaving.signal(Signal::TERM);
        until("the way around it", || (priority(staying) == ["edge2", "edge1"]).then_some(()));
        leaving.wait();
        assert!(!playing.is_finished(), "the node ends while all of them play");
        playing.join().unwrap()
    });
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let playback = |name: &str| report["playback"][name].as_u64().unwrap();
    assert_eq!(report["errors_total"], 0, "{report:#}");
    assert_eq!((playback("players_started"), playback("players_stalled")), (players, 0), "{report:#}");
    assert_eq!(playback("segments"), players * FILM);
    assert!(playback("pathway_changes") >= players, "{report:#}");
    assert_left_within_one_time_to_live(&servers, players);
}

/// Since the steering manifest of the second node names that node first, each player has asked for it once before it left the
/// other, and the other for no more segments than it plays until then or has space for.
fn assert_left_within_one_time_to_live([leaving, staying]: &[Server; 2], players: u64) {
    let log = staying.access_log();
    // The last request of the test itself is the first one that was answered so.
    let changed = log.iter().rfind(|line| line["target"] == "/steering.json").unwrap();
    let changed = changed["time"].as_str().unwrap();
    let later = |log: &[Value], part: &str| {
        let target = |line: &Value| line["target"].as_str().unwrap().contains(part);
        let lines = log.iter().filter(|line| line["time"].as_str().unwrap() > changed && target(line));
        lines.count() as u64
    };
    let asked = later(&log, "_pathway=%22edge1%22");
    assert!((1..=players).contains(&asked), "{asked} questions of players at the node that drains");
    let segments = later(&leaving.access_log(), ".ts");
    assert!(segments <= players * (TTL + BUFFER), "{segments} segments of the node that drains");
}

#[test]
fn the_manifest_names_pathways_and_is_no_object_of_the_site() {
    let addresses = [ReservedAddress::reserve()];
    let pathways = ", pathways: [{id: near, nodes: [edge1]}, {id: other.example}]";
    let server = setup(&addresses, 0, pathways).start();
    server.tolerate_warning("without ca every machine");
    server.write("steering.json", "a file");
    for (target, reload) in [
        ("/steering.json?_HLS_pathway=near&_HLS_throughput=5000000", "/steering.json"),
        ("/dash.json?_DASH_pathway=%22near%22&_DASH_throughput=5000&s=1", "/dash.json?s=1"),
    ] {
        let expected = json!({
            "VERSION": 1, "TTL": 5, "RELOAD-URI": reload, "PATHWAY-PRIORITY": ["near", "other.example"]
        });
        assert_eq!(manifest(&server, target), expected);
    }
    let mut client = Client::plain(&server);
    let head = client.head_with("/steering.json", "");
    assert_eq!((head.status, head.field("Content-Type")), (200, Some("application/json")));
    let post = "POST /steering.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(client.request(post).status, 405);
    assert_eq!(client.get("/steering.json/").status, 404);
    server.signal(Signal::TERM);
    until("the way around this node", || (priority(&server) == ["other.example", "near"]).then_some(()));
}

#[test]
fn a_site_without_a_cluster_has_the_order_of_its_configuration_and_its_rules_for_clients() {
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "0123456789abcdef0123456789abcdef\n").unwrap();
    let sites = format!(
        "- {{hosts: [localhost], origin: {{directory: root}}, {STEERING}, pathways: [{{id: B}}, {{id: A}}]}}, \
         cors: {{origins: [\"https://player.example\"]}}, signed_urls: {{keys: [{{id: one, file: {}}}]}}}}\n\
         - {{hosts: [closed.test], origin: {{directory: root}}, {STEERING}, pathways: [{{id: B}}]}}, \
         access: {{allow: [192.0.2.1]}}}}",
        key.path().display()
    );
    let server = Setup::new().sites(&sites).start();
    assert_eq!(priority(&server), ["B", "A"]);
    let mut client = Client::plain(&server);
    let allowed = client.get_with("/dash.json", "Origin: https://player.example\r\n");
    assert_eq!(allowed.field("Access-Control-Allow-Origin"), Some("https://player.example"));
    let refused = client.request("GET /steering.json HTTP/1.1\r\nHost: closed.test\r\n\r\n");
    assert_eq!(refused.status, 403);
}
