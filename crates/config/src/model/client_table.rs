//! What is counted, and how: rates, titles, kinds of clients.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::path::Path;

use penstock_metrics::ClientKind;
use penstock_sys::small_file;

use crate::limits;
use crate::model::TitlePatterns;

/// What is counted, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedMetrics {
    /// Bytes per second that renditions need.
    pub rates: Vec<u64>,
    /// Paths with a segment that names a title.
    pub title_patterns: TitlePatterns,
    /// Directories at the beginning of any other path that name a title.
    pub title_directories: usize,
    /// Which clients are of which kind.
    pub clients: ClientTable,
}

impl Default for CountedMetrics {
    fn default() -> Self {
        Self {
            rates: Vec::new(),
            title_patterns: TitlePatterns::default(),
            title_directories: limits::TITLE_DIRECTORIES,
            clients: ClientTable::default(),
        }
    }
}

/// Which clients are of which kind. The first line that fits decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTable {
    lines: Vec<(ClientKind, Mark)>,
    /// Whether one of them is about a fingerprint.
    needs_ja4: bool,
    digest: u64,
}

/// What tells a kind of client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Mark {
    /// A part of User-Agent, in this case.
    UserAgent(String),
    /// The JA4 fingerprint of its TLS, or the beginning of it.
    Ja4(String),
}

/// In front of a fingerprint.
const JA4: &str = "ja4:";

impl Default for ClientTable {
    fn default() -> Self {
        // A test reads the built-in table.
        Self::parse(include_str!("clients.txt")).unwrap_or_else(|_| Self::new(Vec::new()))
    }
}

impl ClientTable {
    fn new(lines: Vec<(ClientKind, Mark)>) -> Self {
        let needs_ja4 = lines.iter().any(|(_, mark)| matches!(mark, Mark::Ja4(_)));
        let digest = BuildHasherDefault::<DefaultHasher>::default().hash_one(&lines);
        Self { lines, needs_ja4, digest }
    }

    /// Reads a file: a kind and a mark in each line, and `#` in front of a comment.
    ///
    /// # Errors
    /// What is wrong, to be written behind the path of the file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text =
            small_file::read_text(path, limits::CLIENT_TABLE_BYTES).map_err(|error| error.to_string())?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let entries = lines.map(|(number, line)| {
            let (kind, mark) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let known = ClientKind::ALL.iter().find(|known| known.label() == kind);
            let mark = mark.trim();
            match known {
                None => Err(format!(
                    "line {}: `{}` is no kind; write one of {}",
                    number + 1,
                    kind.escape_debug(),
                    ClientKind::LABELS.join(", ")
                )),
                Some(_) if mark.is_empty() => {
                    Err(format!("line {}: write a part of User-Agent behind the kind", number + 1))
                }
                Some(kind) => Ok((
                    *kind,
                    match mark.strip_prefix(JA4) {
                        Some(fingerprint) => Mark::Ja4(fingerprint.trim().to_owned()),
                        None => Mark::UserAgent(mark.to_owned()),
                    },
                )),
            }
        });
        entries.collect::<Result<Vec<_>, _>>().map(Self::new)
    }

    /// The kind of the client with this User-Agent and this fingerprint.
    #[must_use]
    pub fn kind(&self, user_agent: Option<&str>, ja4: Option<&str>) -> ClientKind {
        let fits = |mark: &Mark| match mark {
            Mark::UserAgent(part) => user_agent.is_some_and(|text| text.contains(&**part)),
            Mark::Ja4(beginning) => ja4.is_some_and(|text| text.starts_with(&**beginning)),
        };
        self.lines.iter().find(|(_, mark)| fits(mark)).map_or(ClientKind::Other, |(kind, _)| *kind)
    }

    /// Whether fingerprints have to be computed.
    #[must_use]
    pub fn needs_ja4(&self) -> bool {
        self.needs_ja4
    }

    /// A hash of its lines.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_tells_clients_apart_by_what_they_say() {
        let mac = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15";
        let pixel = "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Mobile Safari/537.36";
        let samsung = "Mozilla/5.0 (SMART-TV; LINUX; Tizen 6.0) AppleWebKit/537.36 (KHTML, like Gecko) 76.0.3809.146/6.0 TV Safari/537.36";
        let lg = "Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/94.0.4606.128 Safari/537.36";
        let fire = "Mozilla/5.0 (Linux; Android 9; AFTKA) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/110.0.0.0 Mobile Safari/537.36";
        let phone = "AppleCoreMedia/1.0.0.21E236 (iPhone; U; CPU OS 17_4_1 like Mac OS X; en_us)";
        let table = ClientTable::default();
        assert!(!table.needs_ja4());
        for (text, expected) in [
            (Some(mac), ClientKind::Browser),
            (Some(pixel), ClientKind::Phone),
            (Some(phone), ClientKind::Phone),
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
            assert_eq!(table.kind(text, None), expected, "{text:?}");
        }
    }

    #[test]
    fn a_table_has_a_kind_and_a_mark_in_each_line_and_the_first_that_fits_decides() {
        let table =
            ClientTable::parse("# ours\ntelevision  Our Box/\n\ntool ja4:t13d1516h2_\nphone Our\n").unwrap();
        assert!(table.needs_ja4());
        assert_eq!(table.kind(Some("Our Box/7"), Some("t13d1516h2_8daaf6152771")), ClientKind::Television);
        assert_eq!(table.kind(Some("Our App"), Some("t13d1516h2_8daaf6152771")), ClientKind::Tool);
        assert_eq!(table.kind(Some("Our App"), Some("t13d1517h2_8daaf6152771")), ClientKind::Phone);
        let wrong = ClientTable::parse("phone a\nradio b").unwrap_err();
        assert_eq!(wrong, "line 2: `radio` is no kind; write one of browser, phone, television, tool, other");
        assert_eq!(
            ClientTable::parse("phone").unwrap_err(),
            "line 1: write a part of User-Agent behind the kind"
        );
    }
}
