//! The raw form of logs.

use serde_saphyr::Spanned;

use crate::section::{Text, Texts, WordOr, section};

section! {
    /// Logs.
    Log {
        /// The access log: one line for each response, see [access-log.md](access-log.md).
        access: Spanned<WordOr<AccessLog>>, "file or section", "no file";
        /// Adds the client's JA4 fingerprint, which identifies its TLS software, to each line of the access log.
        ja4: Text, "`true`, `false`", "false";
        /// A file for each QUIC connection of chosen clients, see [http3.md](http3.md#qlog).
        qlog: Spanned<Qlog>, "section", "off";
    }
}

section! {
    /// Logs of QUIC connections (qlog), one file each.
    Qlog {
        /// Where the files are written, with the rights of the server's user.
        directory: Text, "directory", "required";
        /// The clients whose connections are logged, such as `192.0.2.7` or `2001:db8::/32`.
        clients: Texts, "list of networks", "required";
        /// The most files that are made. A reload that changes this section begins again.
        files: Text, "number", "100";
        /// The most bytes of a file, which ends there.
        file_size: Text, "size", "16MiB";
    }
}

section! {
    /// The access log.
    AccessLog {
        /// The file; `stdout` and `stderr` are streams of the process, `syslog` is the socket `/dev/log`. Any path that is a socket of datagrams gets lines in the form of syslog.
        path: Text, "file, `stdout`, `stderr`, `syslog`", "required";
        /// `json` has one object in each line, `combined` is that of Apache and nginx, `fields` has the values of `fields` with tabs between them.
        format: Text, "`json`, `combined`, `fields`", "json";
        /// Which fields `json` and `fields` write, in this order for `fields`; those of `tls` and `upstream` are written `tls.version`.
        fields: Texts, "list of names", "all of them";
        /// Which responses leave a line: `1/100` is every hundredth of each worker, `errors` are statuses from 400 on and responses that ended early.
        sample: Text, "`1/N` or `errors`", "1/1";
        /// The sites whose responses leave a line, by their first hosts.
        sites: Texts, "list of hosts", "all, and requests that no site answers";
        /// Whether connections that end without a request leave a line too, such as those whose handshake fails.
        connections: Text, "`true`, `false`", "false";
    }
}
