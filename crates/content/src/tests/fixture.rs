//! A context with a scripted origin, a small store and one site, and responses with their bytes.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use penstock_config::{
    Cache, CachePolicy, Forwarded, HostPattern, HttpOrigin, MemoryTier, Origin, Site, SiteSettings,
};
use penstock_egress::Part;
use penstock_http::{HeadLimits, OriginUrl, Rejection, Request};
use penstock_metrics::Metrics;
use penstock_origin::directory::{OpenFiles, OpenFilesLimits};
use penstock_origin::http::BodySender;
use penstock_origin::io_threads::{IoLimits, IoThreads};
use penstock_sys::heap::allocations;
use tempfile::TempDir;
use tokio::task::{JoinHandle, LocalSet};

use super::scripted::ScriptedOrigin;
use crate::cache_status::CacheStatus;
use crate::clock::Clock;
use crate::context::Context;
use crate::fault::BodyError;
use crate::handle::{Audience, Clients, handle};
use crate::nodes::PeerService;
use crate::peers::Peers;
#[cfg(test)]
use crate::pipeline::Handled;
use crate::pipeline::RequestBody;
use crate::remembered::{Bitrates, CompressedManifests, FileHeads, ObjectHeads};
use crate::response::{Body, ClientRequest, ContentLength, Response};
use crate::site::{HttpSite, KnownKeys};
use crate::site_table::{SiteOrigin, SiteTable};
use crate::store::Store;

/// Length of a slice.
pub(crate) const SLICE: usize = 64 * 1024;
/// A client of a network that is limited, unless the context says otherwise.
const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Slices of the memory tier.
const SLICES: u64 = 64;

/// Runs a test on a clock that moves when all tasks wait. A test that waits for nothing fails.
pub(crate) fn run<F: Future<Output = ()>>(test: F) {
    run_with_files(async {
        let stalled = tokio::time::timeout(Duration::from_secs(24 * 3600), test).await.is_err();
        assert!(!stalled, "all tasks wait, and nothing will wake them");
    });
}

/// The same for tests whose files are opened by other threads, of which the clock does not know.
pub(crate) fn run_with_files<F: Future<Output = ()>>(test: F) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

/// Bytes that differ at each place.
pub(super) fn content(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|place| u8::try_from((place * 31 + place / 251 + seed) % 256).unwrap()).collect()
}

pub(crate) struct Fixture {
    pub(crate) context: Rc<Context>,
    pub(crate) sites: Arc<SiteTable>,
    pub(crate) origin: Rc<ScriptedOrigin>,
    pub(crate) store: Arc<Store>,
    directory: TempDir,
}

/// A response with its bytes.
pub(crate) struct OriginAnswer {
    pub(crate) status: u16,
    pub(crate) length: ContentLength,
    pub(crate) body: Vec<u8>,
    /// Why the body ended too soon.
    pub(crate) fault: Option<BodyError>,
    pub(crate) cache_status: Option<CacheStatus>,
    fields: Vec<(String, String)>,
}

impl OriginAnswer {
    /// The value of a field; several lines are joined by a comma, and no line is the empty string.
    pub(crate) fn field(&self, name: &str) -> String {
        let of_name = self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        of_name.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Status, label of the cache status, and body as text.
    pub(crate) fn summary(&self) -> (u16, &'static str, String) {
        let label = self.cache_status.map_or("", CacheStatus::label);
        (self.status, label, String::from_utf8_lossy(&self.body).into_owned())
    }
}

/// A site for all hosts.
pub(crate) fn site(origin: Origin, change: impl FnOnce(&mut SiteSettings)) -> Site {
    let mut settings = SiteSettings {
        cache: CachePolicy { prefetch: 0, ..CachePolicy::default() },
        methods: Vec::new(),
        forwarded: Forwarded::Off,
        ..SiteSettings::new(origin)
    };
    change(&mut settings);
    Site { hosts: vec![HostPattern::Any], listeners: None, routes: Vec::new(), settings }
}

pub(crate) fn http_origin() -> Origin {
    let url = OriginUrl::parse("http://192.0.2.1:80/").unwrap();
    Origin::Http(Box::new(HttpOrigin::new(vec![(url, 1)])))
}

fn open_store(directory: &Path) -> Arc<Store> {
    let memory = MemoryTier { directory: directory.join("memory"), size: SLICES * SLICE as u64 };
    let slice = u32::try_from(SLICE).unwrap();
    Store::open(&Cache { slice, memory, disks: Vec::new() }).unwrap()
}

fn context(origin: &Rc<ScriptedOrigin>) -> Rc<Context> {
    let io = Arc::new(IoThreads::start(IoLimits { threads: 1, queued: 64, queued_later: 64 }).unwrap());
    let limits = OpenFilesLimits { max_files: 64, max_absent: 64, recheck_after: Duration::from_secs(1) };
    Rc::new(Context {
        clock: Clock::starting_at(SystemTime::now()),
        metrics: Metrics::new(1).shard(0),
        files: OpenFiles::new(Arc::clone(&io), limits),
        file_heads: FileHeads::default(),
        object_heads: ObjectHeads::default(),
        known_keys: KnownKeys::default(),
        given_up: Arc::default(),
        compressed: Arc::new(CompressedManifests::default()),
        bitrates: Bitrates::default(),
        io,
        origins: Box::new(Rc::clone(origin)),
        waiters_per_fill: Cell::new(1000),
        waits: Arc::default(),
        fetches: Arc::default(),
        fetches_per_network: Cell::new(0),
        is_revoked: None,
        random: || 7,
    })
}

impl Fixture {
    /// One site whose bytes come from the scripted origin.
    pub(crate) fn cached() -> Self {
        Self::with(|_| {})
    }

    /// The same, changed.
    pub(crate) fn with(change: impl FnOnce(&mut SiteSettings)) -> Self {
        Self::of(|_| site(http_origin(), change))
    }

    /// One site whose objects these nodes share.
    pub(super) fn in_cluster(peers: &Arc<Peers>) -> Self {
        Self::in_cluster_with(peers, |_| {})
    }

    /// The same, changed.
    pub(super) fn in_cluster_with(peers: &Arc<Peers>, change: impl FnOnce(&mut SiteSettings)) -> Self {
        let fixture = Self::cached();
        let mut origin = http_origin();
        if let Origin::Http(origin) = &mut origin {
            origin.peers = true;
        }
        let sites = [site(origin, change)];
        let sites = SiteTable::open(&sites, None, Some(&fixture.store), Some(peers)).unwrap();
        Self { sites: Arc::new(sites), ..fixture }
    }

    /// The site that `make` makes, given an empty directory.
    pub(crate) fn of(make: impl FnOnce(&Path) -> Site) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = open_store(directory.path());
        let sites = SiteTable::open(&[make(directory.path())], None, Some(&store), None).unwrap();
        let origin = Rc::new(ScriptedOrigin::default());
        Self { context: context(&origin), sites: Arc::new(sites), origin, store, directory }
    }

    /// These sites, with a scripted origin.
    pub(super) fn of_sites(sites: &[Site]) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = open_store(directory.path());
        let sites = SiteTable::open(sites, None, Some(&store), None).unwrap();
        let origin = Rc::new(ScriptedOrigin::default());
        Self { context: context(&origin), sites: Arc::new(sites), origin, store, directory }
    }

    /// Ends the process and starts the next one with what the memory tier has kept.
    pub(super) fn restarted(self, site: Site) -> Self {
        self.store.leave();
        let Self { context, origin, directory, store, sites } = self;
        drop((sites, store));
        let store = open_store(directory.path());
        let sites = SiteTable::open(&[site], None, Some(&store), None).unwrap();
        Self { context, sites: Arc::new(sites), origin, store, directory }
    }

    /// The same sites and store on another worker, whose context is made by its thread.
    pub(super) fn on_worker(sites: Arc<SiteTable>, store: Arc<Store>) -> Self {
        let origin = Rc::new(ScriptedOrigin::default());
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        Self { context: context(&origin), sites, origin, store, directory }
    }

    /// The response to `GET /x` or another method and target, with these field lines.
    pub(super) async fn open(&self, line: &str, fields: &str) -> Response {
        self.open_as(line, fields, false).await
    }

    /// The same, as early data or not.
    pub(super) async fn open_as(&self, line: &str, fields: &str, early: bool) -> Response {
        open(&self.context, &self.sites, line, fields, early, CLIENT).await
    }

    /// The response with its bytes.
    pub(crate) async fn get(&self, line: &str, fields: &str) -> OriginAnswer {
        read(&self.context, self.open(line, fields).await).await
    }

    /// The response to a request of another node.
    pub(super) async fn respond_to_peer(&self, peers: &Arc<Peers>, line: &str, fields: &str) -> OriginAnswer {
        let head = head(line, fields);
        let request = parse(&head);
        let service = PeerService { sites: &self.sites, peers, store: Some(&self.store) };
        let audience = Audience::Nodes(Some(service));
        let handled = handle(&self.context, audience, client(&request, false), &mut Bodiless).await;
        read(&self.context, handled.response).await
    }

    /// The site.
    pub(super) fn http_site(&self) -> Arc<HttpSite> {
        let site = self.sites.find("media.example", None).unwrap();
        let Some(SiteOrigin::Http(http, _)) = site.all().last().map(|site| &site.origin) else {
            panic!("the site has an HTTP origin")
        };
        Arc::clone(http)
    }

    /// The same as a task.
    pub(super) fn spawn(&self, line: &str, fields: &str) -> JoinHandle<OriginAnswer> {
        self.spawn_as(line, fields, false)
    }

    /// The same, as early data or not.
    pub(super) fn spawn_as(&self, line: &str, fields: &str, early: bool) -> JoinHandle<OriginAnswer> {
        self.spawn_from(CLIENT, line, fields, early)
    }

    /// The same, for a client at this address.
    pub(super) fn spawn_from(
        &self,
        address: Ipv4Addr,
        line: &str,
        fields: &str,
        early: bool,
    ) -> JoinHandle<OriginAnswer> {
        let (context, sites) = (Rc::clone(&self.context), Arc::clone(&self.sites));
        let (line, fields) = (line.to_owned(), fields.to_owned());
        tokio::task::spawn_local(async move {
            let response = open(&context, &sites, &line, &fields, early, address).await;
            read(&context, response).await
        })
    }
}

/// The body of a request without one, of a client that stays.
struct Bodiless;

impl RequestBody for Bodiless {
    async fn pass_over(&mut self) -> Result<(), Rejection> {
        Ok(())
    }

    fn admit(&mut self) -> Result<(), Rejection> {
        Ok(())
    }

    async fn send_continue(&mut self) {}

    fn begin(&mut self, origin: BodySender) {
        origin.finish();
    }

    async fn send(&mut self) -> Result<(), Rejection> {
        Ok(())
    }

    fn go_on(&mut self) {}

    async fn departed(&self) -> Rejection {
        std::future::pending().await
    }
}

async fn open(
    context: &Rc<Context>,
    sites: &SiteTable,
    line: &str,
    fields: &str,
    early: bool,
    address: Ipv4Addr,
) -> Response {
    let head = head(line, fields);
    let request = parse(&head);
    let client = ClientRequest { address: (address, 40_000).into(), ..client(&request, early) };
    let before = allocations();
    let handled = handle(context, Audience::Clients(Clients::of(sites)), client, &mut Bodiless).await;
    ALLOCATIONS.set(allocations() - before);
    handled.response
}

/// The response to a head over a listener, over TLS or not.
#[cfg(test)]
pub(super) async fn open_by(
    context: &Rc<Context>,
    clients: Clients<'_>,
    head: &str,
    secure: bool,
) -> Handled {
    let request = parse(head);
    let client = ClientRequest { secure, ..client(&request, false) };
    handle(context, Audience::Clients(clients), client, &mut Bodiless).await
}

/// The response to a head as it stands.
pub(super) async fn open_head(context: &Rc<Context>, sites: &SiteTable, head: &str, early: bool) -> Response {
    let request = parse(head);
    handle(context, Audience::Clients(Clients::of(sites)), client(&request, early), &mut Bodiless)
        .await
        .response
}

pub(crate) fn head(line: &str, fields: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: media.example\r\n{fields}\r\n")
}

pub(crate) fn parse(head: &str) -> Request<'_> {
    let limits = HeadLimits { head_bytes: 16384, fields: 100, target_bytes: 8192 };
    Request::parse(head.as_bytes(), &limits).unwrap()
}

pub(crate) fn client<'r>(request: &'r Request<'r>, early: bool) -> ClientRequest<'r> {
    ClientRequest { head: request, address: (CLIENT, 40_000).into(), secure: true, certificate: None, early }
}

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Allocations of the last response of this thread, its body not read.
pub(super) fn allocations_of_response() -> u64 {
    ALLOCATIONS.get()
}

/// Reads the body of a response.
pub(crate) async fn read(context: &Rc<Context>, response: Response) -> OriginAnswer {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let head = &response.head;
    let fields = head.fields.iter().map(|(name, value)| (text(name), text(value))).collect();
    let status = head.status;
    let (mut body, mut fault) = (Vec::new(), None);
    let length = response.body.length();
    match response.body {
        Body::None | Body::Empty | Body::Withheld(_) | Body::Tunnel(_) => {}
        Body::Part(part) => append(&mut body, &part),
        Body::Parts(parts) => parts.iter().for_each(|part| append(&mut body, part)),
        Body::Stream(_, stream) => {
            let (first, mut stream) = *stream;
            let mut next = Some(first);
            while let Some(chunk) = next.take() {
                chunk.parts.iter().for_each(|part| append(&mut body, part));
                drop(chunk);
                match stream.next(context).await {
                    Ok(more) => next = more,
                    Err(error) => fault = Some(error),
                }
            }
        }
    }
    OriginAnswer { status, length, body, fault, cache_status: response.cache_status, fields }
}

fn append(body: &mut Vec<u8>, part: &Part) {
    part.append_to(body).expect("the files stay, and no body comes from a socket");
}
