//! Requests that ask to switch the connection to another protocol (RFC 9110 §7.8).

use std::sync::Arc;
use std::time::Duration;

use penstock_config::Upgrades;
use penstock_http::{BodyFraming, HttpVersion, Method, Request};

/// The protocols that a site passes on.
#[derive(Debug)]
pub(crate) struct SiteUpgrades {
    protocols: Vec<Arc<str>>,
    /// How long a connection that has switched may have no bytes.
    pub(crate) idle: Duration,
}

impl SiteUpgrades {
    pub(crate) fn new(upgrades: &Upgrades) -> Self {
        let protocols = upgrades.protocols.iter().map(|name| Arc::from(name.as_str())).collect();
        Self { protocols, idle: upgrades.idle }
    }

    /// The first protocol that a request asks for, if it is one of the site's. Only a GET of HTTP/1.1 without a body can ask.
    pub(super) fn asked_by(&self, request: &Request<'_>) -> Option<&Arc<str>> {
        let may_ask = request.method() == Method::Get
            && request.version() == HttpVersion::Http11
            && request.body() == BodyFraming::None
            && options_of(request, "connection").any(|option| option.eq_ignore_ascii_case(b"upgrade"));
        let asked = options_of(request, "upgrade").find(|name| !name.is_empty()).filter(|_| may_ask)?;
        self.protocols.iter().find(|known| known.as_bytes().eq_ignore_ascii_case(asked))
    }
}

/// The members of a list, of all its lines.
fn options_of<'r>(request: &Request<'r>, name: &str) -> impl Iterator<Item = &'r [u8]> {
    request.values(name).flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use penstock_http::HeadLimits;

    use super::*;

    fn asked(head: &str) -> Option<String> {
        let upgrades = Upgrades {
            protocols: vec!["websocket".to_owned(), "irc/6.9".to_owned()],
            idle: Duration::from_secs(1),
        };
        let head = format!("{head}\r\nHost: a.example\r\n\r\n");
        let request =
            Request::parse(head.as_bytes(), &HeadLimits { head_bytes: 8192, fields: 64, target_bytes: 4096 })
                .unwrap();
        SiteUpgrades::new(&upgrades).asked_by(&request).map(ToString::to_string)
    }

    #[test]
    fn only_a_get_of_http_1_1_without_a_body_asks_for_a_protocol_of_the_site() {
        let fields = "Connection: Upgrade\r\nUpgrade: websocket";
        assert_eq!(asked(&format!("GET / HTTP/1.1\r\n{fields}")).as_deref(), Some("websocket"));
        let mixed = "connection: keep-alive, upGRADE\r\nupgrade: IRC/6.9, websocket";
        assert_eq!(asked(&format!("GET / HTTP/1.1\r\n{mixed}")).as_deref(), Some("irc/6.9"));
        for head in [
            format!("HEAD / HTTP/1.1\r\n{fields}"),
            format!("POST / HTTP/1.1\r\n{fields}"),
            format!("GET / HTTP/1.0\r\n{fields}"),
            format!("GET / HTTP/1.1\r\nContent-Length: 1\r\n{fields}"),
            format!("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n{fields}"),
            "GET / HTTP/1.1\r\nUpgrade: websocket".to_owned(),
            "GET / HTTP/1.1\r\nConnection: Upgrade".to_owned(),
            "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c".to_owned(),
            "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c, websocket".to_owned(),
            "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket2".to_owned(),
        ] {
            assert_eq!(asked(&head), None, "{head}");
        }
    }
}
