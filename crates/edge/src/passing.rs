//! Requests that are passed on to an origin with their body: POST and its like. Nothing of them is cached.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use penstock_config::{Forwarded, SignedUrls, limits};
use penstock_egress::{Part, Transmission};
use penstock_http::body::BodySkipper;
use penstock_http::{Method, Rejection, Request, RequestBody, Status, response};
use penstock_origin::http::{BodySender, Fetch, request_body};

use crate::cached::{HttpSite, Passing, Store, respond_passed};
use crate::connection::Connection;
use crate::respond::{Answer, Exchange};
use crate::settings::Settings;
use crate::signed_urls::{Bare, admit};
use crate::site::{Site, Source};

/// A request that may be passed on, and where to.
pub(crate) struct Passed<'r> {
    site: Arc<Site>,
    origin: Arc<HttpSite>,
    store: Store,
    bare: Bare<'r>,
}

impl<'r> Passed<'r> {
    /// Whether a request is passed on; if not, it is answered like any other.
    pub(crate) fn admit(settings: &Settings, request: &Request<'r>) -> Option<Self> {
        let Method::Other(method) = request.method() else { return None };
        let site = settings.sites.find(request.host())?;
        if !site.methods.iter().any(|known| known == method) || request.path().is_err() {
            return None;
        }
        let Source::Http(origin, store) = &site.source else { return None };
        let bare = match &site.signed_urls {
            Some(rules) => admit(rules, request, SystemTime::now()).ok()?,
            None => Bare { path: request.raw_path(), query: request.query().map(Cow::Borrowed) },
        };
        Some(Self { site: Arc::clone(site), origin: Arc::clone(origin), store: store.clone(), bare })
    }

    /// What the origin is asked. Its query is all there: rules for keys are none for what is not kept.
    fn fetch(&self, request: &Request<'_>, client: SocketAddr, secure: bool, early: bool) -> Option<Fetch> {
        let target = match &self.bare.query {
            Some(query) => format!("{}?{query}", self.bare.path),
            None => self.bare.path.to_owned(),
        };
        let mut fetch = Fetch { early, ..Fetch::get(target) };
        fetch.method = request.method().name().parse().ok()?;
        let connection: Vec<String> = request
            .values("connection")
            .map(|value| String::from_utf8_lossy(value).to_ascii_lowercase())
            .collect();
        let of_connection =
            |name: &str| connection.iter().any(|list| list.split(',').any(|option| option.trim() == name));
        for (name, value) in request.fields() {
            let lower = name.to_ascii_lowercase();
            match (lower.as_str(), &self.site.signed_urls) {
                (name, _) if of_connection(name) => {}
                ("cookie", Some(SignedUrls { cookie: Some(token), .. })) => {
                    let rest = without_cookie(value, token);
                    if !rest.is_empty() {
                        fetch.pass("cookie", rest.as_bytes());
                    }
                }
                (name, _) => drop(fetch.pass(name, value)),
            }
        }
        tell_who(&mut fetch, self.site.forwarded, request, client, secure);
        Some(fetch)
    }
}

/// Says who sent a request, and to whom (RFC 7239).
fn tell_who(fetch: &mut Fetch, how: Forwarded, request: &Request<'_>, client: SocketAddr, secure: bool) {
    let (address, host) = (client.ip(), request.host());
    let scheme = if secure { "https" } else { "http" };
    match how {
        Forwarded::XForwarded => {
            // Several lines are one list: what came before us stays in front.
            fetch.pass("x-forwarded-for", address.to_string().as_bytes());
            fetch.fields.remove("x-forwarded-proto");
            fetch.fields.remove("x-forwarded-host");
            fetch.pass("x-forwarded-proto", scheme.as_bytes());
            fetch.pass("x-forwarded-host", host.as_bytes());
        }
        Forwarded::Standard => {
            let node = if address.is_ipv6() { format!("\"[{address}]\"") } else { address.to_string() };
            let element = format!("for={node};proto={scheme};host=\"{host}\"");
            fetch.pass("forwarded", element.as_bytes());
        }
        Forwarded::Off => {}
    }
}

/// The value of Cookie without one of them: what let a client in here is not for the origin.
fn without_cookie(value: &[u8], name: &str) -> String {
    let text = String::from_utf8_lossy(value);
    let is_other = |cookie: &&str| cookie.split_once('=').map_or(*cookie, |(found, _)| found) != name;
    text.split(';').map(str::trim).filter(is_other).collect::<Vec<_>>().join("; ")
}

impl Connection {
    /// Passes a request on with its body, and says whether another one can follow its answer.
    pub(crate) async fn pass(
        &mut self,
        passed: &Passed<'_>,
        request: &Request<'_>,
        early: bool,
        settings: &Settings,
    ) -> Result<(Answer, bool), Rejection> {
        let length = match request.body() {
            RequestBody::None => Some(0),
            RequestBody::Length(length) => Some(length),
            RequestBody::Chunked => None,
        };
        let mut reader = BodySkipper::new(request.body(), settings.limits.body_bytes);
        // Before anything of it is sent on, if its length says so.
        reader.skip(&[])?;
        let secure = self.tls.is_some();
        if passed.site.signed_urls.is_some() {
            self.worker.shard.signed_url("accepted");
        }
        if early && passed.site.refuses_early {
            let exchange = self.exchange(request, early, false);
            return Ok((exchange.page(Some(&passed.site), Status::TooEarly), false));
        }
        let Some(fetch) = passed.fetch(request, self.client, secure, early) else {
            return Err(Rejection { status: Status::BadRequest, reason: "method", close: true });
        };
        let (sender, body) = request_body(length);
        let mut coming =
            Passing::start(&self.worker, &passed.store, &passed.origin, request.host(), fetch, body);
        if request.expect_continue() {
            let interim = vec![Part::Owned(response::CONTINUE.to_vec())];
            self.transmit(Transmission::new(interim), settings).await;
        }
        // An answer may come before all of the body has; then the rest is not waited for.
        let (early_answer, whole) = tokio::select! {
            biased;
            answer = coming.answer() => (answer, false),
            pumped = self.pump(&mut reader, sender, settings) => {
                pumped?;
                (coming.answer().await, true)
            }
        };
        let keep_alive = whole && self.may_stay(request, settings);
        let exchange = self.exchange(request, early, keep_alive);
        Ok((respond_passed(&exchange, &passed.site, &passed.store, early_answer).await, keep_alive))
    }

    fn exchange<'e>(&'e self, request: &'e Request<'e>, early: bool, keep_alive: bool) -> Exchange<'e> {
        let secure = self.tls.is_some();
        Exchange { worker: &self.worker, request, sent: request, secure, early, keep_alive }
    }

    /// Hands the body on as it comes, and no faster than it is taken.
    async fn pump(
        &mut self,
        reader: &mut BodySkipper,
        sender: BodySender,
        settings: &Settings,
    ) -> Result<(), Rejection> {
        const GONE: Rejection =
            Rejection { status: Status::RequestTimeout, reason: "body_incomplete", close: true };
        loop {
            let mut piece = Vec::new();
            let available = self.inbox.len().min(limits::PASSED_PIECE_BYTES);
            let read = reader.read(&self.inbox[..available], |content| piece.extend_from_slice(content))?;
            self.drop_from_inbox(read.consumed);
            if !piece.is_empty() && sender.send(piece).await.is_err() {
                // Its answer says why nobody takes the rest.
                std::future::pending::<()>().await;
            }
            if read.done {
                sender.finish();
                return Ok(());
            }
            let deadline = Instant::now() + settings.limits.head_deadline;
            if self.inbox.is_empty() && !self.pull_until(deadline).await {
                return Err(GONE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::without_cookie;

    #[test]
    fn the_token_is_taken_out_of_the_cookies() {
        for (sent, left) in [("pass=1", ""), ("a=1; pass=2;b=3", "a=1; b=3"), ("passport=1", "passport=1")] {
            assert_eq!(without_cookie(sent.as_bytes(), "pass"), left);
        }
    }
}
