//! The index page: one document with links to everything else.

use serde_json::Value;

use crate::backend::Readiness;

/// The page in HTML.
pub(crate) fn index(readiness: Readiness, status: &Value) -> String {
    let (state, words) = match readiness {
        Readiness::Ready => ("ready", "serving"),
        Readiness::Draining => ("draining", "draining: running responses finish"),
    };
    let version = status["version"].as_str().map(escape).unwrap_or_default();
    let uptime = status["uptime_seconds"].as_u64().map(|seconds| format!(", up {}", duration(seconds)));
    PAGE.replace("{state}", state)
        .replace("{words}", words)
        .replace("{uptime}", &uptime.unwrap_or_default())
        .replace("{version}", &version)
}

const PAGE: &str = include_str!("page/index.html");

/// The two largest units.
fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_state_version_and_uptime() {
        let status = serde_json::json!({"version": "1.2.3", "uptime_seconds": 90_061});
        let page = index(Readiness::Draining, &status);
        assert!(page.contains("1.2.3") && page.contains("up 1 d 1 h") && page.contains("draining"));
        assert!(!page.contains("{version}") && !page.contains("{state}") && !page.contains("{uptime}"));
    }

    #[test]
    fn a_status_without_these_fields_leaves_them_out() {
        let page = index(Readiness::Ready, &Value::Null);
        assert!(page.contains("serving") && !page.contains(", up"));
    }

    #[test]
    fn text_of_the_backend_cannot_become_markup() {
        let page = index(Readiness::Ready, &serde_json::json!({"version": "<script>\"&"}));
        assert!(page.contains("&lt;script&gt;&quot;&amp;"));
    }

    #[test]
    fn durations_are_shown_in_their_largest_units() {
        let shown = [5, 65, 3600, 7_325, 86_400].map(duration);
        assert_eq!(shown, ["5 s", "1 min", "1 h 0 min", "2 h 2 min", "1 d 0 h"]);
    }
}
