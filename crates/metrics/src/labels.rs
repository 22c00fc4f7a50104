//! Label values. A closed label is an enum, so its counters are a fixed array. The crate where the fact happens uses the
//! enum of this file, so that a label has one definition.

/// The value of a label that stands for all values beyond a bound.
pub(crate) const OTHER: &str = "other";

/// The label values of one counter in a counter vector.
pub(crate) trait LabelSet: Copy + Eq {
    /// Stands for every label set beyond the bound.
    const OTHER: Self;
}

impl LabelSet for &'static str {
    const OTHER: Self = OTHER;
}

impl LabelSet for (&'static str, &'static str) {
    const OTHER: Self = (OTHER, OTHER);
}

impl LabelSet for (Direction, &'static str) {
    const OTHER: Self = (Direction::Received, OTHER);
}

impl LabelSet for (HandshakePart, &'static str) {
    const OTHER: Self = (HandshakePart::Rest, OTHER);
}

impl LabelSet for (OutletKind, &'static str) {
    const OTHER: Self = (OutletKind::UserSpace, OTHER);
}

/// A label whose values are the variants of an enum.
pub(crate) trait LabelValue: Copy + 'static {
    /// Every value, in the order of its counters.
    const ALL: &'static [Self];

    /// The label value.
    fn label(self) -> &'static str;
}

/// Defines an enum whose variants are the values of one label.
macro_rules! labels {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// Every value, in the order of its counters.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];
            /// The label values, in the same order.
            pub const LABELS: &[&str] = &[$($text,)*];

            /// The label value.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl LabelValue for $name {
            const ALL: &'static [Self] = Self::ALL;

            fn label(self) -> &'static str { Self::label(self) }
        }
    };
}

mod load;

pub use load::{CpuMode, Sacrifice, Work};

labels! {
    /// The protocol of a listener.
    Protocol {
        /// HTTP over TLS.
        Https = "https",
        /// Plain HTTP.
        Http = "http",
    }
}

labels! {
    /// A version of HTTP.
    HttpLabel {
        /// HTTP/1.0 and HTTP/1.1.
        H1 = "h1",
        /// HTTP/2.
        H2 = "h2",
        /// HTTP/3.
        H3 = "h3",
    }
}

labels! {
    /// Why a connection was closed right after it was accepted.
    Refusal {
        /// The limit on open connections is reached.
        Limit = "limit",
        /// The process is out of file descriptors.
        Descriptors = "descriptors",
        /// Too many handshakes are unfinished.
        Handshakes = "handshakes",
        /// The client's network has too many connections or unfinished handshakes.
        Network = "network",
        /// The program is draining.
        Draining = "draining",
        /// It was the longest idle one, and a new connection needed its place.
        Evicted = "evicted",
    }
}

labels! {
    /// The direction of a TLS alert.
    Direction {
        /// From the client.
        Received = "received",
        /// To the client.
        Sent = "sent",
    }
}

labels! {
    /// The source of an OCSP response.
    StapleSource {
        /// A file of the configuration.
        File = "file",
        /// The responder that the certificate names.
        Responder = "responder",
    }
}

labels! {
    /// The outcome of an attempt to get an OCSP response.
    StapleOutcome {
        /// The response is stapled from now on.
        Ok = "ok",
        /// The file cannot be read.
        Unreadable = "unreadable",
        /// The responder cannot be reached.
        Unreachable = "unreachable",
        /// The responder took too long.
        Timeout = "timeout",
        /// The status of the HTTP response is not 200.
        HttpStatus = "http_status",
        /// The body is larger than any OCSP response.
        TooLarge = "too_large",
        /// The body is not an OCSP response.
        Malformed = "malformed",
        /// The responder refused the request.
        Refused = "refused",
        /// The response is about another certificate.
        WrongCertificate = "wrong_certificate",
        /// The signature of the response does not verify.
        BadSignature = "bad_signature",
        /// The signer of the response has no authority for the issuer.
        WrongResponder = "wrong_responder",
        /// The response is not valid yet.
        Early = "early",
        /// The response has expired.
        Stale = "stale",
        /// The certificate is revoked.
        Revoked = "revoked",
        /// The responder does not know the certificate.
        UnknownCertificate = "unknown_certificate",
    }
}

labels! {
    /// Whether the ClientHello was encrypted (ECH, RFC 9849).
    EncryptedHello {
        /// It was, with a key of this server.
        Accepted = "accepted",
        /// It was, with another key, or it was GREASE.
        Rejected = "rejected",
        /// It was not.
        NotOffered = "not_offered",
    }
}

labels! {
    /// Whether an OCSP response was sent with the certificate.
    StapleStatus {
        /// It was.
        Sent = "sent",
        /// The client asked for one, and there was none.
        Missing = "missing",
        /// The client did not ask for one.
        NotAsked = "not_asked",
    }
}

labels! {
    /// How the certificate was compressed (RFC 8879).
    CertificateCompression {
        /// Not at all.
        None = "none",
        /// With Brotli.
        Brotli = "brotli",
        /// With Zstandard.
        Zstd = "zstd",
        /// With zlib.
        Zlib = "zlib",
    }
}

labels! {
    /// The outcome of a session ticket that a client offered.
    TicketOutcome {
        /// Accepted; its key seals now or soon.
        AcceptedCurrent = "accepted_current_key",
        /// Accepted; a newer key seals now.
        AcceptedOld = "accepted_old_key",
        /// No key has that name.
        UnknownKey = "unknown_key",
        /// The ticket is too old.
        Expired = "expired",
        /// The ticket is from the future: the clocks of two machines differ.
        NotYetValid = "not_yet_valid",
        /// The key has that name but did not make the ticket.
        Forged = "forged",
        /// The ticket belongs to another version or cipher.
        Unsuitable = "unsuitable",
        /// The key is shared with other software, which made the ticket.
        OtherSoftware = "other_software",
    }
}

labels! {
    /// Why a file in the directory of ticket keys is not used.
    IgnoredTicketFile {
        /// It cannot be read.
        Unreadable = "unreadable",
        /// It does not hold a key.
        NotAKey = "not_a_key",
        /// Too many files come before it.
        TooMany = "too_many",
    }
}

labels! {
    /// The end of a wait for a session from a store outside this process.
    LookupWait {
        /// The store answered in time.
        Answered = "answered",
        /// The deadline passed.
        TimedOut = "deadline",
    }
}

labels! {
    /// The cause of a change of the choice of ChaCha20-Poly1305.
    ChaCha20Cause {
        /// The configuration names another mode.
        Configuration = "configuration",
        /// The admin listener set a mode.
        Admin = "admin",
        /// The load of the workers passed a limit in mode `auto`.
        Pressure = "pressure",
    }
}

labels! {
    /// A request to the store that edges share.
    FleetOperation {
        /// A handshake looks for a session.
        SessionFind = "session_find",
        /// A new session is stored.
        SessionStore = "session_store",
        /// A ClientHello with early data is recorded.
        Strike = "strike",
        /// Session ticket keys are read or written.
        TicketKeys = "ticket_keys",
        /// Purges are read.
        PurgeRead = "purge_read",
        /// A purge is written.
        PurgeWrite = "purge_write",
        /// The edge announces itself, or reads which others are present.
        Edges = "edges",
        /// What edges share of orders of certificates is read or written.
        Certificates = "certificates",
        /// Revoked ids of tokens are read.
        RevocationRead = "revocation_read",
        /// Revoked ids of tokens are written.
        RevocationWrite = "revocation_write",
    }
}

labels! {
    /// The outcome of a [`FleetOperation`].
    FleetOutcome {
        /// Done or found.
        Ok = "ok",
        /// Not found, or a ClientHello that was recorded before.
        Miss = "miss",
        /// No answer in time.
        Timeout = "timeout",
        /// The connection broke.
        Lost = "lost",
        /// The store has no memory left.
        Full = "full",
        /// The store refused it for another reason.
        Refused = "refused",
        /// The entry was not sealed with the fleet's secret, or for another purpose.
        Forged = "forged",
        /// Not asked: no connection, the circuit is open, or too many operations are under way.
        Skipped = "skipped",
        /// The client left before the answer.
        Abandoned = "abandoned",
    }
}

labels! {
    /// Why there is no connection with the store that edges share.
    FleetLoss {
        /// No connection, or no login.
        Unreachable = "unreachable",
        /// The connection broke.
        Broken = "broken",
        /// No answer in time.
        Unanswered = "unanswered",
        /// Commands are refused.
        Refused = "refused",
        /// A replica takes no entries.
        Replica = "replica",
        /// The store sent more than can be an answer.
        TooLarge = "too_large",
    }
}

labels! {
    /// Which objects a purge names.
    PurgeKind {
        /// One URL.
        Url = "url",
        /// All URLs with a prefix.
        Prefix = "prefix",
        /// All objects with a tag.
        Tag = "tag",
        /// The whole cache.
        Everything = "everything",
    }
}

labels! {
    /// Request methods with a label value of their own.
    Method {
        /// `GET`
        Get = "GET",
        /// `HEAD`
        Head = "HEAD",
        /// `OPTIONS`
        Options = "OPTIONS",
        /// `POST`
        Post = "POST",
        /// All other methods: a client cannot create label values.
        Other = "other",
    }
}

labels! {
    /// The first digit of a status code.
    StatusClass {
        /// 100-199
        Informational = "1xx",
        /// 200-299
        Success = "2xx",
        /// 300-399
        Redirection = "3xx",
        /// 400-499
        ClientError = "4xx",
        /// 500 and above
        ServerError = "5xx",
    }
}

labels! {
    /// A kind of client.
    ClientKind {
        /// A browser on a computer.
        Browser = "browser",
        /// A phone or a tablet.
        Phone = "phone",
        /// A television, a box beside one, or a console.
        Television = "television",
        /// A program that is no player for people.
        Tool = "tool",
        /// What is not known.
        Other = "other",
    }
}

labels! {
    /// How the cache handled a request.
    CacheOutcome {
        /// Stored and fresh.
        Hit = "hit",
        /// Stored and stale, while it is fetched again.
        Stale = "stale",
        /// Stored and stale; the origin was asked and has answered.
        Revalidated = "revalidated",
        /// Stored and stale; the origin failed.
        StaleIfError = "stale_if_error",
        /// Fetched for this request.
        Miss = "miss",
        /// Fetched for another request at the same time.
        Collapsed = "collapsed",
        /// Fetched for this request only.
        Uncacheable = "uncacheable",
        /// The method does not use the cache.
        Bypass = "bypass",
    }
}

impl CacheOutcome {
    /// The labels of those that are hits.
    pub(crate) const HITS: &[&str] = &["hit", "stale", "stale_if_error"];

    /// Whether the response came from the cache without a wait for an origin.
    #[must_use]
    pub const fn is_hit(self) -> bool {
        matches!(self, Self::Hit | Self::Stale | Self::StaleIfError)
    }
}

labels! {
    /// The kind of key that signed in a handshake.
    Signer {
        /// An ECDSA key.
        Ecdsa = "ecdsa",
        /// An RSA key.
        Rsa = "rsa",
        /// Another kind.
        Other = "other",
        /// No key: a session was resumed.
        None = "none",
    }
}

labels! {
    /// A part of the time of a handshake.
    HandshakePart {
        /// Waiting for the client or for a session store.
        Waiting = "waiting",
        /// Waiting for a permit to sign.
        Queued = "queued",
        /// Signing with the certificate's key.
        Signing = "signing",
        /// Waiting for the signature of a key on a keyserver or in a hardware module.
        SigningRemote = "signing_remote",
        /// Computing the shared secret.
        KeyExchange = "key_exchange",
        /// Everything else.
        Rest = "rest",
    }
}

labels! {
    /// The status of the last response to the client before its handshake.
    LastResponse {
        /// 200-299
        Success = "2xx",
        /// 300-399
        Redirection = "3xx",
        /// 400-499
        ClientError = "4xx",
        /// 500 and above
        ServerError = "5xx",
        /// No recent response is known.
        None = "none",
    }
}

labels! {
    /// How the bytes of a connection are encrypted and sent.
    OutletKind {
        /// Plain HTTP, not encrypted.
        Plain = "plain",
        /// TLS records sealed by this process.
        UserSpace = "user_space",
        /// TLS records sealed by the kernel.
        Kernel = "kernel",
        /// Packets of QUIC sealed by this process.
        Quic = "quic",
    }
}

labels! {
    /// Why a response ended before its last byte.
    ShortReason {
        /// The file became shorter than the announced length.
        Truncated = "truncated",
        /// The client closed or reset the connection.
        ClientClosed = "client_closed",
        /// The client read more slowly than the minimum rate.
        TooSlow = "too_slow",
        /// The origin failed during the body.
        Origin = "origin",
        /// The client sent more KeyUpdates than are allowed.
        KeyUpdates = "key_updates",
        /// The drain deadline passed.
        Drain = "drain",
        /// A file could not be read, or the socket failed in another way.
        Io = "io",
        /// A connection that had switched to another protocol had no bytes for too long.
        Idle = "idle",
    }
}

labels! {
    /// The result of a lookup in the memo of open files.
    FileLookup {
        /// The file is open and fresh.
        Hit = "hit",
        /// The file was opened.
        Open = "open",
        /// The file is open and was checked again, because the last check was too long ago.
        Revalidated = "revalidated",
        /// The file does not exist.
        Missing = "missing",
    }
}

labels! {
    /// The outcome of a reload.
    ReloadOutcome {
        /// The new version is in force.
        Applied = "applied",
        /// The new version has faults; the old one stays in force.
        Rejected = "rejected",
    }
}

labels! {
    /// Why an access log record was not written.
    LogLoss {
        /// The queue to the log's thread is full.
        QueueFull = "queue_full",
        /// The file cannot be written, for example because the disk is full.
        WriteError = "write_error",
        /// The log was closed before the record arrived.
        Closed = "closed",
    }
}

impl Signer {
    /// The label value of a kind of key.
    pub(crate) fn named(kind: &str) -> Self {
        Self::ALL.iter().copied().find(|signer| signer.label() == kind).unwrap_or(Self::Other)
    }
}

impl LastResponse {
    /// The class of a status code; an interim response counts as none.
    #[must_use]
    pub const fn of(status: u16) -> Self {
        match StatusClass::of(status) {
            StatusClass::Informational => Self::None,
            StatusClass::Success => Self::Success,
            StatusClass::Redirection => Self::Redirection,
            StatusClass::ClientError => Self::ClientError,
            StatusClass::ServerError => Self::ServerError,
        }
    }
}

impl Method {
    /// The label value of a method name of a request line, which is case-sensitive (RFC 9110 section 9.1).
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "OPTIONS" => Self::Options,
            "POST" => Self::Post,
            _ => Self::Other,
        }
    }
}

impl StatusClass {
    /// The class of a status code; a code outside 100-599 counts as the nearest class.
    #[must_use]
    pub const fn of(status: u16) -> Self {
        match status {
            0..=199 => Self::Informational,
            200..=299 => Self::Success,
            300..=399 => Self::Redirection,
            400..=499 => Self::ClientError,
            500.. => Self::ServerError,
        }
    }
}
