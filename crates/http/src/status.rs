//! The status codes that Penstock answers with, and the tiny pages that go with them.

macro_rules! statuses {
    ($($name:ident = $code:literal $phrase:literal),+ $(,)?) => {
        /// A final status code (RFC 9110 §15).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Status {
            $(#[doc = concat!($code, " ", $phrase)] $name = $code,)+
        }

        impl Status {
            /// Every status, in order of code.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The three-digit code.
            pub const fn code(self) -> u16 {
                match self { $(Self::$name => $code,)+ }
            }

            /// The reason phrase.
            pub const fn phrase(self) -> &'static str {
                match self { $(Self::$name => $phrase,)+ }
            }

            /// The status line, CRLF included. Always HTTP/1.1, to HTTP/1.0 clients too (RFC 9110 §2.5).
            pub const fn line(self) -> &'static str {
                match self { $(Self::$name => concat!("HTTP/1.1 ", $code, " ", $phrase, "\r\n"),)+ }
            }

            /// The body of a plain error page: code and phrase on one line.
            pub const fn body_text(self) -> &'static str {
                match self { $(Self::$name => concat!($code, " ", $phrase, "\n"),)+ }
            }
        }
    };
}

statuses! {
    Ok = 200 "OK",
    NoContent = 204 "No Content",
    PartialContent = 206 "Partial Content",
    MovedPermanently = 301 "Moved Permanently",
    Found = 302 "Found",
    SeeOther = 303 "See Other",
    NotModified = 304 "Not Modified",
    TemporaryRedirect = 307 "Temporary Redirect",
    PermanentRedirect = 308 "Permanent Redirect",
    BadRequest = 400 "Bad Request",
    Unauthorized = 401 "Unauthorized",
    Forbidden = 403 "Forbidden",
    NotFound = 404 "Not Found",
    MethodNotAllowed = 405 "Method Not Allowed",
    RequestTimeout = 408 "Request Timeout",
    Gone = 410 "Gone",
    PreconditionFailed = 412 "Precondition Failed",
    ContentTooLarge = 413 "Content Too Large",
    UriTooLong = 414 "URI Too Long",
    RangeNotSatisfiable = 416 "Range Not Satisfiable",
    ExpectationFailed = 417 "Expectation Failed",
    MisdirectedRequest = 421 "Misdirected Request",
    TooEarly = 425 "Too Early",
    TooManyRequests = 429 "Too Many Requests",
    RequestHeaderFieldsTooLarge = 431 "Request Header Fields Too Large",
    InternalServerError = 500 "Internal Server Error",
    NotImplemented = 501 "Not Implemented",
    BadGateway = 502 "Bad Gateway",
    ServiceUnavailable = 503 "Service Unavailable",
    GatewayTimeout = 504 "Gateway Timeout",
    VersionNotSupported = 505 "HTTP Version Not Supported",
    LoopDetected = 508 "Loop Detected",
}

impl Status {
    /// The class for metrics: `2xx`, `3xx`, `4xx` or `5xx`.
    pub const fn class(self) -> &'static str {
        match self.code() {
            ..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            _ => "5xx",
        }
    }

    /// Whether a response with this status may carry a body at all (RFC 9112 §6.3).
    pub const fn allows_body(self) -> bool {
        !matches!(self, Self::NoContent | Self::NotModified)
    }
}

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn line_page_and_class_agree_with_the_code() {
        for &status in Status::ALL {
            let code = status.code();
            assert_eq!(status as u16, code);
            assert_eq!(status.line(), format!("HTTP/1.1 {code} {}\r\n", status.phrase()));
            assert_eq!(status.body_text(), format!("{code} {}\n", status.phrase()));
            assert_eq!(status.class(), format!("{}xx", code / 100));
        }
        assert!(Status::ALL.is_sorted());
    }

    #[test]
    fn no_content_and_not_modified_have_no_body() {
        let bodiless: Vec<u16> = Status::ALL.iter().filter(|s| !s.allows_body()).map(|s| s.code()).collect();
        assert_eq!(bodiless, [204, 304]);
    }
}
