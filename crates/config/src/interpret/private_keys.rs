//! Private keys of certificates: files, keyservers, or hardware modules.

use std::sync::Arc;
use std::time::Duration;

use serde_saphyr::Spanned;

use super::pem::is_plausible;
use super::reader::Reader;
use super::{pem, tokens};
use crate::certificate_files::KeyFile;
use crate::limits;
use crate::model::{KeyserverAccess, RemoteKeyPlace};
use crate::raw;
use crate::section::{Text, Texts, WordOr, position};

/// Where the key of a certificate is.
pub(super) struct KeyPlaces {
    pub(super) file: KeyFile,
    pub(super) remote: Option<RemoteKeyPlace>,
    /// Where a fault of the file is reported.
    pub(super) file_text: Text,
}

/// Reads `key` and `fallback`; `None` after a fault.
pub(super) fn place(
    key: &Spanned<WordOr<raw::PrivateKey>>,
    fallback: Option<&Text>,
    reader: &mut Reader<'_>,
) -> Option<KeyPlaces> {
    match &key.value {
        WordOr::Word(word) => {
            let text = Spanned::new(word.clone(), key.referenced, key.defined);
            if let Some(fallback) = fallback {
                let what = "fallback: this certificate has its key in a file already";
                reader.fault(
                    position(fallback),
                    what,
                    "remove it, or write key: {keyserver: [...]} or {pkcs11: ...}",
                );
            }
            let path = reader.path(&text);
            is_plausible("key", &text, &path, reader).then(|| KeyPlaces {
                file: KeyFile::Path(path),
                remote: None,
                file_text: text,
            })
        }
        WordOr::Section(section) => {
            let here = Spanned::new(String::new(), key.referenced, key.defined);
            let remote = remote(section, &here, reader);
            let copy = fallback.map(|text| reader.path(text));
            if let (Some(text), Some(copy)) = (fallback, &copy)
                && !is_plausible("fallback", text, copy, reader)
            {
                return None;
            }
            let file_text = fallback.cloned().unwrap_or(here);
            Some(KeyPlaces { file: KeyFile::Elsewhere(copy), remote: Some(remote?), file_text })
        }
    }
}

fn remote(raw: &raw::PrivateKey, here: &Text, reader: &mut Reader<'_>) -> Option<RemoteKeyPlace> {
    let range = Duration::from_millis(limits::KEYSERVER_DEADLINE_MILLISECONDS_MIN)
        ..=Duration::from_secs(limits::KEYSERVER_DEADLINE_SECONDS_MAX);
    let default = Duration::from_secs(limits::KEYSERVER_DEADLINE_SECONDS);
    let deadline = reader.time("deadline", raw.deadline.as_ref(), &range, default);
    match (&raw.keyserver, &raw.pkcs11) {
        (Some(servers), None) => keyserver(raw, servers, here, deadline, reader),
        (None, Some(uri)) => {
            let extras = [("ca", &raw.ca), ("chain", &raw.chain), ("key", &raw.key)];
            for (name, extra) in extras.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?))) {
                let what = format!("{name}: a key in a hardware module has none");
                reader.fault(position(extra), what, "remove it; the module is named in the URI");
            }
            tokens::token(uri, deadline, reader).map(RemoteKeyPlace::Token)
        }
        (Some(_), Some(uri)) => {
            let what = "pkcs11: this key is on keyservers already";
            reader.fault(position(uri), what, "write keyserver or pkcs11; a copy in a file is a fallback");
            None
        }
        (None, None) => {
            let what = "key: this section names neither a keyserver nor a hardware module";
            reader.fault(position(here), what, format!("{KEYSERVER}, or key: {{pkcs11: \"pkcs11:...\"}}"));
            None
        }
    }
}

const KEYSERVER: &str =
    "write key: {keyserver: [\"keys.example.com:2407\"], ca: ca.pem, chain: edge.pem, key: edge.key}";

fn keyserver(
    raw: &raw::PrivateKey,
    list: &Texts,
    here: &Text,
    deadline: Duration,
    reader: &mut Reader<'_>,
) -> Option<RemoteKeyPlace> {
    let servers = servers(list, reader);
    let files = (raw.ca.as_ref(), raw.chain.as_ref(), raw.key.as_ref());
    let (Some(ca), Some(chain), Some(key)) = files else {
        reader.fault(position(here), "key: a keyserver needs ca, chain and key", KEYSERVER);
        return None;
    };
    let authorities = pem::authorities("ca", ca, reader);
    let certificate = pem::certificate(chain, key, reader).map(Arc::new);
    Some(RemoteKeyPlace::Keyserver(Arc::new(KeyserverAccess {
        servers: servers?,
        authorities: authorities?,
        certificate: certificate?,
        deadline,
    })))
}

fn servers(list: &Texts, reader: &mut Reader<'_>) -> Option<Vec<(String, u16)>> {
    if list.value.is_empty() || list.value.len() > limits::KEYSERVERS_MAX {
        let what = format!("keyserver: there are {} servers", list.value.len());
        reader.fault(position(list), what, format!("write 1 to {}", limits::KEYSERVERS_MAX));
        return None;
    }
    let servers: Vec<_> = list.value.iter().map(|text| server(text, reader)).collect();
    servers.into_iter().collect()
}

fn server(text: &Text, reader: &mut Reader<'_>) -> Option<(String, u16)> {
    let parsed = text.value.rsplit_once(':').and_then(|(host, port)| {
        let port = port.parse::<u16>().ok().filter(|port| *port > 0)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_name = |name: &str| {
            !name.is_empty()
                && name.len() <= 253
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        match bare {
            Some(address) => address.parse::<std::net::Ipv6Addr>().ok().map(|_| (address.to_owned(), port)),
            None => is_name(host).then(|| (host.to_owned(), port)),
        }
    });
    if parsed.is_none() {
        let what = format!("keyserver: `{}` is not a host with a port", text.value.escape_debug());
        reader.fault(position(text), what, "write such as keys.example.com:2407 or \"[2001:db8::9]:2407\"");
    }
    parsed
}
