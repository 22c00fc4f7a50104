//! Programs that people use: curl, nghttp, h2load, Go, and Python's httpx.

use std::fs;
use std::process::Command;
use std::time::Duration;

use penstock_testkit::{Server, Tool};

use super::{before, setup};

/// A URL over TLS, and one without.
fn urls(server: &Server, path: &str) -> [String; 2] {
    [server.url(path), server.plain_url(path)]
}

/// curl that insists on HTTP/2.
fn curl(server: &Server) -> Tool {
    // `--http2` asks plain servers for an upgrade; with TLS both options mean ALPN.
    Tool::curl(server).arg("--http2-prior-knowledge")
}

#[test]
fn curl_chooses_http_2_by_alpn_and_by_prior_knowledge_and_http_1_where_it_wants_that() {
    let server = setup().start();
    let file = server.file("clip.mp4", 3_000_000);
    let fetched = server.directory().join("fetched");
    for (option, urls, said) in [
        ("--http2", vec![server.url("/clip.mp4")], "1 2 200\n"),
        ("--http2-prior-knowledge", vec![server.plain_url("/clip.mp4")], "1 2 200\n"),
        ("--http2-prior-knowledge", vec![server.url("/clip.mp4"); 2], "1 2 200\n0 2 200\n"),
        // An upgrade from HTTP/1.1 is not offered (RFC 9113 has none).
        ("--http2", vec![server.plain_url("/clip.mp4")], "1 1.1 200\n"),
        ("--http1.1", vec![server.url("/clip.mp4")], "1 1.1 200\n"),
    ] {
        let curl =
            Tool::curl(&server).arg(option).args(["-w", "%{num_connects} %{http_version} %{http_code}\n"]);
        let curl = curl.args(["--remote-name-all", "--create-dirs", "--output-dir"]).arg(&fetched);
        assert_eq!(curl.args(&urls).run().ok().text(), said, "{option} {urls:?}");
        file.assert_file(&fetched.join("clip.mp4"));
    }
}

#[test]
fn curl_fetches_ranges_heads_and_errors() {
    let server = setup().start();
    let file = server.file("clip.mp4", 100_000);
    for url in urls(&server, "/clip.mp4") {
        for (range, expected) in
            [("0-0", 0..1), ("500-69999", 500..70_000), ("-1", 99_999..100_000), ("90000-", 90_000..100_000)]
        {
            let curl = curl(&server).args(["-r", range, "--dump-header", "/dev/stderr", &url]);
            let finished = curl.run().ok();
            let content_range =
                format!("content-range: bytes {}-{}/100000", expected.start, expected.end - 1);
            assert!(finished.stderr.starts_with("HTTP/2 206 "), "{range}: {}", finished.stderr);
            assert!(finished.stderr.contains(&content_range), "{range}: {}", finished.stderr);
            file.assert_range(expected, &finished.stdout);
        }
        let head = curl(&server).args(["--head", "-w", "%{size_download}", &url]).run().ok().text();
        assert!(head.contains("content-length: 100000\r\n") && head.ends_with("\r\n\r\n0"), "{head}");
        let status = |more: &[&str]| {
            let curl = curl(&server).args(["-o", "/dev/null", "-w", "%{http_code}"]).args(more);
            curl.arg(&url).run().ok().text()
        };
        assert_eq!(status(&["-r", "200000-"]), "416");
        assert_eq!(status(&["-X", "POST", "-d", "x=y"]), "405");
        assert_eq!(status(&["-H", "Host: [bad"]), "400");
    }
    for url in urls(&server, "/none.mp4") {
        let curl = curl(&server).args(["-o", "/dev/null", "-w", "%{http_code}", &url]);
        assert_eq!(curl.run().ok().text(), "404");
    }
}

#[test]
fn curl_sends_bodies_through_the_windows_and_gets_them_back() {
    let origin = crate::cached::passing::echo();
    let (_memory, server) = before(&origin, setup());
    let sent = penstock_testkit::Content::new(7, 3_000_000);
    let file = server.directory().join("sent");
    sent.write_to(&file);
    for url in urls(&server, "/api") {
        for method in ["POST", "PUT"] {
            let curl = curl(&server).args(["-X", method, "-H", "Expect:", "--data-binary"]);
            let finished = curl.arg(format!("@{}", file.display())).arg(&url).run().ok();
            sent.assert_range(0..3_000_000, &finished.stdout);
        }
    }
}

#[test]
fn the_access_log_and_the_metrics_tell_versions_apart() {
    let server = setup().start();
    server.file("clip.mp4", 1000);
    curl(&server).args(["-o", "/dev/null", &server.url("/clip.mp4?a")]).run().ok();
    let line = server.logged("/clip.mp4?a");
    assert_eq!((line["protocol"].as_str(), line["stream"].as_u64()), (Some("h2"), Some(1)), "{line:#}");
    Tool::curl(&server).args(["--http1.1", "-o", "/dev/null", &server.url("/clip.mp4?b")]).run().ok();
    let line = server.logged("/clip.mp4?b");
    assert!(line.get("stream").is_none(), "{line:#}");
    for version in ["h2", "h1"] {
        let label = format!("version=\"{version}\"");
        let found = server.metrics().sum("penstock_http_requests_total", &[&label]);
        assert!(found > 0.0, "{label}: {:?}", server.metrics());
    }
    server.counted("penstock_http2_streams", &[], 0.0);
}

#[test]
fn nghttp_fetches_many_objects_on_one_connection() {
    let server = setup().start();
    let sizes: Vec<usize> = (0..20).map(|number| 1000 + number * 20_000).collect();
    let letter = |number: usize| b'a' + u8::try_from(number).unwrap();
    for (number, size) in sizes.iter().enumerate() {
        server.write(&format!("{number}.bin"), vec![letter(number); *size]);
    }
    for base in urls(&server, "") {
        // Small windows: the streams take turns. nghttp prints the bodies as their frames come.
        let nghttp = Tool::new("nghttp").args(["--window-bits=14", "--connection-window-bits=17"]);
        let bodies = nghttp.args((0..20).map(|number| format!("{base}/{number}.bin"))).run().ok().stdout;
        assert_eq!(bodies.len(), sizes.iter().sum::<usize>());
        for (number, size) in sizes.iter().enumerate() {
            let found = bodies.iter().filter(|byte| **byte == letter(number)).count();
            assert_eq!(found, *size, "{base}/{number}.bin");
        }
    }
    server.counted("penstock_http_connections_total", &["version=\"h2\""], 2.0);
}

#[test]
fn nghttp_pads_its_frames_and_uploads() {
    let origin = crate::cached::passing::echo();
    let (_memory, server) = before(&origin, setup());
    let text = "x".repeat(200_000);
    let file = server.directory().join("sent");
    fs::write(&file, &text).unwrap();
    for url in urls(&server, "/api") {
        let nghttp = Tool::new("nghttp").args(["--padding=255", "--data"]).arg(&file).arg(&url);
        assert_eq!(nghttp.run().ok().text(), text);
    }
}

#[test]
fn h2load_gets_every_response_on_each_of_its_streams() {
    let server = setup().start();
    server.file("1k.bin", 1024);
    server.file("300k.bin", 300 * 1024);
    for url in urls(&server, "") {
        for (object, requests, bytes) in [("/1k.bin", 2000, 1024), ("/300k.bin", 200, 300 * 1024)] {
            let h2load = Tool::new("h2load").args(["--clients=10", "--max-concurrent-streams=10"]);
            let h2load = h2load.args([format!("--requests={requests}"), format!("{url}{object}")]);
            let said = h2load.time_limit(Duration::from_secs(120)).run().ok().text();
            let all = format!("{requests} succeeded, 0 failed, 0 errored, 0 timeout");
            assert!(said.contains(&all), "{said}");
            assert!(said.contains(&format!("({}) data", requests * bytes)), "{said}");
        }
    }
}

/// A client of Go's library: fetches a URL on many streams and compares the bodies.
const GO_CLIENT: &str = r#"package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

func fail(what ...any) {
	fmt.Fprintln(os.Stderr, what...)
	os.Exit(1)
}

func main() {
	authority, err := os.ReadFile(os.Args[1])
	if err != nil {
		fail(err)
	}
	wanted, err := os.ReadFile(os.Args[2])
	if err != nil {
		fail(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}
	client := &http.Client{Transport: transport}
	var all sync.WaitGroup
	for number := range 100 {
		all.Go(func() {
			request, _ := http.NewRequest("GET", os.Args[3], nil)
			from := number * len(wanted) / 100
			request.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
			response, err := client.Do(request)
			if err != nil {
				fail(err)
			}
			defer response.Body.Close()
			if number%5 == 4 {
				// Closing resets the stream.
				io.CopyN(io.Discard, response.Body, 1000)
				return
			}
			var source io.Reader = response.Body
			if number%2 == 0 {
				// Reads of 4 KiB, each of which opens both windows.
				source = bufio.NewReaderSize(source, 4096)
			}
			body, err := io.ReadAll(struct{ io.Reader }{source})
			if err != nil || response.ProtoMajor != 2 || !bytes.Equal(body, wanted[from:]) {
				fail(number, response.Proto, response.Status, len(body), err)
			}
		})
	}
	all.Wait()
	fmt.Println("equal")
}
"#;

#[test]
fn a_client_of_go_fetches_on_many_streams_and_resets_some() {
    if !Command::new("go").arg("version").output().is_ok_and(|found| found.status.success()) {
        penstock_testkit::not_tested("a client of Go, because Go is not installed");
        return;
    }
    let server = setup().start();
    server.file("clip.mp4", 1_000_000);
    let source = server.directory().join("client.go");
    fs::write(&source, GO_CLIENT).unwrap();
    let program = server.directory().join("client");
    let built = Command::new("go")
        .args(["build", "-o"])
        .args([&program, &source])
        .env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go"))
        .env("GOTOOLCHAIN", "local")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    if said.contains("all.Go undefined") {
        penstock_testkit::not_tested("a client of Go, because Go is older than 1.25");
        return;
    }
    assert!(built.status.success(), "{said}");
    let client = Tool::new(program.to_str().unwrap()).arg(server.certificates().authority());
    let client = client.arg(server.path("clip.mp4")).arg(server.url("/clip.mp4"));
    assert_eq!(client.run().ok().text(), "equal\n");
    let used = server.metrics().sum("penstock_http_requests_total", &["version=\"h2\""]);
    assert!(used >= 100.0, "{used}");
}

/// A client of httpx (Python, with the library `h2`): fetches ranges on many streams of one connection and compares them.
const PYTHON_CLIENT: &str = r"
import asyncio, ssl, sys
import httpx

authority, path, url = sys.argv[1:]
wanted = open(path, 'rb').read()

async def fetch(client, number):
    start = number * len(wanted) // 100
    response = await client.get(url, headers={'Range': f'bytes={start}-'})
    assert response.http_version == 'HTTP/2' and response.status_code == 206, response
    assert response.content == wanted[start:], f'other bytes from {start}'

async def main():
    context = ssl.create_default_context(cafile=authority)
    async with httpx.AsyncClient(http2=True, http1=False, verify=context, timeout=60) as client:
        await asyncio.gather(*(fetch(client, number) for number in range(100)))

asyncio.run(main())
print('equal')
";

#[test]
fn httpx_gets_many_ranges_at_once() {
    let server = setup().start();
    server.file("clip.mp4", 1_000_000);
    // The interpreter of the system, which has the libraries of Debian's packages.
    let client =
        Tool::new("/usr/bin/python3").args(["-c", PYTHON_CLIENT]).arg(server.certificates().authority());
    let client = client.arg(server.path("clip.mp4")).arg(server.url("/clip.mp4"));
    assert_eq!(client.run().ok().text(), "equal\n");
    let connections = server.metrics().sum("penstock_http_connections_total", &["version=\"h2\""]);
    assert_eq!(connections, 1.0);
}
