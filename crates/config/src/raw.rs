//! The raw form: every key, with its meaning, its values and its default. Nothing is validated here.
//!
//! `docs/configuration.md` is made from this file.

mod access;
mod cluster;
mod keys;
mod log;
mod origin;
mod players;
mod route;
mod tokens;

use serde_saphyr::Spanned;

pub(crate) use self::access::{Access, BasicAccess, CountryAccess, JwtAccess, Pace, RequestRate, SiteLimits};
pub(crate) use self::cluster::{Cluster, ClusterNode};
pub(crate) use self::keys::{KeySource, Keyserver, KeyserverClient, PrivateKey};
pub(crate) use self::log::{AccessLog, Log, Qlog};
pub(crate) use self::origin::{Health, Origin, OriginServer, OriginTimeouts, S3};
pub(crate) use self::players::{Cmcd, Pathway, Steering};
pub(crate) use self::route::{Conditions, ErrorPage, Redirect, Respond, Route, Site};
pub(crate) use self::tokens::{SignedUrls, SigningKey, Tokens};
use crate::section::{Pairs, Sections, Text, Texts, WordOr, section};

section! {
    /// The whole file.
    Root {
        /// Further files: paths, or patterns such as `conf.d/*.yaml` whose files are read in the order of their names. See [one configuration for many edges](operations.md#one-configuration-for-many-edges).
        include: Texts, "list of files and patterns", "[]";
        /// Worker threads; `auto` is one for each core this process may use.
        workers: Text, "number or `auto`", "auto";
        /// Pin worker i to the i-th core this process may use. Not done if a CPU quota leaves it the time of fewer cores.
        affinity: Text, "`true`, `false`", "true";
        /// The user that the server becomes after a start as root: a name of `/etc/passwd`, or `uid:gid`. It keeps the capability to bind ports below 1024, nothing else; see [privileges.md](privileges.md).
        user: Text, "name", "no change";
        /// Where clients connect.
        listeners: Sections<Listener>, "list", "required";
        /// The policy of handshakes on listeners with `tls: true`.
        tls: Spanned<Tls>, "section", "";
        /// Sites by host name.
        sites: Sections<Site>, "list", "required";
        /// The cache of HTTP origins.
        cache: Spanned<Cache>, "section", "";
        /// Other Penstock servers that this one shares its cache with; see [cluster.md](cluster.md).
        cluster: Spanned<Cluster>, "section", "off";
        /// A store that several edges share; see [fleet.md](fleet.md).
        fleet: Spanned<Fleet>, "section", "off";
        /// The admin listener: `/`, `/status.json`, `/healthz`, `/metrics`, `/cache/purge`, `/tokens/revoke` and `/ciphers/chacha20` over plain HTTP.
        admin: Spanned<Admin>, "section", "off";
        /// Logs other than the program's own on stderr.
        log: Spanned<Log>, "section", "";
        /// What is counted, and how.
        metrics: Spanned<Metrics>, "section", "";
        /// Client limits.
        limits: Spanned<Limits>, "section", "";
    }
}

section! {
    /// One address that clients connect to.
    Listener {
        /// IP address and port; IPv6 in brackets. `[::]` does not include IPv4.
        address: Text, "IP:port", "required";
        /// A name for `listeners` of a site.
        name: Text, "name", "no name";
        /// `https` answers each request with a redirect to HTTPS, whatever the host; see [rules.md](rules.md#redirects).
        redirect: Text, "`https`", "off";
        /// HTTPS; without it plain HTTP.
        tls: Text, "`true`, `false`", "false";
        /// Versions of HTTP: `h1` is HTTP/1.0 and HTTP/1.1, `h2` HTTP/2. A client of HTTPS agrees on one by ALPN, and the server prefers HTTP/2. On plain HTTP a client of HTTP/2 has to know that it is spoken; see [http2.md](http2.md). `h3` is HTTP/3 over UDP, with `tls: true`, TLS 1.3 and beside `h1` or `h2`; it is no default where `proxy_protocol` is on or `tls.versions` lacks 1.3. See [http3.md](http3.md).
        protocols: Texts, "list of `h1`, `h2`, `h3`", "h1, h2 and h3 with `tls: true`, otherwise `[h1]`";
        /// IP_FREEBIND: listen on an address that no interface has yet, such as a virtual one that another machine may have. Without it the start fails, and the unit repeats it.
        freebind: Text, "`true`, `false`", "false";
        /// SO_SNDBUF; 0 leaves it to the kernel's autotuning.
        send_buffer: Text, "size", "0";
        /// SO_RCVBUF; 0 leaves it to the kernel's autotuning.
        receive_buffer: Text, "size", "0";
        /// TCP_NOTSENT_LOWAT: how much may lie unsent in the kernel for one connection; 0 leaves it to the system. With bbr at most 32 KiB for a fast connection, except on loopback.
        unsent_low_water: Text, "size", "512KiB";
        /// TCP_CONGESTION, such as `bbr` or `cubic`.
        congestion_control: Text, "name", "the system's";
        /// TCP_FASTOPEN: length of its queue; 0 is off.
        fast_open: Text, "number", "0";
        /// TCP_DEFER_ACCEPT: wake the server only when the client has sent something, in whole seconds; 0 is off.
        defer_accept: Text, "time", "0";
        /// Connections the kernel holds until they are accepted; the kernel cuts this to `net.core.somaxconn`.
        backlog: Text, "number", "4096";
        /// Each connection begins with a PROXY protocol header, version 1 or 2.
        proxy_protocol: Text, "`true`, `false`", "false";
        /// A path that the server answers itself, whatever the host, for health checks by a balancer, a relay or another edge: 200, or 503 once the server is about to stop (see `limits.lame_duck`).
        health: Text, "path such as `/healthz`", "off";
    }
}

section! {
    /// The policy of handshakes.
    Tls {
        /// Certificates, chosen by the name the client asks for and the signatures it knows.
        certificates: Sections<Certificate>, "list", "empty";
        /// Certificates for the hosts of the sites, ordered from a certificate authority and renewed; see [certificates.md](certificates.md#certificates-by-themselves-acme).
        acme: Spanned<Acme>, "section", "off";
        /// Supported versions. `"1.0"` and `"1.1"` are broken and only for devices that support nothing else; see [tls.md](tls.md#old-clients).
        versions: Texts, "list of `\"1.0\"`, `\"1.1\"`, `\"1.2\"`, `\"1.3\"`", "[\"1.2\", \"1.3\"]";
        /// Whether the kernel seals what is sent (kTLS): `auto` where it can and is measured to be faster, `on` wherever it can; see [kernel-tls.md](kernel-tls.md).
        kernel: Text, "`auto`, `on`, `off`", "auto";
        /// Key exchange groups, best first.
        groups: Texts, "list of `X25519MLKEM768`, `X25519`, `P-256`, `P-384`", "[X25519MLKEM768, X25519, P-256]";
        /// When a TLS 1.3 client is asked for another key share, which costs it a round trip: `needed` if it sent none of a group spoken here, `best` also if it sent none of the first one in `groups` that it knows.
        hello_retry: Text, "`needed`, `best`", "needed";
        /// Cipher suites and their order.
        ciphers: Spanned<Ciphers>, "section", "";
        /// Session ticket keys: random and rotated in memory, or shared as files or in the store of `fleet`.
        tickets: Spanned<Tickets>, "section", "";
        /// Sessions of TLS 1.2 kept in memory, for clients that resume without tickets; see
        /// [tls.md](tls.md#session-cache). A section shares them with other edges.
        session_cache: Spanned<WordOr<SharedSessions>>, "`internal`, `none` or section", "internal";
        /// OCSP responses sent with certificates: `auto` asks the responder that a certificate names; see [tls.md](tls.md#ocsp-stapling).
        ocsp: Spanned<WordOr<Ocsp>>, "`auto`, `off` or section", "off";
        /// 0-RTT: requests that a returning client sends before its handshake is finished; see [early-data.md](early-data.md).
        early_data: Spanned<EarlyData>, "section", "off";
        /// Encrypted ClientHello (RFC 9849); see [tls.md](tls.md#encrypted-clienthello).
        ech: Spanned<Ech>, "section", "off";
        /// How certificates are compressed for clients that can read it (RFC 8879), the preferred way first; `[]` not at all.
        certificate_compression: Texts, "list of `brotli`, `zstd`, `zlib`", "[brotli, zstd, zlib]";
        /// Certificates requested from clients; see [tls.md](tls.md#client-certificates).
        client_certificates: Spanned<ClientCertificates>, "section", "off";
        /// A file for session secrets in the format of Wireshark. A reader of the file can decrypt all traffic.
        key_log: Text, "file", "no file";
    }
}

section! {
    /// A certificate with its private key, or a directory of many; see [certificates.md](certificates.md).
    Certificate {
        /// PEM file: the certificate, then its intermediates.
        chain: Text, "file", "required without `directory`";
        /// PEM file: the private key, not encrypted; or where the key is instead.
        key: Spanned<WordOr<PrivateKey>>, "file or section", "required without `directory`";
        /// PEM file: a copy of a key that is elsewhere. It signs while the other place fails.
        fallback: Text, "file", "no copy";
        /// Instead of the two: a directory of any number of certificates, read when clients ask for them.
        directory: Text, "directory", "no directory";
        /// `true`: the one for clients that send no name or an unknown one, at most one of each kind of key; with no
        /// such mark the first of each kind. `no_sni`: only for clients that send no name, which are old ones.
        default: Text, "`true`, `false`, `no_sni`", "false";
        /// OCSP stapling of this certificate; overrides `tls.ocsp`.
        ocsp: Spanned<WordOr<Ocsp>>, "`auto`, `off` or section", "that of `tls`";
    }
}

section! {
    /// Certificates ordered from a certificate authority (ACME, RFC 8555); see [certificates.md](certificates.md#certificates-by-themselves-acme).
    Acme {
        /// `true`: you agree to the authority's terms of service, which its site has.
        agree_to_terms: Text, "`true`", "required";
        /// Where the authority may write to, about its terms or a problem.
        email: Text, "address", "no address";
        /// URL of the authority's directory.
        directory: Text, "URL of https", "https://acme-v02.api.letsencrypt.org/directory";
        /// Where the account, certificates, keys and answers to challenges are kept. Servers that share it share them.
        storage: Text, "directory", "/var/lib/penstock/acme";
        /// Share account, certificates and answers with the other edges of `fleet` in its store: one of them orders at a time. See [certificates.md](certificates.md#several-servers).
        valkey: Text, "`true`, `false`", "false";
        /// How the authority is shown that a name leads here: `http-01` on port 80, `tls-alpn-01` on port 443, `dns-01` by a TXT record.
        challenge: Text, "`http-01`, `tls-alpn-01`, `dns-01`", "http-01";
        /// With `dns-01`: the program that sets and removes the record. It is called with `present` or `cleanup`, the name of the record and its value.
        command: Text, "file", "required with `dns-01`";
        /// The kind of private keys; each certificate has a new one.
        key: Text, "`ecdsa-p256`, `ecdsa-p384`", "ecdsa-p256";
        /// The profile of the certificates, such as `shortlived` for six days at Let's Encrypt.
        profile: Text, "name", "the authority's choice";
        /// PEM file: the root authorities that sign the certificate of the authority's own server, for a private one.
        ca_file: Text, "file", "those of the system";
        /// The account elsewhere that the new account belongs to (external account binding, RFC 8555 section 7.3.4), if the authority demands one.
        external_account: Spanned<ExternalAccount>, "section", "no account";
    }
}

section! {
    /// An account that the authority has made another way.
    ExternalAccount {
        /// Its identifier, as the authority tells it.
        id: Text, "text", "required";
        /// A file with its key in base64url, as the authority tells it.
        key_file: Text, "file", "required";
    }
}

section! {
    /// Encrypted ClientHello.
    Ech {
        /// Keys as `*.pem` files; the newest is told to clients, older ones still work. `penstock ech new` writes them.
        directory: Text, "directory", "required";
    }
}

section! {
    /// Certificates requested from clients.
    ClientCertificates {
        /// PEM file: the root authorities that sign clients' certificates. No other authority is trusted.
        ca: Text, "file", "required";
        /// `required`: handshakes without a certificate fail. `optional`: clients without one are served; a wrong one fails all the same.
        mode: Text, "`optional`, `required`", "as `required`";
        /// PEM file: lists of revoked certificates (CRLs), one of each authority. Read again by SIGHUP.
        crl: Text, "file", "nothing is revoked";
    }
}

section! {
    /// An OCSP response that another program fetches.
    Ocsp {
        /// The response in DER; read again when it changes, and sent only while it is valid for the certificate.
        file: Text, "file", "required";
    }
}

section! {
    /// Which clients get which cipher; see [handshakes under pressure](tls.md#ciphers).
    Ciphers {
        /// Suites of TLS 1.3, best first. One that is not listed is not spoken.
        tls13: Texts, "list of `TLS_AES_128_GCM_SHA256`, `TLS_AES_256_GCM_SHA384`, `TLS_CHACHA20_POLY1305_SHA256`", "all, in this order";
        /// Suites of TLS 1.2, best first, by their names in OpenSSL or in the IANA registry: `ECDHE-ECDSA-` or `ECDHE-RSA-` with `AES128-GCM-SHA256`, `AES256-GCM-SHA384` or `CHACHA20-POLY1305`. One that is not listed is not spoken.
        tls12: Texts, "list of names", "all, in this order";
        /// ChaCha20-Poly1305: `client` for clients that put it first, because AES is slow for them; `never` only for clients that offer nothing else; `auto` as `client` until the CPU is short.
        chacha20: Text, "`client`, `never`, `auto`", "client";
    }
}

section! {
    /// Session ticket keys. A ticket may be used for `rotate` times (`keep` - 1), as long as its key is kept for sure.
    Tickets {
        /// Keys shared with other servers as files; see [tickets.md](tickets.md). Without it they are random.
        directory: Text, "directory", "random keys";
        /// Keys shared with the other edges of `fleet` in its store, which makes them. All edges should have the same `rotate` and `keep`; see [fleet.md](fleet.md#ticket-keys).
        valkey: Text, "`true`, `false`", "false";
        /// How often a new key seals; with `directory`, how often you promise to add one.
        rotate: Text, "time", "12h";
        /// Keys that open tickets: the sealing one and older ones.
        keep: Text, "number", "3";
        /// How long a new file's key only opens tickets, so that every server has it before it seals on one.
        introduction: Text, "time", "5s";
    }
}

section! {
    /// Sessions of TLS 1.2 that edges share.
    SharedSessions {
        /// Keep them in this process and in the store of `fleet`, where every edge finds them.
        valkey: Text, "`true`, `false`", "false";
    }
}

section! {
    /// Requests before the handshake is finished (0-RTT). An attacker who records one can send it again.
    EarlyData {
        /// How much of it is acted upon before the handshake is finished; what comes behind waits.
        max_bytes: Text, "size up to 14KiB", "4KiB";
        /// Have requests that could be replays wait for the end of the handshake; `false` answers them at once, for content that is public and the same for every client.
        anti_replay: Text, "`true`, `false`", "true";
        /// Where requests are recorded, so that replays are known: in this process, or by `valkey` in the store of `fleet`, so that a replay to another edge is known too. Without an answer in time a request waits for the end of the handshake.
        register: Text, "`process`, `valkey`", "process";
    }
}

section! {
    /// What answers the requests of a site, or of one of its routes.
    SiteSettings {
        /// Where the bytes come from.
        origin: Spanned<Origin>, "section", "required";
        /// Caching of an HTTP origin's responses.
        cache: Spanned<SiteCache>, "section", "";
        /// Response fields beyond those of the file.
        headers: Spanned<Headers>, "section", "";
        /// What pages of other origins may do, with more than `headers.cors` says; see [caching.md](caching.md#cors). Without either the fields of an HTTP origin are sent, and it answers OPTIONS.
        cors: Spanned<Cors>, "section", "left to the origin";
        /// Methods that are forwarded to an HTTP origin with their body, beside GET, HEAD and OPTIONS; see [caching.md](caching.md#other-methods). `[]` answers them with 405.
        methods: Texts, "list of names", "[POST, PUT, PATCH, DELETE]";
        /// How an HTTP origin learns the client's address: `x_forwarded` by `X-Forwarded-For`, `-Proto` and `-Host`, `forwarded` by `Forwarded` (RFC 7239), or not at all.
        forwarded: Text, "`x_forwarded`, `forwarded`, `off`", "x_forwarded";
        /// `X-Request-Id` of each request to an HTTP origin and of each response, also in the access log: `generate` makes a new id for each request, `preserve` takes the client's if it has at most 128 plain characters, and otherwise makes one; see [access-log.md](access-log.md#request-ids).
        request_id: Text, "`off`, `generate`, `preserve`", "off";
        /// Serve only requests with a valid token, in a format of other systems or in the own one; `off` on a route needs none. See [signed-urls.md](signed-urls.md).
        tokens: Spanned<WordOr<Tokens>>, "section or `off`", "off";
        /// As `tokens` with `format: penstock`.
        signed_urls: Spanned<SignedUrls>, "section", "off";
        /// Who may use it, by address, referring page or password; see [access.md](access.md).
        access: Spanned<Access>, "section", "no rules";
        /// How much of it clients may use; see [limits.md](limits.md).
        limits: Spanned<SiteLimits>, "section", "no limits";
        /// Requests that came as early data (0-RTT): `allow` answers them; `refuse` answers 425, and the client asks again.
        early_data: Text, "`allow`, `refuse`", "allow";
        /// Files of a directory whose path has a segment that begins with a dot, such as `.env` or `.git/config`: `deny` answers 404, `allow` serves them. `.well-known` is always served.
        dot_files: Text, "`allow`, `deny`", "deny";
        /// Compress manifests, subtitles and other small texts for clients that accept it: files, and what the cache has of an HTTP origin; see [caching.md](caching.md#compression).
        compress: Text, "`true`, `false`", "true";
        /// The file that answers for a directory.
        index: Text, "file name", "index.html";
        /// `https` answers requests of plain HTTP with a redirect to HTTPS, or a section that redirects all requests; see [rules.md](rules.md#redirects).
        redirect: Spanned<WordOr<Redirect>>, "`https` or section", "off";
        /// A response without an origin; see [rules.md](rules.md#fixed-responses).
        respond: Spanned<Respond>, "section", "off";
        /// The path that the origin is asked for instead, with variables; the query stays. See [rules.md](rules.md#rewrites).
        rewrite: Text, "path such as `/vod/{rest}`", "off";
        /// Pages in place of those of this server, for statuses from 400 on; see [rules.md](rules.md#error-pages).
        error_pages: Sections<ErrorPage>, "list", "[]";
        /// How fast each response is sent; see [limits.md](limits.md#pace).
        pace: Spanned<Pace>, "section", "off";
        /// While this file exists, requests get 503; see [rules.md](rules.md#maintenance).
        maintenance: Text, "file", "off";
        /// The host that requests should ask for; those for another one get a redirect to it.
        canonical_host: Text, "host name", "off";
        /// What is done with what players say of themselves (CMCD); see [players.md](players.md#cmcd).
        cmcd: Spanned<Cmcd>, "section", "";
        /// Tell players the throughput and the round-trip time of their connection (`CMSD-Dynamic`, CTA-5006); see [players.md](players.md#cmsd).
        cmsd: Text, "`true`, `false`", "false";
        /// Content steering of HLS and DASH players; see [players.md](players.md#content-steering).
        steering: Spanned<Steering>, "section", "off";
        /// Paths with a segment that names the title that is counted; see [numbers.md](numbers.md#what-a-title-is).
        title_patterns: Texts, "list of at most 8 paths with `{title}`", "those of `metrics`";
    }
}

section! {
    /// Caching of an HTTP origin's responses.
    SiteCache {
        /// Freshness of a response without explicit freshness (RFC 9111 section 4.2).
        default_ttl: Text, "time", "60s";
        /// Freshness of a 404, 405, 410, 414 or 501 without explicit freshness.
        missing_ttl: Text, "time", "1s";
        /// Freshness by status, for responses without explicit freshness: `{200: 1h, 404: 5s, 5xx: 1s}`. A status counts before its class. See [caching.md](caching.md#rules-of-a-site).
        ttl: Pairs, "statuses with times", "no statuses";
        /// Whether `Cache-Control`, `CDN-Cache-Control` and `Expires` of the origin do not count: `no-store` and `private` neither. See [caching.md](caching.md#rules-of-a-site).
        ignore_origin: Text, "`true`, `false`", "false";
        /// How long a stale response is sent while a newer one is fetched, if the origin does not say it (RFC 5861).
        stale_while_revalidate: Text, "time", "0s";
        /// How long a stale response stands in for a 5xx of the origin or for none, if the origin does not say it (RFC 5861).
        stale_if_error: Text, "time", "0s";
        /// How long a stale response stands in for an origin that is down, whatever it said: it gives no response, or a 502, 503 or 504.
        grace: Text, "time", "0s";
        /// Requests that go past the cache to the origin, as they came.
        bypass: Spanned<Bypass>, "section", "no requests";
        /// Cookies that go to the origin, and tell one variant from another; no others do.
        cookies: Texts, "list of names", "no cookies";
        /// Fields of requests that go to the origin, such as `Accept-Encoding`; no others do. Answers are kept apart by those that Vary names; see [caching.md](caching.md#variants).
        vary: Texts, "list of names", "[]";
        /// Which parameters of the query tell one object from another: `all`, `ignore_all`, or a section. The origin is asked without the others.
        query: Spanned<WordOr<QueryRules>>, "`all`, `ignore_all` or section", "all";
        /// Segments of an HLS playlist that are fetched ahead when a viewer asks for one; 0 is off. See [live.md](live.md#prefetching).
        prefetch: Text, "number", "1";
        /// Fetch by the number in the name (`seg-7.m4s`, then `seg-8.m4s`) where no playlist tells what comes next and `prefetch` is not 0; see [live.md](live.md#prefetching).
        prefetch_numbers: Text, "`true`, `false`", "false";
        /// Whether requests wait for a response that another request has asked the origin for already. See [caching.md](caching.md#coalescing).
        coalescing: Text, "`true`, `false`", "true";
    }
}

section! {
    /// Requests that go past the cache: those with any of these. Their responses are not stored.
    Bypass {
        /// Fields of the request.
        fields: Texts, "list of names", "no fields";
        /// Cookies.
        cookies: Texts, "list of names", "no cookies";
        /// Parameters of the query.
        query: Texts, "list of names", "no parameters";
    }
}

section! {
    /// Which parameters of the query tell one object from another. Those of HLS itself (`_HLS_msn` and so on) always do.
    QueryRules {
        /// All but these: names, or starts of names such as `utm_*`.
        ignore: Texts, "list of names", "no names";
        /// Only these.
        keep: Texts, "list of names", "all names";
        /// Whether their order does not matter.
        sort: Text, "`true`, `false`", "false";
    }
}

section! {
    /// The cache of HTTP origins.
    Cache {
        /// The part of an object that is asked for, kept and dropped as one; a multiple of 4 KiB.
        slice: Text, "size", "1MiB";
        /// The memory tier.
        memory: Spanned<MemoryTier>, "section", "";
        /// The disk tier: directories on disks, for what is asked for again; see [cache.md](cache.md).
        disk: Sections<DiskTier>, "list", "empty";
    }
}

section! {
    /// A directory of the disk tier of the cache.
    DiskTier {
        /// A directory on a disk for this program alone; made if it is missing.
        directory: Text, "directory", "required";
        /// Space it may take, at least 16 slices.
        size: Text, "size", "required";
    }
}

section! {
    /// The memory tier of the cache: files on tmpfs.
    MemoryTier {
        /// A directory on tmpfs for this program alone; made if it is missing.
        directory: Text, "directory", "/dev/shm/penstock";
        /// Memory it may take.
        size: Text, "size", "1GiB";
    }
}

section! {
    /// Response fields of a site.
    Headers {
        /// Strict-Transport-Security, on HTTPS only: its `max-age` such as `180d`, or a section with more; see [tls.md](tls.md#hsts).
        hsts: Spanned<WordOr<Hsts>>, "time or section", "not sent";
        /// Changes to the fields of responses; see [rules.md](rules.md#header-rules).
        response: Spanned<FieldRules>, "section", "no changes";
        /// Changes to the fields of requests to an HTTP origin.
        request: Spanned<FieldRules>, "section", "no changes";
        /// Access-Control-Allow-Origin: `*` or one origin such as `https://player.example.com`. `cors` of the site has more.
        cors: Text, "origin", "not sent";
    }
}

section! {
    /// Changes to fields, in the order remove, set, add.
    FieldRules {
        /// Fields that are left out.
        remove: Texts, "list of names", "[]";
        /// Fields with their only values, which may have variables.
        set: Pairs, "names with values", "no fields";
        /// Fields with further values.
        add: Pairs, "names with values", "no fields";
    }
}

section! {
    /// What pages of other origins may do with the responses of a site.
    Cors {
        /// The origins whose pages may read responses: `"*"`, or origins such as `https://player.example.com`. The origin of a request that is in the list is sent back.
        origins: Texts, "list of origins", "required";
        /// Allow requests with cookies and other credentials. Needs named origins.
        credentials: Text, "`true`, `false`", "false";
        /// Request fields that a page may send beside Range, If-Range, If-None-Match, If-Modified-Since and the four CMCD fields, such as `Authorization`.
        allow: Texts, "list of names", "[]";
        /// Response fields that a page may read beside Content-Length, Content-Range, Date, ETag, Age, Cache-Status, CMSD-Static and CMSD-Dynamic.
        expose: Texts, "list of names", "[]";
        /// How long browsers may keep the answer to a preflight.
        max_age: Text, "time", "1d";
    }
}

section! {
    /// Strict-Transport-Security (RFC 6797).
    Hsts {
        /// How long browsers insist on HTTPS for this host; 0 tells them to forget it.
        max_age: Text, "time", "required";
        /// Insist on it for every name below this one too.
        include_subdomains: Text, "`true`, `false`", "false";
        /// Agree to be built into browsers, which takes months to undo. Needs `include_subdomains` and a year.
        preload: Text, "`true`, `false`", "false";
    }
}

section! {
    /// A fleet: edges that share a Valkey or Redis store. Purges reach all of them; `tls.tickets`, `tls.session_cache` and `tls.early_data` say what else they share.
    Fleet {
        /// The store: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://` for TLS, or `unix://[USER@]/PATH`.
        valkey: Text, "URL", "required";
        /// A file with the password of the store, readable by its owner only, so that no password stands in the URL.
        password_file: Text, "file", "no password";
        /// A file with at least 32 bytes, the same on each edge and readable by its owner only. All that is stored is sealed with it.
        secret: Text, "file", "required";
        /// How long a handshake waits for the store, from 5ms to 1s.
        deadline: Text, "time", "20ms";
        /// The name of this edge; each has another.
        name: Text, "name", "host name and port of the first listener";
        /// A directory of this program's own for the last ticket keys, so that a start without the store has them, for revoked ids of tokens, so that such a start refuses them, and for the position in the stream of purges, so that a start applies those that were missed only.
        state: Text, "directory", "not kept";
        /// PEM file: the authorities that sign the certificate of the store.
        ca: Text, "file", "those of the system";
    }
}

section! {
    /// The admin listener.
    Admin {
        /// IP address and port, or `unix:` and the path of a Unix socket, which is removed and made anew at the start. Without `token` it has no password: keep it on loopback or a private network, or on a socket.
        address: Text, "IP:port or `unix:PATH`", "127.0.0.1:9600";
        /// Permissions of the Unix socket: `0600` for its owner, `0660` for its group too.
        mode: Text, "`0600`, `0660`", "0600";
        /// DNS names that clients may use for it, such as the target of a Prometheus scrape. IP addresses and `localhost` always work; other names get 421, since a web page could point its own name here (DNS rebinding).
        hosts: Texts, "list of names", "[]";
        /// A file with a token of at least 16 bytes on one line, which its owner alone may read. Every request but `/healthz` then needs it: `Authorization: Bearer TOKEN`, or as the password of any user, which browsers ask for. The commands of this program read it from here.
        token: Text, "file", "none is needed";
    }
}

section! {
    /// What is counted, and how; see [numbers.md](numbers.md).
    Metrics {
        /// Bytes per second that renditions need, at most 8: `penstock_site_slow_responses_total` counts, for each, the responses that clients received more slowly.
        rates: Texts, "list of sizes", "[]";
        /// Paths with a segment that names the title: `/vod/{title}/*`. See [numbers.md](numbers.md#what-a-title-is).
        title_patterns: Texts, "list of at most 8 paths with `{title}`", "[]";
        /// Directories at the beginning of any other path that name a title: `/vod/film/` with 2.
        title_directories: Text, "number from 1 to 8", "2";
        /// A table of the kinds of clients, in place of the built-in one.
        clients: Text, "file", "the built-in table";
    }
}

section! {
    /// Client limits. A request or connection beyond them is refused or closed, and counted.
    Limits {
        /// Open connections of all workers together, or fewer if the process may not open so many descriptors. For the next one an idle connection is closed, the longest idle of its worker or one of another; if none is idle, the new one is refused.
        connections: Text, "number", "100000";
        /// Open connections of one client network (/24 of IPv4, /56 of IPv6), of all workers together; 0 is no limit. This machine itself is not limited; behind a balancer use `proxy_protocol`, or all clients count as one network.
        connections_per_network: Text, "number", "1000";
        /// TLS handshakes that one worker works on at the same time.
        handshakes_in_flight: Text, "number", "2048";
        /// TLS handshakes in flight of one client network (/24 of IPv4, /56 of IPv6), shared evenly by the workers; 0 is no limit. This machine itself is not limited; behind a balancer use `proxy_protocol`, or all clients count as one network.
        handshakes_per_network: Text, "number", "2048";
        /// Full TLS handshakes in a second, shared evenly by the workers; 0 is no limit. `auto` limits them only while the CPU is short, to as many as leave time to those who are served, see [pressure.md](pressure.md). A client that offers to resume a session is not limited; see [tls.md](tls.md#limits).
        handshake_rate: Text, "number or `auto`", "0";
        /// The CPU is short while the workers spend more than this part of their time on it, in percent; see [pressure.md](pressure.md). Less than the default where other programs, or a quota of a container, leave the workers less.
        busy_percent: Text, "number from 10 to 85", "85";
        /// From accept, or from the end of the PROXY header, to the end of the handshake, in total.
        handshake_deadline: Text, "time", "10s";
        /// From the first byte of a request to the end of its head, in total; then 408.
        head_deadline: Text, "time", "10s";
        /// How long a connection may stay open without a request.
        idle_timeout: Text, "time", "75s";
        /// Bytes per second that a client has to take on average, or its connection is closed; 0 is no limit.
        minimum_rate: Text, "size", "1KiB";
        /// How long a client may take less than that.
        minimum_rate_grace: Text, "time", "30s";
        /// Requests answered on one connection before it is closed.
        requests_per_connection: Text, "number", "100000";
        /// A request head; then 431.
        head_bytes: Text, "size", "16KiB";
        /// Fields of a request head; then 431.
        head_fields: Text, "number", "100";
        /// A request target (path and query); then 414.
        target_bytes: Text, "size", "8KiB";
        /// A request body that is forwarded to an origin; then 413.
        body_bytes: Text, "size", "16MiB";
        /// Bytes per second that a client has to send of such a body on average; then 408. 0 is no limit.
        upload_rate: Text, "size", "1KiB";
        /// How long a client may send less than that.
        upload_rate_grace: Text, "time", "30s";
        /// From the head of such a request to the end of its body, in total; then 408.
        upload_deadline: Text, "time", "10m";
        /// Requests with methods such as POST that one client network (/24 of IPv4, /56 of IPv6) may have under way at an origin; then 429. Each takes one of the origin's `connections`. 0 is no limit; this machine itself is not limited.
        forwarded_per_network: Text, "number", "64";
        /// Fetches from origins that one client network (/24 of IPv4, /56 of IPv6) may have under way: misses, parts that are not in the cache, blocking reloads, and responses that are not cached; then 429 with `Retry-After`. Each takes one of the origin's `connections`, or waits for one. Requests that wait for the fetch of another do not count. Below the `connections` of each origin, it leaves some to other networks. 0 is no limit; this machine itself is not limited; behind a balancer use `proxy_protocol`, or all clients count as one network.
        fetches_per_network: Text, "number", "128";
        /// Files one worker keeps open.
        open_files: Text, "number", "4096";
        /// Requests that wait for one fetch from an origin, or begin to read what it brings; then 503 with `Retry-After`, or what is stale where that may be sent. When half of them wait, requests of a client network (/24 of IPv4, /56 of IPv6) that has a quarter of this number waiting are refused, so that others have the rest; this machine itself is not limited.
        waiters_per_fill: Text, "number", "50000";
        /// How long the server goes on accepting after a signal to stop. Meanwhile health checks get 503, each response ends its connection (`Connection: close`, GOAWAY), and idle connections stay open, so that clients and balancers move away without losing a request. Without an admin listener, a listener with `health`, and a site of a cluster with `steering` it ends as soon as no connection is open. 0 closes listeners and idle connections at once.
        lame_duck: Text, "time", "5s";
        /// How long running responses may take after that.
        drain_deadline: Text, "time", "30s";
        /// How long a new process (SIGUSR2) may take until it accepts connections. Then it is ended, and this one goes on.
        successor_start: Text, "time", "1m";
    }
}
