//! The token that is asked for, in its format.

use std::path::Path;
use std::time::SystemTime;

use penstock_config::signing::{is_key_id, read_key_file};
use penstock_config::{LinkExpression, LinkPart, SecretForm, SigningKey};
use penstock_edge::tokens::makers::{self, ClaimSigner, TokenOrder};
use penstock_sys::traffic::Secret;

use super::Url;
use crate::arguments::{SignArgs, SignFormat};
use crate::failure::Failure;

/// A token.
pub(super) struct Made {
    /// Its parts with their names, not encoded.
    pub(super) parts: Vec<(String, String)>,
    /// Whether the parts can stand in one text.
    is_one: bool,
}

impl Made {
    fn one(arguments: &SignArgs, default: &str, token: Option<String>) -> Result<Self, Failure> {
        let token = token.ok_or_else(|| {
            usage("the token cannot be written: a wildcard in the path, or a ~ in the id".to_owned())
        })?;
        let name = arguments.parameter.as_deref().unwrap_or(default);
        Ok(Self { parts: vec![(name.to_owned(), token)], is_one: true })
    }

    /// The name of the first part with all values; `None` if each part needs a place of its own.
    pub(super) fn whole(&self) -> Option<(String, String)> {
        let values: Vec<&str> = self.parts.iter().map(|(_, value)| value.as_str()).collect();
        let (name, _) = self.parts.first().filter(|_| self.is_one)?;
        Some((name.clone(), values.join(",")))
    }
}

fn usage(text: String) -> Failure {
    Failure::Usage(text)
}

/// Makes the token for a decoded path, or for everything below it.
pub(super) fn make(arguments: &SignArgs, url: &Url<'_>, path: &str) -> Result<Made, Failure> {
    let expires = SystemTime::now() + arguments.expires;
    let id = arguments.id.as_deref();
    let claims = claims(arguments)?;
    let order = TokenOrder { path, expires, id, client: arguments.client };
    match arguments.format {
        SignFormat::Penstock => {
            let key = SigningKey::new(key_id(arguments)?, secret(&arguments.key_file, SecretForm::Text)?);
            Made::one(arguments, "token", makers::penstock(&key, &order))
        }
        SignFormat::SecureLink => secure_link(arguments, url, &order),
        SignFormat::Akamai => {
            let key = secret(&arguments.key_file, SecretForm::Hexadecimal)?;
            let salt = arguments.salt_file.as_ref().map(|file| secret(file, SecretForm::Short));
            let salt = salt.transpose()?;
            let token = makers::akamai(key.expose(), salt.as_ref().map(Secret::expose), &order);
            Made::one(arguments, "hdnts", token)
        }
        SignFormat::CloudFront => {
            if url.site.is_empty() {
                return Err(usage("cloudfront signs whole URLs: write https://HOST/PATH".to_owned()));
            }
            let (pem, id) = (text(&arguments.key_file)?, key_id(arguments)?);
            let parts = makers::cloudfront(&pem, id, url.site, url.text, &order);
            let parts = parts.ok_or_else(|| no_key(&arguments.key_file, "private key of RSA in PEM"))?;
            let named = parts.into_iter().map(|(name, value)| (name.to_owned(), value));
            Ok(Made { parts: named.collect(), is_one: false })
        }
        SignFormat::Jwt | SignFormat::Cat => {
            let signer = ClaimSigner::parse(&text(&arguments.key_file)?, arguments.key_id.as_deref());
            let signer = signer.ok_or_else(|| {
                no_key(&arguments.key_file, "JWKS with the secret of this id, or private key of P-256 in PEM")
            })?;
            match arguments.format {
                SignFormat::Jwt => Made::one(arguments, "token", makers::jwt(&signer, &order, &claims)),
                _ => Made::one(arguments, "CAT", makers::cat(&signer, &order, &claims)),
            }
        }
    }
}

/// The claims that the arguments name, with their values.
fn claims(arguments: &SignArgs) -> Result<Vec<(&'static str, &str)>, Failure> {
    let options = [
        ("iss", "--issuer", &arguments.issuer),
        ("aud", "--audience", &arguments.audience),
        ("sub", "--subject", &arguments.subject),
    ];
    let given = options.iter().filter_map(|(claim, option, text)| Some((*claim, *option, text.as_deref()?)));
    let given: Vec<_> = given.collect();
    match given.first() {
        Some((_, option, _)) if !matches!(arguments.format, SignFormat::Jwt | SignFormat::Cat) => {
            Err(usage(format!("{option} is a claim: it needs --format jwt or cat")))
        }
        _ => Ok(given.into_iter().map(|(claim, _, text)| (claim, text)).collect()),
    }
}

fn secure_link(arguments: &SignArgs, url: &Url<'_>, order: &TokenOrder<'_>) -> Result<Made, Failure> {
    let expression = LinkExpression::parse(&arguments.expression)
        .map_err(|why| usage(format!("--expression {} {why}", arguments.expression)))?;
    let has = |part: &LinkPart| expression.parts().contains(part);
    if has(&LinkPart::Path) && arguments.prefix.is_some() {
        let what = "--prefix needs an --expression with $directory in the place of $uri";
        return Err(usage(what.to_owned()));
    }
    if has(&LinkPart::Client) != order.client.is_some() {
        let what = "--client ADDRESS belongs to an --expression with $remote_addr";
        return Err(usage(what.to_owned()));
    }
    if order.id.is_some() {
        return Err(usage("links of nginx have no id: they are revoked by their digest".to_owned()));
    }
    let key = secret(&arguments.key_file, SecretForm::Short)?;
    let made = makers::secure_link(&expression, key.expose(), url.host(), order);
    let (digest, end) = made.ok_or_else(|| usage("there is no memory".to_owned()))?;
    let name = arguments.parameter.clone().unwrap_or_else(|| "md5".to_owned());
    let parts = vec![(name, digest), ("expires".to_owned(), end.to_string())];
    Ok(Made { parts, is_one: true })
}

fn key_id(arguments: &SignArgs) -> Result<&str, Failure> {
    match arguments.key_id.as_deref() {
        Some(id) if is_key_id(id) => Ok(id),
        Some(id) => Err(usage(format!(
            "--key-id {id} has characters that are not allowed in a URL: write letters, digits, - and _"
        ))),
        None => Err(usage("this format names the key: add --key-id ID".to_owned())),
    }
}

fn bytes(file: &Path) -> Result<Vec<u8>, Failure> {
    let failure = Failure::machine(format!("read {}", file.display()));
    Ok(read_key_file(file).map_err(|error| failure(error.into()))?.0)
}

fn text(file: &Path) -> Result<String, Failure> {
    String::from_utf8(bytes(file)?).map_err(|_| usage(format!("{} is no text", file.display())))
}

fn secret(file: &Path, form: SecretForm) -> Result<Secret, Failure> {
    form.secret(bytes(file)?).map_err(|why| {
        let file = file.display();
        usage(format!("{file} {why}: make a key with openssl rand -hex 32"))
    })
}

fn no_key(file: &Path, wanted: &str) -> Failure {
    usage(format!("{} has no {wanted}", file.display()))
}
