//! Arguments of `penstock sign`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  (umask 077; openssl rand -hex 32 > url-2026a.key)         a new key
  penstock sign https://video.example.com/vod/123/film.mp4 --key-file url-2026a.key --key-id 2026a --expires 1h
  penstock sign https://video.example.com/vod/123/main.m3u8 --key-file url-2026a.key --key-id 2026a \\
      --expires 6h --prefix /vod/123/ --in path             for players: their relative URLs keep the token
  penstock sign / --key-file url-2026a.key --key-id 2026a --expires 12h --in cookie --parameter video_token
  penstock sign https://video.example.com/vod/123/main.m3u8 --format akamai --key-file akamai.key \\
      --expires 1h --prefix /vod/123/ --client 192.0.2.7    as other systems write tokens

The formats, for backends in any language: docs/signed-urls.md.";

/// A signed URL.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SignArgs {
    /// The URL, or just its path.
    pub(crate) url: String,

    /// How the token is written, as in sites.tokens.format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = SignFormat::Penstock)]
    pub(crate) format: SignFormat,

    /// The key's file, as in sites.tokens.key; for cloudfront the private key, for jwt and cat a JWKS with a secret or a
    /// private key of P-256.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: PathBuf,

    /// The key's id. Only secure_link and akamai need none, and a JWKS with one key.
    #[arg(long, value_name = "ID")]
    pub(crate) key_id: Option<String>,

    /// Validity from now, such as 90s, 1h or 7d.
    #[arg(long, value_name = "TIME", value_parser = penstock_config::time)]
    pub(crate) expires: Duration,

    /// Sign everything below this path instead of the URL alone.
    #[arg(long, value_name = "PATH/")]
    pub(crate) prefix: Option<String>,

    /// Place of the token.
    #[arg(long = "in", value_name = "PLACE", value_enum, default_value_t = TokenPlace::Query)]
    pub(crate) place: TokenPlace,

    /// The parameter or cookie, as in sites.tokens; by default that of the format.
    #[arg(long, value_name = "NAME")]
    pub(crate) parameter: Option<String>,

    /// The address of the client that alone may use the token.
    #[arg(long, value_name = "IP")]
    pub(crate) client: Option<IpAddr>,

    /// The token's id, by which it can be revoked.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,

    /// For secure_link: what the digest is of, as in sites.tokens.expression.
    #[arg(long, value_name = "TEXT", default_value = "$secure_link_expires$uri$remote_addr $secret")]
    pub(crate) expression: String,

    /// For akamai: the file with the salt.
    #[arg(long, value_name = "FILE")]
    pub(crate) salt_file: Option<PathBuf>,

    /// For jwt and cat: the claim `iss`.
    #[arg(long, value_name = "TEXT")]
    pub(crate) issuer: Option<String>,

    /// For jwt and cat: the claim `aud`.
    #[arg(long, value_name = "TEXT")]
    pub(crate) audience: Option<String>,

    /// For jwt and cat: the claim `sub`, the client that `limits.client: subject` counts.
    #[arg(long, value_name = "TEXT")]
    pub(crate) subject: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenPlace {
    /// In the query.
    Query,
    /// In front of the path.
    Path,
    /// In a cookie: the value of Set-Cookie is printed.
    Cookie,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SignFormat {
    /// This program's own: HMAC-SHA256.
    Penstock,
    /// Links of nginx.
    #[value(name = "secure_link")]
    SecureLink,
    /// EdgeAuth of Akamai.
    Akamai,
    /// Signed URLs and cookies of CloudFront.
    #[value(name = "cloudfront")]
    CloudFront,
    /// JSON Web Tokens, with the path in the claim `path`.
    Jwt,
    /// Common Access Tokens (CTA-5007).
    Cat,
}
