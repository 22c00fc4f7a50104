//! The raw form of the rules that say who may use a site, and how much.

use serde_saphyr::Spanned;

use crate::section::{Text, Texts, WordOr, section};

section! {
    /// Who may use a site; see [access.md](access.md).
    Access {
        /// Who alone may use it: addresses, networks such as `192.0.2.0/24`, and files with one of these a line.
        allow: Texts, "list of networks and files", "all clients";
        /// Who may not, also if `allow` has the address.
        deny: Texts, "list of networks and files", "no clients";
        /// From which countries, by a database of MaxMind.
        countries: Spanned<CountryAccess>, "section", "all countries";
        /// Hosts whose pages may use it, by the field Referer: `player.example`, `*.example.com` (any number of labels), and `none` for requests without the field.
        referers: Texts, "list of hosts", "all pages";
        /// Names of client certificates that may use it, as the access log has them: `player-7`, or the end of names as in `*.edge.example`. Needs `tls.client_certificates`.
        certificates: Texts, "list of names", "all clients";
        /// Names and passwords (RFC 7617).
        basic: Spanned<BasicAccess>, "section", "off";
        /// JSON Web Tokens (RFC 7519).
        jwt: Spanned<JwtAccess>, "section", "off";
    }
}

section! {
    /// JSON Web Tokens that clients of a site show; see [access.md](access.md#json-web-tokens).
    JwtAccess {
        /// The keys: a JWKS (RFC 7517), or a public key in PEM. Followed.
        keys: Text, "file", "required";
        /// What the claim `iss` has to be.
        issuer: Text, "text", "any issuer";
        /// What the claim `aud` has to be or to list.
        audience: Text, "text", "any audience";
        /// A cookie that may have the token, if the field Authorization has none.
        cookie: Text, "name", "no cookie";
        /// How far the clocks of issuer and server may differ.
        leeway: Text, "time", "30s";
    }
}

section! {
    /// From which countries a site may be used; see [access.md](access.md#countries).
    CountryAccess {
        /// A database in the format of MaxMind, such as GeoLite2-Country.mmdb. Followed.
        file: Text, "file", "required";
        /// Countries that alone may use it, by their two letters. Addresses that the database does not know may not.
        allow: Texts, "list of codes such as `DE`", "all countries";
        /// Countries that may not.
        deny: Texts, "list of codes such as `DE`", "no countries";
    }
}

section! {
    /// Names and passwords of the users of a site; see [access.md](access.md#passwords).
    BasicAccess {
        /// A file with `NAME:HASH` a line, as `htpasswd -B` writes it: bcrypt or argon2. Followed.
        file: Text, "file", "required";
        /// What browsers show when they ask for the password.
        realm: Text, "text", "the word Restricted";
    }
}

section! {
    /// How much of a site its clients may use; see [limits.md](limits.md).
    SiteLimits {
        /// What counts as one client: an `address` (IPv6: its /64), its `network` (/24 of IPv4, /56 of IPv6), or the `subject` of its token (`access.jwt`, otherwise `tokens` of the format `jwt` or `cat`).
        client: Text, "`address`, `network`, `subject`", "address";
        /// Requests of one client, such as `50/s`; above it the answer is 429.
        requests: Spanned<WordOr<RequestRate>>, "rate or section", "no limit";
        /// Responses of one client that are under way; above it the answer is 429.
        connections: Text, "number", "no limit";
        /// Bytes per second of all responses of one client together; above it they wait.
        bandwidth: Text, "size", "no limit";
        /// The same for all clients of the site together.
        all: Spanned<AllLimits>, "section", "no limits";
    }
}

section! {
    /// How fast each response of a site is sent; see [limits.md](limits.md#pace).
    Pace {
        /// Bytes per second of one response, or a multiple of the bitrate of a film in MP4, such as `1.5x`.
        rate: Text, "size or multiple", "required";
        /// Bytes that are sent before, as fast as the client takes them.
        after: Text, "size", "0";
    }
}

section! {
    /// How much of a site all clients together may use.
    AllLimits {
        /// Requests, such as `5000/s`; above it the answer is 429.
        requests: Spanned<WordOr<RequestRate>>, "rate or section", "no limit";
        /// Responses under way; above it the answer is 429.
        connections: Text, "number", "no limit";
        /// Bytes per second of all responses together; above it they wait.
        bandwidth: Text, "size", "no limit";
    }
}

section! {
    /// A rate of requests.
    RequestRate {
        /// Requests in a second, a minute or an hour: `50/s`, `100/m`, `1000/h`.
        rate: Text, "rate", "required";
        /// Requests that may come at once before the rate counts.
        burst: Text, "number", "the requests of one second, at least 1";
    }
}
