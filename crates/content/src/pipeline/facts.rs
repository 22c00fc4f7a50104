//! What a single stage is given, for its tests: a site, the surroundings of a worker, and one request.

use penstock_config::{Origin, SiteSettings, Uncached};
use penstock_http::Rejection;
use penstock_origin::http::BodySender;

use crate::pipeline::request_body::RequestBody;
use crate::response::{ClientRequest, Exchange};
use crate::site_table::{RoutedSite, Site};
use crate::tests::fixture::{Fixture, client, head, http_origin, parse, site};

/// A site and the surroundings of a worker.
pub(super) struct Facts {
    pub(super) fixture: Fixture,
}

impl Facts {
    /// A site whose origin is asked through the cache.
    pub(super) fn cached(change: impl FnOnce(&mut SiteSettings)) -> Self {
        Self::of(Fixture::with(change))
    }

    /// A site whose origin is asked without the cache.
    pub(super) fn relayed(change: impl FnOnce(&mut SiteSettings)) -> Self {
        let mut origin = http_origin();
        if let Origin::Http(origin) = &mut origin {
            origin.uncached = Some(Uncached::default());
        }
        Self::of(Fixture::of(|_| site(origin, change)))
    }

    /// A site of files.
    pub(super) fn files(change: impl FnOnce(&mut SiteSettings)) -> Self {
        Self::of(Fixture::of(|directory| site(Origin::Directory(directory.to_owned()), change)))
    }

    fn of(fixture: Fixture) -> Self {
        Self { fixture }
    }

    /// The site with its routes.
    pub(super) fn sites(&self) -> &RoutedSite {
        self.fixture.sites.find("media.example", None).unwrap()
    }

    /// The site.
    pub(super) fn site(&self) -> &Site {
        self.sites().all().last().unwrap()
    }

    /// The outcome of `stage` for a request such as `GET /x` with these field lines, over TLS.
    pub(super) async fn ask<T>(
        &self,
        line: &str,
        fields: &str,
        stage: impl AsyncFnOnce(&mut Exchange<'_>) -> T,
    ) -> T {
        self.ask_by(|_| {}, line, fields, stage).await
    }

    /// The same from another client.
    pub(super) async fn ask_by<T>(
        &self,
        change: impl FnOnce(&mut ClientRequest<'_>),
        line: &str,
        fields: &str,
        stage: impl AsyncFnOnce(&mut Exchange<'_>) -> T,
    ) -> T {
        let head = head(line, fields);
        let request = parse(&head);
        let mut client = client(&request, false);
        change(&mut client);
        let mut exchange = Exchange::new(&self.fixture.context, &client, Some(self.site()));
        stage(&mut exchange).await
    }
}

/// The body of a request that records what it is asked for.
#[derive(Debug, Default)]
pub(super) struct RecordedBody {
    pub(super) calls: Vec<&'static str>,
    /// The answer of each method that can fail.
    pub(super) rejection: Option<Rejection>,
    /// Whether the client has left.
    pub(super) has_left: bool,
}

impl RecordedBody {
    fn called(&mut self, name: &'static str) -> Result<(), Rejection> {
        self.calls.push(name);
        self.rejection.map_or(Ok(()), Err)
    }
}

/// The rejection of a client that has left.
pub(super) const LEFT: Rejection =
    Rejection { status: penstock_http::Status::BadRequest, reason: "left", close: true };

impl RequestBody for RecordedBody {
    async fn pass_over(&mut self) -> Result<(), Rejection> {
        self.called("pass_over")
    }

    fn admit(&mut self) -> Result<(), Rejection> {
        self.called("admit")
    }

    async fn send_continue(&mut self) {
        self.calls.push("send_continue");
    }

    fn begin(&mut self, origin: BodySender) {
        self.calls.push("begin");
        origin.finish();
    }

    async fn send(&mut self) -> Result<(), Rejection> {
        self.called("send")
    }

    fn go_on(&mut self) {
        self.calls.push("go_on");
    }

    async fn departed(&self) -> Rejection {
        if self.has_left { LEFT } else { std::future::pending().await }
    }
}
