//! Files of a directory site as representations: lookup, type, encoding.

use std::sync::Arc;
use std::time::SystemTime;

use penstock_config::{DotFiles, limits};
use penstock_http::conditional::Validators;
use penstock_http::encoding::negotiate;
use penstock_http::types::{content_type, is_text_compressible};
use penstock_http::{Encoding, HeadWriter, Status, response};
use penstock_origin::directory::{Directory, LookupError};
use penstock_sys::file::OpenFile;

use crate::exchange::Exchange;
use crate::response::Response;
use crate::site::Site;

/// A file in the encoding that was negotiated.
pub(crate) struct FileRepresentation {
    pub(crate) content_type: &'static str,
    etag: String,
    modified: SystemTime,
    /// Whether other requests select another encoding.
    varies: bool,
    encoding: Encoding,
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
        let Ok(asked) = exchange.request.path() else { return Err(not_found()) };
        let index;
        let path = if asked.is_directory_like() {
            index = asked.child(&site.index).map_err(|_| not_found())?;
            &index
        } else {
            asked
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
        let mut this = Self {
            content_type: content_type(name),
            etag: response::etag(file.len(), file.modified(), file.inode()),
            modified: file.modified(),
            varies,
            encoding: Encoding::Identity,
            bytes: FileBytes::File(Arc::clone(&file)),
        };
        if !varies {
            return this;
        }
        let wanted = exchange.request.accept_encoding();
        let encoding = negotiate(wanted, &[Encoding::Brotli, Encoding::Gzip]);
        let suffix = match encoding {
            Encoding::Identity => return this,
            Encoding::Gzip => "-gzip\"",
            Encoding::Brotli => "-br\"",
        };
        let context = exchange.context;
        if let Some(body) = context.compressed.get(&file, encoding, &context.io).await {
            // Other bytes have another strong validator (RFC 9110 §8.8.3.3).
            this.etag.pop();
            this.etag.push_str(suffix);
            this.encoding = encoding;
            this.bytes = FileBytes::Memory(body);
        }
        this
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
        Validators { etag: &self.etag, modified: self.modified }
    }

    /// Writes the fields that all responses of the representation have.
    pub(crate) fn write_fields(&self, head: &mut HeadWriter<'_>) {
        head.field("ETag", &self.etag).last_modified(self.modified);
        match self.encoding {
            Encoding::Identity => head.field("Accept-Ranges", "bytes"),
            Encoding::Gzip => head.field("Content-Encoding", "gzip"),
            Encoding::Brotli => head.field("Content-Encoding", "br"),
        };
        if self.varies {
            head.field("Vary", "Accept-Encoding");
        }
    }
}

/// Whether a path leads to a file or through a directory that is hidden by its name. `.well-known` is public (RFC 8615).
fn has_dot_segment(path: &str) -> bool {
    path.split('/').any(|segment| segment.starts_with('.') && segment != ".well-known")
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
