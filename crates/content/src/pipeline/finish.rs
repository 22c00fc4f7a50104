//! Finish: what a site puts on every response, pages of this server included.

use penstock_config::ErrorPage;

use crate::pipeline::field_rules::change_response;
use crate::request_id::REQUEST_ID;
use crate::response::{Exchange, Response};

/// The start of the names of all fields of CORS.
const CORS: &[u8] = b"access-control-";
const HSTS: &str = "Strict-Transport-Security";

/// Adds the fields of the site, and the pages that replace errors of its origin. What the site says replaces what its origin says. Strict-Transport-Security goes to clients
/// over TLS only (RFC 6797 §7.2).
pub(super) fn finish(exchange: &Exchange<'_>, response: &mut Response) {
    let Some(site) = exchange.site else { return };
    let status = response.head.status;
    let replaces = |page: &&ErrorPage| page.replaces_origin && page.statuses.contains(&status);
    if let Some(page) = site.error_pages.iter().find(replaces) {
        response.replace_content(page);
        if !exchange.wants_body() {
            response.withhold_body();
        }
    }
    let secure = exchange.client.secure;
    let fields = &mut response.head.fields;
    if site.cors.is_some() {
        fields.remove(|name| name.get(..CORS.len()).is_some_and(|start| start.eq_ignore_ascii_case(CORS)));
    }
    if site.hsts.is_some() || !secure {
        fields.remove(|name| name.eq_ignore_ascii_case(HSTS.as_bytes()));
    }
    if site.cmsd {
        // What the origin said of another connection, and perhaps of another time.
        fields.remove(|name| name.eq_ignore_ascii_case(b"CMSD-Dynamic"));
    }
    if let Some(cors) = &site.cors {
        cors.write(exchange.request, &site.allowed, fields);
    }
    if let (Some(policy), true) = (&site.hsts, secure) {
        fields.field(HSTS, policy);
    }
    if let Some(id) = exchange.told_id() {
        // The origin's may be of the request for which a cached response was fetched.
        fields.remove(|name| name.eq_ignore_ascii_case(REQUEST_ID.as_bytes()));
        fields.field(REQUEST_ID, id);
    }
    for (name, value) in exchange.given.get().into_iter().flat_map(|given| &given.0) {
        fields.parsed_field(name.as_bytes(), [value.as_bytes(), b""]);
    }
    if !site.response_rules.is_empty() {
        change_response(&site.response_rules, exchange, response.cache_status, fields);
    }
}

#[cfg(test)]
mod tests {
    use penstock_config::{Cors, CorsOrigins, Hsts};
    use penstock_http::Fields;

    use super::*;
    use crate::pipeline::facts::Facts;
    use crate::tests::fixture::run;

    const ORIGIN: &[u8] = b"access-control-allow-origin: https://a.example\r\nAccess-Control-Max-Age: 9\r\n\
        strict-transport-security: max-age=1\r\nx-a: 1\r\n";

    /// The fields of a response of an origin behind this stage, without Access-Control-Expose-Headers.
    async fn finished(facts: &Facts, line: &str, fields: &str, is_secure: bool) -> String {
        facts
            .ask_by(
                |client| client.secure = is_secure,
                line,
                fields,
                async |asked| {
                    let mut response = Response::no_content();
                    response.head.fields = Fields::from_lines(ORIGIN).unwrap();
                    finish(asked, &mut response);
                    response.head.fields.remove(|name| name == b"Access-Control-Expose-Headers");
                    String::from_utf8(response.head.fields.to_lines()).unwrap().replace("\r\n", "|")
                },
            )
            .await
    }

    fn cors(origins: CorsOrigins) -> Option<Cors> {
        Some(Cors { origins, ..Cors::same("*") })
    }

    #[test]
    fn without_rules_of_the_site_all_fields_stay_but_hsts_on_a_plain_connection() {
        run(async {
            let facts = Facts::cached(|_| {});
            let all = "access-control-allow-origin: https://a.example|Access-Control-Max-Age: 9|";
            assert_eq!(
                finished(&facts, "GET /x", "", true).await,
                format!("{all}strict-transport-security: max-age=1|x-a: 1|")
            );
            assert_eq!(finished(&facts, "GET /x", "", false).await, format!("{all}x-a: 1|"));
        });
    }

    #[test]
    fn what_the_site_says_replaces_what_its_origin_says() {
        run(async {
            let facts = Facts::cached(|site| {
                site.headers.cors = Some(Cors::same("*"));
                let max_age = std::time::Duration::from_secs(60);
                site.headers.hsts = Some(Hsts { max_age, include_subdomains: true, preload: false });
            });
            assert_eq!(
                finished(&facts, "GET /x", "", true).await,
                "x-a: 1|Access-Control-Allow-Origin: *|\
                 Strict-Transport-Security: max-age=60; includeSubDomains|"
            );
            assert_eq!(finished(&facts, "GET /x", "", false).await, "x-a: 1|Access-Control-Allow-Origin: *|");
        });
    }

    #[test]
    fn a_listed_origin_is_named_and_every_response_varies_by_it() {
        run(async {
            let listed = CorsOrigins::Listed(vec!["https://b.example".to_owned()]);
            let facts = Facts::cached(|site| site.headers.cors = cors(listed));
            assert_eq!(
                finished(&facts, "GET /x", "Origin: https://b.example\r\n", false).await,
                "x-a: 1|Vary: Origin|Access-Control-Allow-Origin: https://b.example|"
            );
            for other in ["", "Origin: https://c.example\r\n"] {
                assert_eq!(finished(&facts, "GET /x", other, false).await, "x-a: 1|Vary: Origin|");
            }
        });
    }

    #[test]
    fn a_preflight_is_told_the_methods_of_the_site() {
        run(async {
            let facts = Facts::cached(|site| {
                site.headers.cors = Some(Cors::same("*"));
                site.methods = vec!["POST".to_owned()];
            });
            let fields = finished(&facts, "OPTIONS /x", "", false).await;
            assert!(fields.contains("|Access-Control-Allow-Methods: GET, HEAD, OPTIONS, POST|"), "{fields}");
        });
    }
}
