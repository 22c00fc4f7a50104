//! What kind of client sends a request, by its User-Agent.

use crate::metrics::ClientKind;

/// Parts of User-Agent, in the order in which they decide: televisions and phones name a browser too.
const MARKS: [(ClientKind, &[&str]); 4] = [
    (
        ClientKind::Television,
        &[
            "SmartTV",
            "SMART-TV",
            "Smart TV",
            "Tizen",
            "Web0S",
            "webOS",
            "BRAVIA",
            "AppleTV",
            "Apple TV",
            "tvOS",
            "Roku",
            "AFT",
            "GoogleTV",
            "Google TV",
            "Android TV",
            "CrKey",
            "HbbTV",
            "VIDAA",
            "PlayStation",
            "Xbox",
        ],
    ),
    (ClientKind::Phone, &["iPhone", "iPad", "iPod", "Android", "Mobile"]),
    (
        ClientKind::Tool,
        &[
            "curl/",
            "Wget/",
            "python-requests",
            "Python/",
            "aiohttp",
            "Go-http-client",
            "Lavf/",
            "libmpv",
            "GStreamer",
            "Java/",
            "kube-probe",
            "Prometheus",
            "HeadlessChrome",
            "bot",
            "Bot",
        ],
    ),
    (ClientKind::Browser, &["Mozilla/"]),
];

/// The kind of client that has this User-Agent.
pub(crate) fn client_kind(user_agent: Option<&str>) -> ClientKind {
    let Some(text) = user_agent else { return ClientKind::Other };
    let named = |(_, marks): &&(ClientKind, &[&str])| marks.iter().any(|mark| text.contains(mark));
    MARKS.iter().find(named).map_or(ClientKind::Other, |(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_apart_by_what_they_say() {
        let mac = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15";
        let pixel = "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Mobile Safari/537.36";
        let samsung = "Mozilla/5.0 (SMART-TV; LINUX; Tizen 6.0) AppleWebKit/537.36 (KHTML, like Gecko) 76.0.3809.146/6.0 TV Safari/537.36";
        let lg = "Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/94.0.4606.128 Safari/537.36";
        let fire = "Mozilla/5.0 (Linux; Android 9; AFTKA) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/110.0.0.0 Mobile Safari/537.36";
        for (text, expected) in [
            (Some(mac), ClientKind::Browser),
            (Some(pixel), ClientKind::Phone),
            (
                Some("AppleCoreMedia/1.0.0.21E236 (iPhone; U; CPU OS 17_4_1 like Mac OS X; en_us)"),
                ClientKind::Phone,
            ),
            (Some(samsung), ClientKind::Television),
            (Some(lg), ClientKind::Television),
            (Some(fire), ClientKind::Television),
            (Some("Roku/DVP-12.5 (12.5.0.4178-88)"), ClientKind::Television),
            (Some("curl/8.5.0"), ClientKind::Tool),
            (Some("Lavf/60.16.100"), ClientKind::Tool),
            (Some("player/1.0"), ClientKind::Other),
            (Some(""), ClientKind::Other),
            (None, ClientKind::Other),
        ] {
            assert_eq!(client_kind(text), expected, "{text:?}");
        }
    }
}
