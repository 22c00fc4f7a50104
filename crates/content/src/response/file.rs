//! Files of a directory site as representations: lookup, type, encoding.

use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use penstock_config::{DotFiles, limits};
use penstock_http::conditional::Validators;
use penstock_http::encoding::negotiate;
use penstock_http::types::{content_type, is_text_compressible};
use penstock_http::{Encoding, Fields, Status};
use penstock_origin::directory::{Directory, LookupError};
use penstock_sys::file::OpenFile;

use crate::remembered::{FileHead, Form};
use crate::response::Response;
use crate::response::exchange::Exchange;
use crate::site_table::Site;

/// A file in the encoding that was negotiated.
pub(crate) struct FileRepresentation {
    pub(crate) content_type: &'static str,
    head: Rc<FileHead>,
    modified: SystemTime,
    pub(crate) bytes: FileBytes,
}

/// Where the bytes are.
pub(crate) enum FileBytes {
    File(Arc<OpenFile>),
    /// Compressed, in memory.
    Memory(Arc<[u8]>),
}

impl FileRepresentation {
    /// Opens the file that a request names.
    ///
    /// # Errors
    /// The response that says why there is none.
    pub(crate) async fn open(
        exchange: &Exchange<'_>,
        site: &Site,
        directory: &Directory,
    ) -> Result<Self, Response> {
        let not_found = || exchange.page(Status::NotFound);
        let Ok(asked) = exchange.request.file_path() else { return Err(not_found()) };
        let index;
        let path = if asked.is_directory_like() {
            index = asked.child(&site.index).map_err(|_| not_found())?;
            &index
        } else {
            &asked
        };
        // Names of files are UTF-8 here.
        let Ok(name) = std::str::from_utf8(path.as_bytes()) else { return Err(not_found()) };
        if site.dot_files == DotFiles::Deny && has_dot_segment(name) {
            return Err(not_found());
        }
        let context = exchange.context;
        match context.files.open(directory, name, context.now()).await {
            Ok(file) => Ok(Self::negotiated(exchange, path.file_name(), file).await),
            // An index that is a directory is not followed: the redirect would lead back here.
            Err(LookupError::IsDirectory) if !asked.is_directory_like() => {
                Err(exchange.redirect_to_directory())
            }
            Err(error) => Err(exchange.page(status_of(error))),
        }
    }

    /// Chooses the encoding. Manifests and other small text files have several.
    async fn negotiated(exchange: &Exchange<'_>, name: &[u8], file: Arc<OpenFile>) -> Self {
        let varies = is_text_compressible(name) && file.len() <= limits::COMPRESSED_SOURCE_BYTES;
        let context = exchange.context;
        let (mut encoding, mut compressed) = (Encoding::Identity, None);
        if varies {
            let wanted = exchange.request.accept_encoding();
            encoding = negotiate(wanted, &[Encoding::Brotli, Encoding::Gzip]);
            if encoding != Encoding::Identity {
                compressed =
                    Box::pin(context.compressed.get(&file, encoding, (&context.io, &context.given_up))).await;
            }
        }
        if compressed.is_none() {
            encoding = Encoding::Identity;
        }
        Self {
            content_type: content_type(name),
            head: context.file_heads.get(&file, Form { encoding, varies }),
            modified: file.modified(),
            bytes: compressed.map_or(FileBytes::File(file), FileBytes::Memory),
        }
    }

    pub(crate) fn length(&self) -> u64 {
        match &self.bytes {
            FileBytes::File(file) => file.len(),
            FileBytes::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Whether parts of it can be asked for.
    pub(crate) fn has_ranges(&self) -> bool {
        matches!(self.bytes, FileBytes::File(_))
    }

    pub(crate) fn validators(&self) -> Validators<'_> {
        // A file can change twice within the second that Last-Modified names. Every file has an ETag, and a client that has
        // one must not send a date (RFC 9110 §13.1.5).
        Validators { etag: &self.head.etag, modified: self.modified, is_date_strong: false }
    }

    /// Appends the fields that all responses of the representation have.
    pub(crate) fn write_fields(&self, fields: &mut Fields) {
        fields.extend(&self.head.fields);
    }
}

/// Whether a path leads to a file or through a directory that is hidden by its name. `.well-known` is public (RFC 8615).
fn has_dot_segment(path: &str) -> bool {
    let bytes = path.as_bytes();
    memchr::memchr_iter(b'.', bytes).any(|at| {
        let begins_segment = at.checked_sub(1).is_none_or(|before| bytes[before] == b'/');
        begins_segment && path[at..].split('/').next() != Some(".well-known")
    })
}

fn status_of(error: LookupError) -> Status {
    match error {
        LookupError::NotFound
        | LookupError::OutsideRoot
        | LookupError::NotRegular
        | LookupError::IsDirectory => Status::NotFound,
        LookupError::Forbidden => Status::Forbidden,
        LookupError::Busy | LookupError::TooManyOpenFiles => Status::ServiceUnavailable,
        LookupError::Failed(_) => Status::InternalServerError,
    }
}
