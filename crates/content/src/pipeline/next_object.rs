//! Next object: what a player says it will ask for next (CMCD, CTA-5004), judged as the request that this will be.

use penstock_config::limits;
use penstock_http::Method;
use penstock_http::cmcd::{Cmcd, NextRequest};
use penstock_http::manifest::resolve;

use crate::pipeline::admit::admitted;
use crate::pipeline::rewrite::rewritten;
use crate::response::{Exchange, NextObject};
use crate::site::{split_target, without_cmcd};
use crate::site_table::{RoutedSite, Site};

/// What the player of an admitted request will ask for next, by what it says. The request for it has the fields of this one, and its query if
/// the player names none, so that a token in it is judged for the next path. Where that request would be refused, or answered
/// by another route, nothing is known.
pub(super) fn next_object(
    exchange: &Exchange<'_>,
    sites: &RoutedSite,
    site: &Site,
    said: &mut Cmcd,
) -> Option<NextObject> {
    let request = exchange.client.head;
    let next = said.next.take();
    if request.method() != Method::Get {
        return None;
    }
    if said.buffer.is_some_and(|buffer| buffer.as_secs() >= limits::FULL_BUFFER_SECONDS) {
        return Some(NextObject::Nothing);
    }
    let NextRequest { object, range } = *next?;
    let named = match object {
        Some(reference) => resolve(request.raw_path(), &reference)?,
        None => range.map(|_| request.raw_path().to_owned())?,
    };
    let (path, query) = split_target(&named);
    let next = request.with_target(path, query.or_else(|| request.query()));
    next.url_path().ok()?;
    if !sites.route(&next).is_ok_and(|route| std::ptr::eq(route, site)) {
        return None;
    }
    let admitted = admitted(exchange.context, site, *exchange.client, &next).ok()?;
    let plain = without_cmcd(&next, admitted.map(|admitted| admitted.target));
    let target = match &site.rewrite {
        None => plain,
        Some(rewrite) => rewritten(rewrite, &next, plain).ok()?,
    };
    let (path, query) = match &target {
        Some(target) => (&*target.path, target.query.as_deref()),
        None => (next.raw_path(), next.query()),
    };
    let target = site.http()?.target(path, query).into_owned();
    Some(NextObject::Object { target, range })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use penstock_config::{SigningKey, TokenRules};
    use penstock_sys::traffic::Secret;

    use super::*;
    use crate::pipeline::facts::Facts;
    use crate::site::tokens::makers::{encode, sign};
    use crate::tests::fixture::run;

    /// The target and the range of what comes next; `None` for nothing, and an empty target if nothing is needed.
    async fn next(facts: &Facts, target: &str, said: &str) -> Option<(String, Option<(u64, Option<u64>)>)> {
        let fields = format!("CMCD-Request: {said}\r\n");
        let sites = facts.sites();
        let line = format!("GET {target}");
        let asked = facts.ask(&line, &fields, async |asked| {
            let site = sites.route(asked.client.head).ok()?;
            next_object(asked, sites, site, &mut Cmcd::of(asked.client.head, true)?)
        });
        Some(match asked.await? {
            NextObject::Nothing => (String::new(), None),
            NextObject::Object { target, range } => (target, range),
        })
    }

    #[test]
    fn a_reference_is_resolved_against_the_path_and_stays_on_the_site() {
        run(async {
            let facts = Facts::cached(|_| {});
            let of = |target: &str| Some((target.to_owned(), None));
            for (said, expected) in [
                ("nor=\"b.m4s\"", of("/vod/one/b.m4s")),
                ("nor=\"..%2Ftwo%2Fb.m4s\"", of("/vod/two/b.m4s")),
                ("nor=\"..%2F..%2F..%2F..%2Fb.m4s\"", of("/b.m4s")),
                ("nor=\"%2Fb.m4s%3Fv=1\"", of("/b.m4s?v=1")),
                ("nor=\"b.m4s\",bl=29999", of("/vod/one/b.m4s")),
                ("nor=\"b.m4s\",bl=30000", of("")),
                ("bl=30000", of("")),
                ("bl=29999", None),
                ("nor=\"%2F%2Fother.example%2Fb\"", None),
                ("nor=\"https:%2F%2Fother.example%2Fb\"", None),
                ("nor=\"a b\"", None),
                ("nor=\"%0d%0aX:1\"", None),
                ("nor=\"b%00\"", None),
                ("nrr=\"5-9\"", Some(("/vod/one/a.m4s".to_owned(), Some((5, Some(9)))))),
            ] {
                assert_eq!(next(&facts, "/vod/one/a.m4s", said).await, expected, "{said}");
            }
            let kept = next(&facts, "/a?s=1&CMCD=bs&t=2", "nor=\"b\"").await;
            assert_eq!(kept, of("/b?s=1&t=2"), "the query of the request");
        });
    }

    #[test]
    fn a_token_opens_what_comes_next_or_nothing_is_fetched() {
        run(async {
            let key = || SigningKey::new("one", Secret::new([7; 32].to_vec()));
            let facts = Facts::cached(|site| {
                site.tokens = Some(TokenRules::signed_urls(vec![key().into()], "token", None));
            });
            let until = facts.fixture.context.clock.wall() + Duration::from_secs(9);
            let token = |path| encode(&sign(&key(), path, until).unwrap());
            let (one, all) = (token("/vod/a.m4s"), token("/vod/"));
            let of = |target: &str| Some((target.to_owned(), None));
            for (target, said, expected) in [
                (format!("/vod/a.m4s?token={all}"), "nor=\"b.m4s\"", of("/vod/b.m4s")),
                (format!("/token={all}/vod/a.m4s"), "nor=\"b.m4s\"", of("/vod/b.m4s")),
                (format!("/vod/a.m4s?token={one}"), "nor=\"b.m4s\"", None),
                (format!("/vod/a.m4s?token={all}"), "nor=\"..%2Fb.m4s\"", None),
                (format!("/token={all}/vod/a.m4s"), "nor=\"..%2F..%2Fvod%2Fb.m4s\"", None),
            ] {
                assert_eq!(next(&facts, &target, said).await, expected, "{target} {said}");
            }
        });
    }
}
