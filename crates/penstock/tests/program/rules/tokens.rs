//! JSON Web Tokens that another implementation has made.

use std::fs;
use std::path::Path;

use penstock_testkit::origin::{Origin, answer, field};
use penstock_testkit::{Server, Setup, Tool, memory_directory, until};
use tempfile::TempDir;

use super::access::BCRYPT;
use crate::http3::{PYTHON, has_client};

const MAKER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/rules/tokens.py");

/// A token of this algorithm; its keys are made in the directory with the first one.
fn token(directory: &Path, algorithm: &str, claims: &str) -> String {
    let made = Tool::new(PYTHON).arg(MAKER).arg(directory).args([algorithm, claims]).run().ok();
    made.text().trim().to_owned()
}

const FINE: &str = r#"{"exp": 4000000000, "iss": "id", "aud": ["video", "x"]}"#;

/// Status, challenge and content.
fn ask(server: &Server, path: &str, field: &str) -> String {
    let form = " %{http_code} %header{www-authenticate}";
    let curl = Tool::curl(server).args(["-o", "/dev/stdout", "-w", form, "-H", field]);
    curl.arg(server.url(path)).run().ok().text()
}

#[test]
fn tokens_of_each_algorithm_are_verified_and_wrong_ones_refused() {
    if !has_client() {
        return;
    }
    let keys = memory_directory();
    let first = token(keys.path(), "HS256", FINE);
    let file = |name: &str| keys.path().join(name).display().to_string();
    let server = Setup::new()
        .sites(&format!(
            "- origin: {{directory: root}}\n  access: {{jwt: {{keys: {}, issuer: id, audience: video, cookie: t}}}}\n  \
             routes:\n  - {{path: /pem, access: {{jwt: {{keys: {}}}}}}}",
            file("jwks.json"),
            file("ES256.pem")
        ))
        .start();
    server.write("a", "bytes");
    server.write("pem", "bytes");
    let shown = |token: &str| ask(&server, "/a", &format!("Authorization: Bearer {token}"));
    for algorithm in [
        "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384",
        "EdDSA",
    ] {
        let token = token(keys.path(), algorithm, FINE);
        // The second time the signature is remembered.
        for _ in 0..2 {
            assert_eq!(shown(&token), "bytes 200 ", "{algorithm}");
        }
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let other = if signature.starts_with('A') { "B" } else { "A" };
        let invalid = "401 Unauthorized\n 401 Bearer error=\"invalid_token\"";
        assert_eq!(shown(&format!("{signed}.{other}{}", &signature[1..])), invalid, "{algorithm}");
    }
    for (algorithm, claims) in [
        ("none", FINE),
        ("confused", FINE),
        ("ES256", r#"{"exp": 1000, "iss": "id", "aud": "video"}"#),
        ("ES256", r#"{"iss": "id", "aud": "video"}"#),
        ("ES256", r#"{"exp": 4000000000, "nbf": 3999999999, "iss": "id", "aud": "video"}"#),
        ("ES256", r#"{"exp": 4000000000, "iss": "other", "aud": "video"}"#),
        ("ES256", r#"{"exp": 4000000000, "iss": "id", "aud": "audio"}"#),
    ] {
        let found = shown(&token(keys.path(), algorithm, claims));
        assert!(found.contains(" 401 Bearer error"), "{algorithm} {claims}: {found}");
    }
    assert_eq!(ask(&server, "/a", &format!("Cookie: x=1; t={first}")), "bytes 200 ");
    assert_eq!(ask(&server, "/a", "X-None: 1"), "401 Unauthorized\n 401 Bearer");
    let of_pem = |algorithm| {
        ask(&server, "/pem", &format!("Authorization: Bearer {}", token(keys.path(), algorithm, FINE)))
    };
    assert_eq!(of_pem("ES256"), "bytes 200 ");
    assert!(of_pem("confused").contains(" 401 "));
    server.counted("penstock_request_rejections_total", &["reason=\"token_missing\""], 1.0);
    assert!(server.log().iter().all(|line| !line.contains(&first)), "no line of the log shows a token");
}

#[test]
fn new_keys_are_in_force_rubbish_is_not_and_clients_with_tokens_share_the_cache() {
    if !has_client() {
        return;
    }
    let origin = Origin::start(|head, number, stream| {
        assert_eq!(field(head, "authorization"), None);
        answer(stream, "200 OK", "Cache-Control: max-age=600\r\n", format!("{number}").as_bytes())
    });
    let (memory, other) = (memory_directory(), memory_directory());
    let (old, new) = (token(memory.path(), "ES256", FINE), token(other.path(), "ES256", FINE));
    let file = memory.path().join("jwks.json");
    let site = format!("\n  access: {{jwt: {{keys: {}}}}}", file.display());
    let sites = format!("- origin: {{http: [\"{}\"]}}{site}", origin.url());
    let cache = format!("cache: {{memory: {{directory: {}/tier, size: 64MiB}}}}", memory.path().display());
    let server = Setup::new().sites(&sites).section(&cache).start();
    let ask = |token: &str| ask(&server, "/a", &format!("Authorization: Bearer {token}"));
    let another = token(memory.path(), "EdDSA", FINE);
    assert_eq!((ask(&old), ask(&another)), ("0 200 ".to_owned(), "0 200 ".to_owned()));
    server.expect_warning("is no JWKS (line 1); what it had before stays in force");
    fs::write(&file, "{rubbish").unwrap();
    let warned = || server.log().iter().any(|line| line.contains("is no JWKS"));
    until("a warning", || {
        assert_eq!(ask(&old), "0 200 ");
        warned().then_some(())
    });
    fs::copy(other.path().join("jwks.json"), &file).unwrap();
    until("the new keys", || (ask(&new) == "0 200 ").then_some(()));
    assert!(ask(&old).contains(" 401 "));
}

/// Statuses of requests of one address for `/a`, whose clients count by subject: two requests of each in an hour.
struct OfSubjects {
    server: Server,
    keys: TempDir,
}

impl OfSubjects {
    /// A site with these lines, in which `JWKS` stands for a file.
    fn start(lines: &str) -> Self {
        let keys = memory_directory();
        let _made = token(keys.path(), "HS256", FINE);
        let lines = lines.replace("JWKS", &keys.path().join("jwks.json").display().to_string());
        let limits = "limits: {client: subject, requests: {rate: 1/h, burst: 2}}";
        let server = Setup::new().sites(&format!("- origin: {{directory: root}}\n  {limits}\n  {lines}"));
        let server = server.start();
        server.write("a", "bytes");
        Self { server, keys }
    }

    fn token(&self, subject: &str) -> String {
        let claims = format!(r#"{{"exp": 4000000000, "sub": "{subject}"}}"#);
        token(self.keys.path(), "HS256", &claims)
    }

    fn status(&self, path: &str, arguments: &[&str]) -> String {
        let curl = Tool::curl(&self.server).args(["-o", "/dev/null", "-w", "%{http_code}"]).args(arguments);
        curl.arg(self.server.url(path)).run().ok().text()
    }
}

#[test]
fn the_subject_of_a_token_is_one_client_and_wrong_tokens_count_for_their_address() {
    if !has_client() {
        return;
    }
    let in_field: &dyn Fn(&OfSubjects, &str) -> String =
        &|site, token| site.status("/a", &["-H", &format!("Authorization: Bearer {token}")]);
    let in_query: &dyn Fn(&OfSubjects, &str) -> String =
        &|site, token| site.status(&format!("/a?token={token}"), &[]);
    for (lines, ask, refused) in [
        ("access: {jwt: {keys: JWKS}}", in_field, "401"),
        ("tokens: {format: jwt, key: JWKS}", in_query, "403"),
    ] {
        let site = OfSubjects::start(lines);
        let (ann, bob) = (site.token("ann"), site.token("bob"));
        let status = |token: &str| ask(&site, token);
        assert_eq!([&ann, &ann, &ann].map(|token| status(token)), ["200", "200", "429"], "{lines}");
        assert_eq!(status(&bob), "200", "{lines}");
        assert_eq!(["x.y.z", "x.y.z", "x.y.z"].map(status), [refused, refused, "429"], "{lines}");
        assert_eq!(status(&bob), "429", "{lines}: an address that guesses is not asked again");
    }
}

#[test]
fn requests_without_a_token_count_for_their_address() {
    if !has_client() {
        return;
    }
    let steering = "steering: {hls: /steering.json, pathways: [{id: a}]}";
    let lines = format!("tokens: {{format: jwt, key: JWKS}}\n  {steering}");
    for (path, arguments, first) in
        [("/a", &["-X", "OPTIONS"][..], "204"), ("/steering.json", &[][..], "200"), ("/a", &[][..], "403")]
    {
        let site = OfSubjects::start(&lines);
        let statuses = [(); 3].map(|()| site.status(path, arguments));
        assert_eq!(statuses, [first, first, "429"], "{path} {arguments:?}");
    }
}

#[test]
fn wrong_passwords_count_for_their_address_in_front_of_the_token() {
    if !has_client() {
        return;
    }
    let users = tempfile::NamedTempFile::new().unwrap();
    fs::write(users.path(), format!("anna:{BCRYPT}\n")).unwrap();
    let lines = format!(
        "tokens: {{format: jwt, key: JWKS}}\n  access: {{basic: {{file: {}}}}}",
        users.path().display()
    );
    let site = OfSubjects::start(&lines);
    let path = format!("/a?token={}", site.token("ann"));
    let status = |password: &str| site.status(&path, &["-u", &format!("anna:{password}")]);
    assert_eq!(["wrong", "wrong"].map(status), ["401", "401"]);
    assert_eq!(status("secret"), "429");
}
