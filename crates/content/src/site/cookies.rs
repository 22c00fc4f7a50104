//! Cookies of requests.

use penstock_http::Request;

/// The values of a cookie: a browser may send one for each path it was set for (RFC 6265 §5.4).
pub(crate) fn cookies_of<'r>(request: &Request<'r>, name: &str) -> impl Iterator<Item = &'r str> {
    let lines = request.values("cookie").filter_map(|line| str::from_utf8(line).ok());
    lines.flat_map(|line| line.split(';')).filter_map(move |cookie| {
        let (found, value) = cookie.trim().split_once('=')?;
        let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        (found == name).then_some(quoted.unwrap_or(value))
    })
}

/// The value of Cookie without some of them: tokens are not for the origin.
pub(crate) fn without_cookies(value: &[u8], names: &[String]) -> String {
    let text = String::from_utf8_lossy(value);
    let is_other = |cookie: &&str| {
        let name = cookie.split_once('=').map_or(*cookie, |(found, _)| found);
        !names.iter().any(|one| one == name)
    };
    text.split(';').map(str::trim).filter(is_other).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_taken_out_of_the_cookies() {
        let names = ["pass", "key"].map(str::to_owned);
        for (sent, left) in [
            ("pass=1", ""),
            ("a=1; pass=2;b=3;key=4", "a=1; b=3"),
            ("passport=1", "passport=1"),
            ("key; a=1", "a=1"),
        ] {
            assert_eq!(without_cookies(sent.as_bytes(), &names), left);
        }
    }
}
