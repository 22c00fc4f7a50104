//! The closed label sets: each is an enum, so its counters are a fixed array and its values cannot grow.

/// Defines an enum whose variants are the values of one Prometheus label.
macro_rules! labels {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// Every value, in the order of its counters.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];
            pub(super) const LABELS: &[&str] = &[$($text,)*];

            /// The value as it stands in the label.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

labels! {
    /// What a listener speaks.
    Protocol {
        /// HTTP over TLS.
        Https = "https",
        /// Plain HTTP.
        Http = "http",
    }
}

labels! {
    /// Why an accepted connection was closed at once.
    Refusal {
        /// The limit on open connections is reached.
        Limit = "limit",
        /// The process is out of file descriptors.
        Descriptors = "descriptors",
        /// Too many handshakes are unfinished.
        Handshakes = "handshakes",
        /// Too many handshakes of its network are unfinished.
        Network = "network",
        /// The program is draining.
        Draining = "draining",
    }
}

labels! {
    /// Which way a TLS alert went.
    Direction {
        /// The client sent it to us.
        Received = "received",
        /// We sent it to the client.
        Sent = "sent",
    }
}

labels! {
    /// Where an OCSP response came from.
    StapleSource {
        /// A file of the configuration.
        File = "file",
        /// The responder that the certificate names.
        Responder = "responder",
    }
}

labels! {
    /// What became of an OCSP response.
    StapleOutcome {
        /// It is stapled from now on.
        Ok = "ok",
        /// The file cannot be read.
        Unreadable = "unreadable",
        /// The responder cannot be reached.
        Unreachable = "unreachable",
        /// The responder took too long.
        Timeout = "timeout",
        /// The responder answered with another status than 200.
        HttpStatus = "http_status",
        /// The answer is larger than any response.
        TooLarge = "too_large",
        /// It is not an OCSP response.
        Malformed = "malformed",
        /// The responder refused to answer.
        Refused = "refused",
        /// It speaks of another certificate.
        WrongCertificate = "wrong_certificate",
        /// Its signature does not verify.
        BadSignature = "bad_signature",
        /// It is signed by somebody who may not.
        WrongResponder = "wrong_responder",
        /// It is not valid yet.
        Early = "early",
        /// It is valid no more.
        Stale = "stale",
        /// The certificate is revoked.
        Revoked = "revoked",
        /// The responder does not know the certificate.
        UnknownCertificate = "unknown_certificate",
    }
}

labels! {
    /// The request methods that are told apart; all others share one label value.
    Method {
        /// `GET`
        Get = "GET",
        /// `HEAD`
        Head = "HEAD",
        /// `OPTIONS`
        Options = "OPTIONS",
        /// `POST`
        Post = "POST",
        /// Anything else, so that a client cannot invent label values.
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
    /// What kind of key signed in a handshake.
    Signer {
        /// An ECDSA key.
        Ecdsa = "ecdsa",
        /// An RSA key.
        Rsa = "rsa",
        /// Another kind.
        Other = "other",
        /// Nobody: a session was resumed.
        None = "none",
    }
}

labels! {
    /// Where the time of a handshake goes.
    HandshakePart {
        /// The client has to say or take something first.
        Waiting = "waiting",
        /// Until it is this handshake's turn to sign.
        Queued = "queued",
        /// The certificate's key is at work.
        Signing = "signing",
        /// Computing the shared secret.
        KeyExchange = "key_exchange",
        /// Everything else.
        Rest = "rest",
    }
}

labels! {
    /// The status of the last response that the client of a new handshake was given.
    LastResponse {
        /// 200-299
        Success = "2xx",
        /// 300-399
        Redirection = "3xx",
        /// 400-499
        ClientError = "4xx",
        /// 500 and above
        ServerError = "5xx",
        /// None of late, or it is forgotten.
        None = "none",
    }
}

labels! {
    /// Who moves, and who encrypts, the bytes of a connection.
    OutletKind {
        /// No encryption: plain HTTP.
        Plain = "plain",
        /// TLS records sealed by this process.
        UserSpace = "user_space",
        /// TLS records sealed by the kernel.
        Kernel = "kernel",
    }
}

labels! {
    /// Why a response ended before its last byte.
    ShortReason {
        /// The file became shorter than the length already promised.
        Truncated = "truncated",
        /// The client closed or reset the connection.
        ClientClosed = "client_closed",
        /// The client took less than the minimum rate.
        TooSlow = "too_slow",
        /// The origin failed within the body.
        Origin = "origin",
        /// The drain deadline passed.
        Drain = "drain",
        /// A file could not be read, or the socket failed in another way.
        Io = "io",
    }
}

labels! {
    /// How a lookup in the memo of open files ended.
    FileLookup {
        /// Found and fresh.
        Hit = "hit",
        /// Not in the memo: opened.
        Open = "open",
        /// Found but older than the memo allows: checked again.
        Revalidated = "revalidated",
        /// There is no such file.
        Missing = "missing",
    }
}

labels! {
    /// How a reload of the configuration ended.
    ReloadOutcome {
        /// The new configuration is in force.
        Applied = "applied",
        /// The new configuration has faults; the old one stays in force.
        Rejected = "rejected",
    }
}

labels! {
    /// Why an access log record was not written.
    LogLoss {
        /// The log thread is behind and its queue is full.
        QueueFull = "queue_full",
        /// The file could not be written, as on a full disk.
        WriteError = "write_error",
        /// The log was closed before the record came.
        Closed = "closed",
    }
}

impl Signer {
    /// The label value of a kind of key.
    pub(super) fn named(kind: &str) -> Self {
        Self::ALL.iter().copied().find(|signer| signer.label() == kind).unwrap_or(Self::Other)
    }
}

impl LastResponse {
    /// The class of a status code; an answer that is not final counts as none.
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
    /// The label value of a method as it stood in the request line (case-sensitive, RFC 9110 section 9.1).
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
