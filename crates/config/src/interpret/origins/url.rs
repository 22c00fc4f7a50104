//! URLs of origin servers.

use penstock_http::{OriginUrl, OriginUrlFault};

use crate::interpret::reader::Reader;
use crate::section::{Text, position};

pub(super) fn url(text: &Text, reader: &mut Reader<'_>) -> Option<OriginUrl> {
    let is_socket = ["unix:", "http://unix:", "/"].iter().any(|start| text.value.starts_with(start));
    if is_socket {
        return OriginUrl::parse_socket(&text.value)
            .map_err(|_| {
                let what = format!("http: `{}` is not the path of a Unix socket", text.value);
                let instead = "write unix:/run/app.sock, or unix:/run/app.sock:/path, with at most 107 bytes";
                reader.fault(position(text), what, instead);
            })
            .ok();
    }
    let fault = match OriginUrl::parse(&text.value) {
        Ok(url) => return Some(url),
        Err(fault) => fault,
    };
    let instead = match fault {
        OriginUrlFault::Scheme if !text.value.contains("://") => format!("write http://{}", text.value),
        OriginUrlFault::Scheme | OriginUrlFault::Authority | OriginUrlFault::Path => {
            "write a URL such as http://192.0.2.5:8080 or https://origin.example.com/vod".to_owned()
        }
    };
    reader.fault(position(text), format!("http: `{}` {fault}", text.value), instead);
    None
}
