//! Pages in place of those of this server, read from files.

use penstock_http::types::content_type;
use penstock_sys::small_file;
use serde_saphyr::Spanned;

use super::reader::Reader;
use super::redirects::media_type;
use crate::limits;
use crate::model::ErrorPage;
use crate::raw;
use crate::section::{Sections, position};

/// Reads the pages of a site or of a route.
pub(super) fn error_pages(list: &Sections<raw::ErrorPage>, reader: &mut Reader<'_>) -> Vec<ErrorPage> {
    if list.value.len() > limits::ERROR_PAGES_MAX {
        let what = format!("error_pages: there are {}", list.value.len());
        reader.fault(position(list), what, format!("write at most {}", limits::ERROR_PAGES_MAX));
        return Vec::new();
    }
    let mut pages: Vec<ErrorPage> = Vec::new();
    for section in &list.value {
        let Some(page) = page(section, reader) else { continue };
        let is_known = |status: &&u16| pages.iter().any(|known| known.statuses.contains(status));
        if let Some(status) = page.statuses.iter().find(is_known) {
            let what = format!("status: there is a page for {status} already");
            reader.fault(position(section), what, "keep one of them");
        }
        pages.push(page);
    }
    pages
}

fn page(section: &Spanned<raw::ErrorPage>, reader: &mut Reader<'_>) -> Option<ErrorPage> {
    let raw = &section.value;
    let (Some(list), Some(file)) = (&raw.status, &raw.file) else {
        let what = "error_pages: a page needs statuses and a file";
        reader.fault(position(section), what, "write {status: [502, 503, 504], file: down.html}");
        return None;
    };
    let mut statuses = Vec::new();
    for text in &list.value {
        match text.value.parse() {
            Ok(status @ 400..=599) => statuses.push(status),
            _ => {
                let what = format!("status: `{}` is not the status of an error", text.value.escape_debug());
                reader.fault(position(text), what, "write numbers from 400 to 599");
            }
        }
    }
    let path = reader.path(file);
    let body = match small_file::read(&path, limits::ERROR_PAGE_BYTES) {
        Ok(body) => body,
        Err(error) => {
            let what = format!("file: {} {error}", path.display());
            reader.fault(position(file), what, "write the path of a file of at most 64 KiB");
            return None;
        }
    };
    let written = raw.type_.as_ref().and_then(|text| media_type(text, reader));
    let content_type = written.unwrap_or_else(|| content_type(file.value.as_bytes())).to_owned();
    let replaces_origin = reader.flag("origin", raw.origin.as_ref(), false);
    Some(ErrorPage { statuses, content_type, body: body.into(), replaces_origin })
}
