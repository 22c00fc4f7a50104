//! URLs of origin servers.

use penstock_http::{OriginUrl, OriginUrlFault};

use crate::interpret::reader::Reader;
use crate::section::{Text, position};

pub(super) fn url(text: &Text, reader: &mut Reader<'_>) -> Option<OriginUrl> {
    let fault = match OriginUrl::parse(&text.value) {
        Ok(url) => return Some(url),
        Err(fault) => fault,
    };
    if text.value.starts_with("unix:") || text.value.starts_with('/') {
        let what = format!("http: `{}` is a Unix socket, which is not supported", text.value);
        reader.fault(position(text), what, "let the origin listen on TCP, and write http://127.0.0.1:8080");
        return None;
    }
    let instead = match fault {
        OriginUrlFault::Scheme if !text.value.contains("://") => format!("write http://{}", text.value),
        OriginUrlFault::Scheme | OriginUrlFault::Authority | OriginUrlFault::Path => {
            "write a URL such as http://192.0.2.5:8080 or https://origin.example.com/vod".to_owned()
        }
    };
    reader.fault(position(text), format!("http: `{}` {fault}", text.value), instead);
    None
}
