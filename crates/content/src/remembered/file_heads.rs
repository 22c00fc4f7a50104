//! What all heads of a file say, made once for each file and encoding.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::SystemTime;

use penstock_http::{Encoding, Fields, response};
use penstock_sys::file::{Identity, OpenFile};

/// Files of one worker whose heads are kept: some 100 KiB.
const HEADS: usize = 256;

/// The part of the heads of one file that does not change with the request.
#[derive(Debug)]
pub(crate) struct FileHead {
    pub(crate) etag: String,
    /// ETag, Last-Modified, and the fields of the encoding.
    pub(crate) fields: Fields,
}

/// The selected form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) encoding: Encoding,
    /// Whether other requests select another encoding.
    pub(crate) varies: bool,
}

/// A file, its form, and what their heads have in common.
type Kept = (Identity, Form, Rc<FileHead>);

/// Heads of one worker, at a place that file and form give.
#[derive(Default)]
pub struct FileHeads(RefCell<Vec<Option<Kept>>>);

impl FileHeads {
    pub(crate) fn get(&self, file: &OpenFile, form: Form) -> Rc<FileHead> {
        let identity = file.identity();
        let mut heads = self.0.borrow_mut();
        if heads.is_empty() {
            heads.resize(HEADS, None);
        }
        let number = identity.inode.wrapping_mul(3).wrapping_add(form.encoding as u64);
        let place = usize::try_from(number % HEADS as u64).unwrap_or(0);
        match &heads[place] {
            Some((kept, kept_form, head)) if *kept == identity && *kept_form == form => Rc::clone(head),
            _ => {
                let head = Rc::new(FileHead::new(file, form));
                heads[place] = Some((identity, form, Rc::clone(&head)));
                head
            }
        }
    }
}

impl FileHead {
    fn new(file: &OpenFile, form: Form) -> Self {
        let modified: SystemTime = file.modified();
        let mut etag = response::etag(file.len(), modified, file.inode());
        mark_encoding(&mut etag, form.encoding);
        let mut fields = Fields::default();
        fields.field("ETag", &etag).last_modified(modified);
        match form.encoding {
            Encoding::Identity => fields.field("Accept-Ranges", "bytes"),
            other => fields.field("Content-Encoding", other.token()),
        };
        if form.varies {
            fields.field("Vary", "Accept-Encoding");
        }
        fields.shrink_to_fit();
        Self { etag, fields }
    }
}

/// Makes an ETag that of the same bytes in an encoding: other bytes have another strong validator (RFC 9110 §8.8.3.3). No ETag
/// stays none.
pub(crate) fn mark_encoding(etag: &mut String, encoding: Encoding) {
    if let (Some(end), true) = (etag.rfind('"'), encoding != Encoding::Identity) {
        etag.insert_str(end, encoding.token());
        etag.insert(end, '-');
    }
}

impl fmt::Debug for FileHeads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.0.borrow().iter().flatten().count();
        f.debug_struct("FileHeads").field("kept", &kept).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn a_head_is_made_once_for_each_version_and_form() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.m3u8");
        let open = || OpenFile::from_fd(File::open(&path).unwrap().into()).unwrap();
        fs::write(&path, b"first").unwrap();
        let (first, heads) = (open(), FileHeads::default());
        let plain = Form { encoding: Encoding::Identity, varies: true };
        let head = heads.get(&first, plain);
        assert!(Rc::ptr_eq(&head, &heads.get(&first, plain)));
        let lines = String::from_utf8(head.fields.to_lines()).unwrap();
        assert!(lines.starts_with(&format!("ETag: {}\r\nLast-Modified: ", head.etag)), "{lines}");
        assert!(lines.ends_with(" GMT\r\nAccept-Ranges: bytes\r\nVary: Accept-Encoding\r\n"), "{lines}");
        let gzip = heads.get(&first, Form { encoding: Encoding::Gzip, ..plain });
        assert_eq!(gzip.etag, format!("{}-gzip\"", head.etag.strip_suffix('"').unwrap()));
        assert_eq!(gzip.fields.get("Content-Encoding"), Some(&b"gzip"[..]));
        let fixed = heads.get(&first, Form { varies: false, ..plain });
        assert!(!fixed.fields.has("Vary"));
        fs::write(&path, b"the second").unwrap();
        assert_ne!(heads.get(&open(), plain).etag, head.etag);
    }
}
