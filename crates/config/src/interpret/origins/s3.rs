//! Buckets of S3-compatible stores.

use std::sync::Arc;

use penstock_http::OriginUrl;
use penstock_sys::traffic::Secret;
use serde_saphyr::Spanned;

use super::url::url;
use crate::interpret::reader::Reader;
use crate::model::S3;
use crate::raw;
use crate::section::{Position, Text, position};
use crate::signing::read_key_file;

const REGION: &str = "us-east-1";

/// The bucket and its server.
pub(super) fn bucket(section: &Spanned<raw::S3>, reader: &mut Reader<'_>) -> Option<(S3, OriginUrl)> {
    let raw = &section.value;
    let here = position(section);
    let secret_key =
        key("secret_key", raw.secret_key_file.as_ref(), raw.secret_key_env.as_ref(), here, reader);
    let access_key =
        key("access_key", raw.access_key_file.as_ref(), raw.access_key_env.as_ref(), here, reader);
    let (Some(endpoint), Some(name)) = (&raw.endpoint, &raw.bucket) else {
        let missing = if raw.endpoint.is_none() { "endpoint" } else { "bucket" };
        let instead = "write {endpoint: \"https://s3.eu-central-1.amazonaws.com\", bucket: video}";
        reader.fault(here, format!("s3: there is no {missing}"), instead);
        return None;
    };
    let endpoint = url(endpoint, reader)?;
    let path_style = reader.flag("path_style", raw.path_style.as_ref(), true);
    let bucket = bucket_name(name, reader)?;
    let target = match path_style {
        true => endpoint.clone(),
        false => endpoint.below(&bucket)?,
    };
    let region = raw.region.as_ref().map_or(REGION, |text| text.value.as_str()).to_owned();
    let prefix = raw.prefix.as_ref().map(|text| text.value.trim_matches('/')).filter(|text| !text.is_empty());
    let prefix = prefix.map_or_else(String::new, |text| format!("{text}/"));
    if let Some(text) =
        raw.prefix.as_ref().filter(|_| prefix.split('/').any(|part| part == ".." || part == "."))
    {
        reader.fault(position(text), "prefix: it leads out of the bucket", "write a path such as vod/2026");
    }
    let access_key = String::from_utf8(access_key?.expose().to_vec()).ok()?;
    let secret_key = Arc::new(secret_key?);
    Some((S3 { endpoint, bucket, region, path_style, prefix, access_key, secret_key }, target))
}

/// A valid S3 name: 3 to 63 lowercase letters, digits, dots and dashes.
fn bucket_name(text: &Text, reader: &mut Reader<'_>) -> Option<String> {
    let name = text.value.as_str();
    let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
    if (3..=63).contains(&name.len()) && name.bytes().all(fine) && !name.contains("..") {
        return Some(name.to_owned());
    }
    let what = format!("bucket: `{}` is not the name of a bucket", name.escape_debug());
    reader.fault(position(text), what, "write 3 to 63 lowercase letters, digits, dots and dashes");
    None
}

fn key(
    what: &str,
    file: Option<&Text>,
    variable: Option<&Text>,
    section: Position,
    reader: &mut Reader<'_>,
) -> Option<Secret> {
    if let (Some(_), Some(variable)) = (file, variable) {
        let fault = format!("{what}_env: there is a {what}_file already");
        reader.fault(position(variable), fault, "keep one of them");
        return None;
    }
    let Some(text) = file else {
        let usual = if what == "access_key" { "AWS_ACCESS_KEY_ID" } else { "AWS_SECRET_ACCESS_KEY" };
        let name = variable.map_or(usual, |text| text.value.as_str());
        let value = std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        if value.is_none() {
            let fault = format!("{what}: the environment has no {name}");
            reader.fault(
                variable.map_or(section, position),
                fault,
                format!("set it, or add {what}_file: FILE"),
            );
        }
        return value.map(|value| Secret::new(value.trim().as_bytes().to_vec()));
    };
    let path = reader.path(text);
    let shown = path.display();
    let (bytes, readable_by_others) = match read_key_file(&path) {
        Ok(found) => found,
        Err(error) => {
            let fault = format!("{what}_file: {shown} {error}");
            reader.fault(position(text), fault, "write the path of a file with the key and nothing else");
            return None;
        }
    };
    if readable_by_others && what == "secret_key" {
        let fault = format!("{what}_file: {shown} may be read by every user of this machine");
        reader.warning(position(text), fault, "run chmod 600 on it");
    }
    let trimmed = bytes.trim_ascii();
    if trimmed.is_empty() || !trimmed.iter().all(u8::is_ascii_graphic) {
        let fault = format!("{what}_file: {shown} holds no key");
        reader.fault(position(text), fault, "write the key into it and nothing else");
        return None;
    }
    Some(Secret::new(trimmed.to_vec()))
}
