//! Admit: whether a request may be answered. Each rule is a function from facts to `Result<(), Refusal>`.

mod guard;

use penstock_config::EarlyRequests;
use penstock_http::{Method, Rejection, Request, Status};

use crate::context::Context;
use crate::response::ClientRequest;
use crate::site::{AccessRefusal, Admitted, LimitReached, TokenRefusal, Visitor};
use crate::site_table::Site;

pub(super) use guard::{count, guard, refusal_page};

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No site answers for the authority.
    NoSite,
    /// The path could name another one for an origin, which another route may be for.
    AmbiguousPath,
    /// The site is out of service.
    Maintenance,
    /// The client expects something else than `100 Continue` (RFC 9110 §10.1.1).
    Expectation,
    /// The request came as early data, which the site refuses (RFC 8470 §5.2).
    Early,
    /// The request has passed through this site before (RFC 8586).
    Loop,
    /// There is no token as the site demands it. With the status that the site has for that.
    Token(TokenRefusal, Status),
    /// The client may not use the site.
    Access(AccessRefusal),
    /// The client, or all of them together, use the site too much.
    Limit(LimitReached),
    /// The request came for a cluster, and there is none.
    NoCluster,
    /// The body of the request, or its client.
    Body(Rejection),
}

impl Refusal {
    /// The status of the response.
    pub fn status(self) -> Status {
        match self {
            Self::NoSite | Self::NoCluster => Status::MisdirectedRequest,
            Self::Expectation => Status::ExpectationFailed,
            Self::Early => Status::TooEarly,
            Self::Loop => Status::LoopDetected,
            Self::Token(_, status) => status,
            Self::Access(
                AccessRefusal::Address
                | AccessRefusal::Country
                | AccessRefusal::Certificate
                | AccessRefusal::Referer,
            ) => Status::Forbidden,
            Self::Access(
                AccessRefusal::Credentials | AccessRefusal::TokenMissing | AccessRefusal::TokenInvalid,
            ) => Status::Unauthorized,
            Self::Maintenance | Self::Access(AccessRefusal::Busy) => Status::ServiceUnavailable,
            Self::Limit(_) => Status::TooManyRequests,
            Self::AmbiguousPath => Status::NotFound,
            Self::Body(rejection) => rejection.status,
        }
    }

    /// The word in the access log.
    pub fn label(self) -> &'static str {
        match self {
            Self::NoSite => "no_site",
            Self::AmbiguousPath => "ambiguous_path",
            Self::Maintenance => "maintenance",
            Self::Early => "early_data",
            Self::Loop => "loop",
            Self::Token(why, _) => why.label(),
            Self::NoCluster | Self::Expectation | Self::Access(_) | Self::Limit(_) | Self::Body(_) => {
                self.rejection().unwrap_or("refused")
            }
        }
    }

    /// The label for a request that is rejected before any rule of its site; `None` for the others, which have counters of
    /// their own.
    pub fn rejection(self) -> Option<&'static str> {
        match self {
            Self::Body(rejection) => Some(rejection.reason),
            Self::NoCluster => Some("no_cluster"),
            Self::Expectation => Some("unknown_expectation"),
            Self::Access(refusal) => Some(refusal.label()),
            Self::Limit(limit) => Some(limit.label),
            Self::NoSite
            | Self::AmbiguousPath
            | Self::Maintenance
            | Self::Early
            | Self::Loop
            | Self::Token(..) => None,
        }
    }
}

/// Admits a request. Returns its target without its token if the site needs one.
///
/// # Errors
/// The first rule that refuses it.
pub(super) fn admit<'r>(
    context: &Context,
    site: &Site,
    client: ClientRequest<'r>,
) -> Result<Option<Admitted<'r>>, Refusal> {
    expectation(client)?;
    early(site, client)?;
    has_passed(site, client)?;
    token(context, site, client)
}

fn expectation(client: ClientRequest<'_>) -> Result<(), Refusal> {
    if client.head.has_unknown_expectation() { Err(Refusal::Expectation) } else { Ok(()) }
}

fn early(site: &Site, client: ClientRequest<'_>) -> Result<(), Refusal> {
    if client.early && site.early_data == EarlyRequests::Refuse { Err(Refusal::Early) } else { Ok(()) }
}

fn has_passed(site: &Site, client: ClientRequest<'_>) -> Result<(), Refusal> {
    match site.http() {
        Some(http) if http.loop_member.has_passed(client.head) => Err(Refusal::Loop),
        _ => Ok(()),
    }
}

fn token<'r>(
    context: &Context,
    site: &Site,
    client: ClientRequest<'r>,
) -> Result<Option<Admitted<'r>>, Refusal> {
    // A CORS preflight carries no token.
    if site.tokens.is_none() || client.head.method() == Method::Options {
        return Ok(None);
    }
    let admitted = admitted(context, site, client, client.head);
    context.metrics.signed_url(admitted.as_ref().map_or_else(|(why, _)| why.label(), |_| "accepted"));
    admitted.map_err(|(why, status)| Refusal::Token(why, status))
}

/// What the tokens of a request of a client open; `None` if the site needs none. Counts nothing.
///
/// # Errors
/// Why they do not open the target, and the status for that.
pub(super) fn admitted<'r>(
    context: &Context,
    site: &Site,
    client: ClientRequest<'_>,
    request: &'r Request<'r>,
) -> Result<Option<Admitted<'r>>, (TokenRefusal, Status)> {
    let Some(verifier) = &site.tokens else { return Ok(None) };
    let (address, now) = (client.address.ip(), context.now());
    let visitor = Visitor {
        address,
        is_secure: client.secure,
        country: &|| site.access.as_ref()?.country(address, &context.io, now),
        is_revoked: &|id| context.is_revoked.as_ref().is_some_and(|is_revoked| is_revoked(id)),
        io: &context.io,
        now,
        wall: context.clock.wall(),
    };
    verifier.admit(request, &visitor).map(Some).map_err(|why| (why, verifier.status(why)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use penstock_config::{EarlyRequests, SigningKey, TokenRules};
    use penstock_sys::traffic::Secret;

    use super::*;
    use crate::pipeline::facts::Facts;
    use crate::site::tokens::makers::{encode, sign};
    use crate::tests::fixture::run;

    fn key() -> std::sync::Arc<SigningKey> {
        SigningKey::new("one", Secret::new([7; 32].to_vec())).into()
    }

    fn signing(site: &mut penstock_config::SiteSettings) {
        site.tokens = Some(TokenRules::signed_urls(vec![key()], "token", None));
    }

    #[test]
    fn an_expectation_other_than_continue_is_refused() {
        run(async {
            let facts = Facts::cached(|_| {});
            for (fields, expected) in [
                ("", Ok(())),
                ("Expect: 100-continue\r\n", Ok(())),
                ("Expect: magic\r\n", Err(Refusal::Expectation)),
            ] {
                let judged = facts.ask("GET /x", fields, async |asked| expectation(*asked.client)).await;
                assert_eq!(judged, expected, "{fields}");
            }
        });
    }

    #[test]
    fn early_data_are_refused_by_sites_that_say_so() {
        run(async {
            for (rule, is_early, expected) in [
                (EarlyRequests::Allow, true, Ok(())),
                (EarlyRequests::Refuse, false, Ok(())),
                (EarlyRequests::Refuse, true, Err(Refusal::Early)),
            ] {
                let facts = Facts::cached(|site| site.early_data = rule);
                let judged = facts.ask_by(
                    |client| client.early = is_early,
                    "GET /x",
                    "",
                    async |asked| early(facts.site(), *asked.client),
                );
                assert_eq!(judged.await, expected, "{rule:?} {is_early}");
            }
        });
    }

    #[test]
    fn a_request_that_has_passed_through_the_site_is_refused_and_that_of_another_site_is_not() {
        run(async {
            let (facts, files) = (Facts::cached(|_| {}), Facts::files(|_| {}));
            let mut fetch = penstock_origin::http::Fetch::get("/x");
            facts.site().http().unwrap().loop_member.add_to(&mut fetch, Some("other"));
            let own = fetch.fields["cdn-loop"].to_str().unwrap();
            for (fields, expected) in [
                (String::new(), Ok(())),
                ("CDN-Loop: other\r\n".to_owned(), Ok(())),
                (format!("CDN-Loop: {own}\r\n"), Err(Refusal::Loop)),
            ] {
                let judged =
                    facts.ask("GET /x", &fields, async |asked| has_passed(facts.site(), *asked.client));
                assert_eq!(judged.await, expected, "{fields}");
                let judged =
                    files.ask("GET /x", &fields, async |asked| has_passed(files.site(), *asked.client));
                assert_eq!(judged.await, Ok(()), "{fields}");
            }
        });
    }

    #[test]
    fn a_token_is_taken_out_of_the_target_and_a_preflight_needs_none() {
        run(async {
            let facts = Facts::cached(signing);
            let wall = facts.fixture.context.clock.wall();
            let token = |path, until| encode(&sign(&key(), path, until).unwrap());
            let good = token("/x", wall + Duration::from_secs(9));
            let old = token("/x", wall - Duration::from_secs(9));
            let missing = Refusal::Token(TokenRefusal::Missing, Status::Forbidden);
            let late = Refusal::Token(TokenRefusal::Expired, Status::Forbidden);
            for (line, expected) in [
                (format!("GET /x?a=1&token={good}"), Ok(Some(("/x".to_owned(), Some("a=1".to_owned()))))),
                ("GET /x".to_owned(), Err(missing)),
                (format!("POST /x?token={old}"), Err(late)),
                ("OPTIONS /x".to_owned(), Ok(None)),
            ] {
                let judged = facts.ask(&line, "", async |asked| {
                    let target = token_of(asked, &facts)?.map(|admitted| admitted.target);
                    Ok(target.map(|target| {
                        (target.path.into_owned(), target.query.map(|query| query.into_owned()))
                    }))
                });
                assert_eq!(judged.await, expected, "{line}");
            }
        });
    }

    fn token_of<'r>(
        asked: &crate::response::Exchange<'r>,
        facts: &Facts,
    ) -> Result<Option<Admitted<'r>>, Refusal> {
        token(&facts.fixture.context, facts.site(), *asked.client)
    }

    #[test]
    fn the_first_rule_that_refuses_gives_the_reason() {
        run(async {
            let facts = Facts::cached(|site| {
                signing(site);
                site.early_data = EarlyRequests::Refuse;
            });
            for (fields, is_early, expected) in [
                ("Expect: magic\r\n", true, Refusal::Expectation),
                ("", true, Refusal::Early),
                ("", false, Refusal::Token(TokenRefusal::Missing, Status::Forbidden)),
            ] {
                let judged = facts.ask_by(
                    |client| client.early = is_early,
                    "GET /x",
                    fields,
                    async |asked| {
                        admit(&facts.fixture.context, facts.site(), *asked.client)
                            .map(|unsigned| unsigned.is_some())
                    },
                );
                assert_eq!(judged.await, Err(expected));
            }
        });
    }
}
