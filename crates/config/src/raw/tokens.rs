//! The raw form of tokens that requests of a site carry.

use crate::section::{Sections, Text, section};

section! {
    /// Signed URLs: HMAC-SHA256 over an expiry and a path.
    SignedUrls {
        /// Keys of signatures; during a key change, both.
        keys: Sections<SigningKey>, "list", "required";
        /// The query parameter that has the token. In front of the path works as well: `/token=.../vod/film.m3u8`.
        parameter: Text, "name", "token";
        /// A cookie that may have the token instead.
        cookie: Text, "name", "no cookie";
    }
}

section! {
    /// A key that signs URLs.
    SigningKey {
        /// Its name in tokens.
        id: Text, "name", "required";
        /// A file with at least 16 bytes, readable by its owner only; line ends at its end do not count. Followed.
        file: Text, "file", "required";
    }
}

section! {
    /// Tokens that requests carry, in the format of the backend that makes them; see [signed-urls.md](signed-urls.md).
    Tokens {
        /// How tokens are written: links of nginx, EdgeAuth of Akamai, signed URLs of CloudFront, JSON Web Tokens, Common Access Tokens (CTA-5007), or this program's own.
        format: Text, "`secure_link`, `akamai`, `cloudfront`, `jwt`, `cat`, `penstock`", "required";
        /// The file of the key: a secret as it is, for `akamai` in hexadecimal digits; for `cloudfront` a public key in PEM, for `jwt` a JWKS (RFC 7517) or a public key in PEM, and for `cat` a JWKS. Followed.
        key: Text, "file", "required without `keys`";
        /// Several keys with their names, each of which counts; during a key change, both. A JWKS has several keys itself.
        keys: Sections<SigningKey>, "list", "required without `key`";
        /// The query parameter that has the token. In front of the path works as well: `/token=.../vod/film.m3u8`.
        parameter: Text, "name", "`token`; `md5` for secure_link, `hdnts` for akamai, `CAT` for cat";
        /// A cookie that may have the token instead. CloudFront has names of its own.
        cookie: Text, "name", "no cookie";
        /// A field of the request that may have the token instead.
        field: Text, "name", "`CTA-Common-Access-Token` for cat";
        /// Whether a token that came in the query or in the field is given back as the cookie, for the paths that it covers, so that relative URLs of a playlist need none.
        set_cookie: Text, "`true`, `false`", "false";
        /// The status for a token that has expired. Any other wrong token gets 403.
        expired: Text, "`403`, `410`", "403";
        /// How far the clocks of issuer and server may differ.
        leeway: Text, "time", "30s";
        /// A file with the ids of tokens that count no longer, one a line. Followed.
        revoked: Text, "file", "no token is revoked";
        /// For `secure_link`: what the digest is of, with the variables `$secure_link_expires`, `$uri`, `$directory`, `$remote_addr`, `$host` and `$secret`.
        expression: Text, "text with variables", "that of nginx's documentation: `$secure_link_expires$uri$remote_addr $secret`";
        /// For `secure_link`: the query parameter that has the end of the link.
        expires: Text, "name", "the word expires";
        /// For `akamai`: a file with the salt.
        salt: Text, "file", "no salt";
        /// For `jwt` and `cat`: what the claim `iss` has to be.
        issuer: Text, "text", "any issuer";
        /// For `jwt` and `cat`: what the claim `aud` has to be or to list.
        audience: Text, "text", "any audience";
        /// For `jwt`: the claim with the path that the token opens, or a list of them; with a slash at its end, what lies below it.
        path_claim: Text, "name", "a token opens every path";
        /// For `jwt`: the claim with the address of the client.
        client_claim: Text, "name", "no claim";
    }
}
