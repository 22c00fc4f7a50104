//! The only policy of a request: site, lookup, answer. Everything else moves bytes.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use penstock_config::limits;
use penstock_egress::Part;
use penstock_http::conditional::{Precondition, Validators, evaluate};
use penstock_http::encoding::negotiate;
use penstock_http::multipart::{Boundary, Multipart};
use penstock_http::range::{Ranges, select};
use penstock_http::types::{content_type, is_text_compressible};
use penstock_http::{Encoding, HeadWriter, Method, Request, Status, Version, response};
use penstock_origin::directory::{Directory, LookupError};
use penstock_sys::file::{Extent, OpenFile};

use crate::cached::{Following, Outcome, Stretch, respond_from_cache};
use crate::settings::Settings;
use crate::signed_urls::admit;
use crate::site::{Site, Source};
use crate::worker::Worker;

/// What is sent for one request.
pub(crate) struct Answer {
    /// Status code.
    pub(crate) status: u16,
    /// The head, then the body, or as much of it as is there.
    pub(crate) parts: Vec<Part>,
    /// What keeps the bytes of `parts` in the cache, and where the rest comes from.
    pub(crate) rest: Option<(Stretch, Following)>,
    /// The end of the connection is the end of the body.
    pub(crate) ends_connection: bool,
    /// How it was come by, where a cache was asked.
    pub(crate) outcome: Option<Outcome>,
}

impl Answer {
    pub(crate) fn of_parts(status: u16, parts: Vec<Part>) -> Self {
        Self { status, parts, rest: None, ends_connection: false, outcome: None }
    }
}

/// One request and what surrounds it.
pub(crate) struct Exchange<'e> {
    pub(crate) worker: &'e Rc<Worker>,
    /// Without the token that may have signed it.
    pub(crate) request: &'e Request<'e>,
    /// As it was sent.
    pub(crate) sent: &'e Request<'e>,
    pub(crate) secure: bool,
    /// Whether it could be a replay: an origin that is asked because of it has to be told so (RFC 8470 §5.1).
    pub(crate) early: bool,
    pub(crate) keep_alive: bool,
}

/// A representation of a file: its type, its validators, and its bytes in the encoding that was agreed on.
struct Representation {
    content_type: &'static str,
    etag: String,
    modified: SystemTime,
    /// Whether other clients get it in another encoding.
    varies: bool,
    encoding: Encoding,
    body: Body,
}

enum Body {
    File(Arc<OpenFile>),
    Memory(Arc<[u8]>),
}

/// Room for a usual head, so that it is written without growing.
pub(crate) const HEAD_ROOM_BYTES: usize = 512;

/// Answers one request.
pub(crate) async fn respond(
    worker: &Rc<Worker>,
    settings: &Settings,
    request: &Request<'_>,
    secure: bool,
    early: bool,
    keep_alive: bool,
) -> Answer {
    let exchange = Exchange { worker, request, sent: request, secure, early, keep_alive };
    let Some(site) = settings.sites.find(request.host()) else {
        return exchange.page(None, Status::MisdirectedRequest);
    };
    if exchange.early && site.refuses_early {
        return exchange.page(Some(site), Status::TooEarly);
    }
    let (bare, target);
    let mut exchange = exchange;
    // OPTIONS is how browsers ask whether they may ask; they have no token to show then.
    if let Some(rules) = site.signed_urls.as_ref().filter(|_| request.method() != Method::Options) {
        let admitted = admit(rules, request, SystemTime::now());
        worker.shard.signed_url(admitted.as_ref().map_or_else(|why| why.label(), |_| "accepted"));
        let Ok(admitted) = admitted else { return exchange.page(Some(site), Status::Forbidden) };
        bare = admitted;
        target = request.with_target(bare.path, bare.query.as_deref());
        exchange.request = &target;
    }
    match request.method() {
        Method::Options => exchange.options(site),
        Method::Get | Method::Head => match &site.source {
            Source::Directory(directory) => match exchange.look_up(site, directory).await {
                Ok(representation) => exchange.conditional(site, representation),
                Err(answer) => answer,
            },
            Source::Http(origin, store) => respond_from_cache(&exchange, site, origin, store).await,
        },
        Method::Other(_) => exchange.page(Some(site), Status::MethodNotAllowed),
    }
}

impl Exchange<'_> {
    /// Finds the file, or the answer that says why there is none.
    async fn look_up(&self, site: &Site, directory: &Directory) -> Result<Representation, Answer> {
        let Ok(asked) = self.request.path() else {
            return Err(self.page(Some(site), Status::NotFound));
        };
        let index;
        let path = if asked.is_directory_like() {
            index = asked.child(&site.index).map_err(|_| self.page(Some(site), Status::NotFound))?;
            &index
        } else {
            asked
        };
        // A name that is not UTF-8 could only come from a file system that this server does not write.
        let Ok(name) = std::str::from_utf8(path.as_bytes()) else {
            return Err(self.page(Some(site), Status::NotFound));
        };
        match self.worker.files.open(directory, name, Instant::now()).await {
            Ok(file) => Ok(self.represent(path.file_name(), file).await),
            // An index that is a directory itself is none; a redirect would lead back here.
            Err(LookupError::IsDirectory) if !asked.is_directory_like() => {
                Err(self.redirect_to_directory(site))
            }
            Err(error) => Err(self.page(Some(site), status_of(error))),
        }
    }

    /// Decides the encoding. Only manifests and other small text come in several.
    async fn represent(&self, name: &[u8], file: Arc<OpenFile>) -> Representation {
        let etag = response::etag(file.len(), file.modified(), file.inode());
        let modified = file.modified();
        let varies = is_text_compressible(name) && file.len() <= limits::COMPRESSED_SOURCE_BYTES;
        let mut representation = Representation {
            content_type: content_type(name),
            etag,
            modified,
            varies,
            encoding: Encoding::Identity,
            body: Body::File(Arc::clone(&file)),
        };
        if !varies {
            return representation;
        }
        let encoding = negotiate(self.request.accept_encoding(), &[Encoding::Brotli, Encoding::Gzip]);
        let suffix = match encoding {
            Encoding::Identity => return representation,
            Encoding::Gzip => "-gzip\"",
            Encoding::Brotli => "-br\"",
        };
        if let Some(body) = self.worker.compressed.get(&file, encoding, &self.worker.io).await {
            // Other bytes need another strong validator (RFC 9110 §8.8.3.3).
            representation.etag.pop();
            representation.etag.push_str(suffix);
            representation.encoding = encoding;
            representation.body = Body::Memory(body);
        }
        representation
    }

    fn conditional(&self, site: &Site, representation: Representation) -> Answer {
        let validators = Validators { etag: &representation.etag, modified: representation.modified };
        match evaluate(self.request, &validators) {
            Precondition::NotModified => self.not_modified(site, &representation),
            Precondition::Failed => self.page(Some(site), Status::PreconditionFailed),
            Precondition::Serve { ranges_allowed } => {
                let range = self.request.range().filter(|_| ranges_allowed);
                self.serve(site, representation, range)
            }
        }
    }

    fn serve(&self, site: &Site, representation: Representation, range: Option<&str>) -> Answer {
        match representation.body {
            Body::Memory(ref body) => {
                let body = Arc::clone(body);
                self.whole(site, &representation, body.len() as u64, Part::Shared(body))
            }
            Body::File(ref file) => {
                let file = Arc::clone(file);
                match select(range, file.len(), limits::RANGES_PER_REQUEST) {
                    Ranges::Whole => {
                        self.whole(site, &representation, file.len(), Part::Extent(Extent::whole(file)))
                    }
                    Ranges::One(range) => self.one_range(site, &representation, &file, &range),
                    Ranges::Many(ranges) => self.many_ranges(site, &representation, &file, &ranges),
                    Ranges::Unsatisfiable => self.unsatisfiable(site, file.len()),
                }
            }
        }
    }

    fn whole(&self, site: &Site, representation: &Representation, length: u64, body: Part) -> Answer {
        let mut out = Vec::with_capacity(HEAD_ROOM_BYTES);
        let mut head = self.head(&mut out, Status::Ok);
        head.field("Content-Type", representation.content_type).content_length(length);
        self.describe(&mut head, representation);
        self.site_fields(&mut head, site);
        head.finish();
        self.with_body(Status::Ok, out, [body])
    }

    fn one_range(
        &self,
        site: &Site,
        representation: &Representation,
        file: &Arc<OpenFile>,
        range: &std::ops::Range<u64>,
    ) -> Answer {
        let mut out = Vec::with_capacity(HEAD_ROOM_BYTES);
        let mut head = self.head(&mut out, Status::PartialContent);
        head.field("Content-Type", representation.content_type)
            .content_length(range.end - range.start)
            .content_range(range, file.len());
        self.describe(&mut head, representation);
        self.site_fields(&mut head, site);
        head.finish();
        self.with_body(Status::PartialContent, out, extent_part(file, range))
    }

    fn many_ranges(
        &self,
        site: &Site,
        representation: &Representation,
        file: &Arc<OpenFile>,
        ranges: &[std::ops::Range<u64>],
    ) -> Answer {
        // Not a secret, only unlikely in a file.
        let boundary = Boundary::new(penstock_tls::random_number());
        let multipart = Multipart::new(boundary, representation.content_type, file.len(), ranges);
        let mut out = Vec::with_capacity(HEAD_ROOM_BYTES);
        let mut head = self.head(&mut out, Status::PartialContent);
        head.field("Content-Type", multipart.content_type()).content_length(multipart.content_length());
        self.describe(&mut head, representation);
        self.site_fields(&mut head, site);
        head.finish();
        let mut body = Vec::with_capacity(2 * ranges.len() + 1);
        for (index, range) in ranges.iter().enumerate() {
            let mut part_head = Vec::new();
            multipart.write_part_head(&mut part_head, index);
            body.push(Part::Owned(part_head));
            body.extend(extent_part(file, range));
        }
        let mut closing = Vec::new();
        multipart.write_closing(&mut closing);
        body.push(Part::Owned(closing));
        self.with_body(Status::PartialContent, out, body)
    }

    pub(crate) fn unsatisfiable(&self, site: &Site, length: u64) -> Answer {
        let status = Status::RangeNotSatisfiable;
        let mut out = Vec::with_capacity(HEAD_ROOM_BYTES);
        let mut head = self.head(&mut out, status);
        head.content_range_unsatisfied(length);
        self.site_fields(&mut head, site);
        self.finish_page(head, status);
        self.with_body(status, out, [page_body(status)])
    }

    fn not_modified(&self, site: &Site, representation: &Representation) -> Answer {
        let mut out = Vec::with_capacity(HEAD_ROOM_BYTES);
        let mut head = self.head(&mut out, Status::NotModified);
        self.describe(&mut head, representation);
        self.site_fields(&mut head, site);
        head.finish();
        Answer::of_parts(Status::NotModified.code(), vec![Part::Owned(out)])
    }

    fn redirect_to_directory(&self, site: &Site) -> Answer {
        let status = Status::MovedPermanently;
        // As it was sent, so that a token is not lost on the way.
        let query = self.sent.query().map(|query| format!("?{query}")).unwrap_or_default();
        // A path of our own, never another host: `//elsewhere/` would be read as one.
        let location = format!("/{}/{query}", self.sent.raw_path().trim_matches('/'));
        let mut out = Vec::with_capacity(HEAD_ROOM_BYTES);
        let mut head = self.head(&mut out, status);
        head.field("Location", location);
        self.site_fields(&mut head, site);
        self.finish_page(head, status);
        self.with_body(status, out, [page_body(status)])
    }

    fn options(&self, site: &Site) -> Answer {
        let mut out = Vec::with_capacity(HEAD_ROOM_BYTES);
        let mut head = self.head(&mut out, Status::NoContent);
        head.field("Allow", &site.allowed);
        if site.cors.is_some() {
            head.field("Access-Control-Allow-Methods", &site.allowed)
                .field("Access-Control-Allow-Headers", "Range, If-Range, If-None-Match, If-Modified-Since")
                .field("Access-Control-Max-Age", "86400");
        }
        self.site_fields(&mut head, site);
        head.finish();
        Answer::of_parts(Status::NoContent.code(), vec![Part::Owned(out)])
    }

    /// A tiny page that says no more than its status.
    pub(crate) fn page(&self, site: Option<&Site>, status: Status) -> Answer {
        self.page_saying(site, status, None)
    }

    /// The same with a member of Cache-Status (RFC 9211 §2).
    pub(crate) fn page_saying(
        &self,
        site: Option<&Site>,
        status: Status,
        cache_status: Option<&str>,
    ) -> Answer {
        let mut out = Vec::with_capacity(HEAD_ROOM_BYTES);
        let mut head = self.head(&mut out, status);
        if let (Status::MethodNotAllowed, Some(site)) = (status, site) {
            head.field("Allow", &site.allowed);
        }
        if status == Status::ServiceUnavailable {
            head.field("Retry-After", "1");
        }
        if let Some(member) = cache_status {
            head.field("Cache-Status", member);
        }
        if let Some(site) = site {
            self.site_fields(&mut head, site);
        }
        self.finish_page(head, status);
        self.with_body(status, out, [page_body(status)])
    }

    fn finish_page(&self, mut head: HeadWriter<'_>, status: Status) {
        head.field("Content-Type", PAGE_TYPE).content_length(status.body_text().len() as u64);
        head.finish();
    }

    fn head<'o>(&self, out: &'o mut Vec<u8>, status: Status) -> HeadWriter<'o> {
        self.head_that(out, status.code(), self.keep_alive)
    }

    /// The start of a head of a connection that stays open, or does not.
    pub(crate) fn head_that<'o>(&self, out: &'o mut Vec<u8>, code: u16, keep_alive: bool) -> HeadWriter<'o> {
        let mut head = begin_head(self.worker, out, code);
        match (self.request.version(), keep_alive) {
            (Version::Http10, true) => {
                head.field("Connection", "keep-alive");
            }
            (Version::Http11, false) => {
                head.field("Connection", "close");
            }
            (Version::Http11, true) | (Version::Http10, false) => {}
        }
        head
    }

    fn describe(&self, head: &mut HeadWriter<'_>, representation: &Representation) {
        head.field("ETag", &representation.etag).last_modified(representation.modified);
        match representation.encoding {
            Encoding::Identity => head.field("Accept-Ranges", "bytes"),
            Encoding::Gzip => head.field("Content-Encoding", "gzip"),
            Encoding::Brotli => head.field("Content-Encoding", "br"),
        };
        if representation.varies {
            head.field("Vary", "Accept-Encoding");
        }
    }

    pub(crate) fn site_fields(&self, head: &mut HeadWriter<'_>, site: &Site) {
        if let Some(origin) = &site.cors {
            head.field("Access-Control-Allow-Origin", origin)
                .field("Access-Control-Expose-Headers", "Content-Length, Content-Range, Date, ETag");
        }
        if let (Some(policy), true) = (&site.hsts, self.secure) {
            head.field("Strict-Transport-Security", policy);
        }
    }

    fn with_body(&self, status: Status, head: Vec<u8>, body: impl IntoIterator<Item = Part>) -> Answer {
        let mut parts = vec![Part::Owned(head)];
        if self.request.method() != Method::Head {
            parts.extend(body);
        }
        Answer::of_parts(status.code(), parts)
    }
}

fn status_of(error: LookupError) -> Status {
    match error {
        LookupError::NotFound
        | LookupError::OutsideRoot
        | LookupError::NotRegular
        | LookupError::IsDirectory => Status::NotFound,
        LookupError::Forbidden => Status::Forbidden,
        LookupError::Busy | LookupError::TooManyOpenFiles => Status::ServiceUnavailable,
        LookupError::Failed(_) => Status::InternalServerError,
    }
}

const PAGE_TYPE: &str = "text/plain; charset=utf-8";

fn page_body(status: Status) -> Part {
    Part::Owned(status.body_text().as_bytes().to_vec())
}

/// `None` never happens: `select` promises ranges inside the file.
fn extent_part(file: &Arc<OpenFile>, range: &std::ops::Range<u64>) -> Option<Part> {
    Extent::new(Arc::clone(file), range.start, range.end - range.start).map(Part::Extent)
}

fn begin_head<'o>(worker: &Worker, out: &'o mut Vec<u8>, code: u16) -> HeadWriter<'o> {
    let mut head = HeadWriter::with_code(out, code);
    worker.clock.with_date(SystemTime::now(), |date| {
        head.date(date);
    });
    head.field("Server", "penstock");
    head
}

/// The whole answer to a head that is not a request.
pub(crate) fn refusal(worker: &Worker, status: Status, keep_alive: bool) -> Vec<u8> {
    refusal_saying(worker, status, status.body_text(), keep_alive)
}

/// The whole answer to plain HTTP on a port that speaks TLS.
pub(crate) fn plain_http_on_tls_port(worker: &Worker) -> Vec<u8> {
    let text = "400 Bad Request: this port speaks HTTPS; use https:// in the address\n";
    refusal_saying(worker, Status::BadRequest, text, false)
}

fn refusal_saying(worker: &Worker, status: Status, text: &str, keep_alive: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_ROOM_BYTES);
    let mut head = begin_head(worker, &mut out, status.code());
    if !keep_alive {
        head.field("Connection", "close");
    }
    head.field("Content-Type", PAGE_TYPE).content_length(text.len() as u64);
    head.finish();
    out.extend_from_slice(text.as_bytes());
    out
}
