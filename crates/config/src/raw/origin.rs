//! The raw form of an origin.

use serde_saphyr::Spanned;

use crate::section::{Entries, Text, Texts, section};

section! {
    /// The origin of a site's bytes.
    Origin {
        /// Files below this directory; nothing outside it is ever served.
        directory: Text, "directory", "this, `http` or `s3`";
        /// HTTP servers that have the same content: `http://192.0.2.5:8080` or `https://origin.example.com`, with a path to put in front if there is one; `unix:/run/app.sock` for a Unix socket, or `unix:/run/app.sock:/path`; or a section with more. Their responses are cached. See [origins.md](origins.md).
        http: Entries<OriginServer>, "list of URLs or sections", "this, `directory` or `s3`";
        /// A bucket of an S3-compatible store; requests are signed (AWS Signature Version 4). Its responses are cached.
        s3: Spanned<S3>, "section", "this, `directory` or `http`";
        /// The host name in requests to these servers: in Host and in SNI. Their certificates have to contain it. Without it and with `cache: off`, Host is that of the client's request.
        host: Text, "host name", "that of each URL";
        /// PEM file: the only authorities that may sign the certificates of `https` servers.
        ca: Text, "file", "the system's authorities";
        /// PEM file: the certificate that `https` servers are shown if they ask for one, then its intermediates.
        chain: Text, "file", "no certificate";
        /// PEM file: the private key of that certificate, not encrypted.
        key: Text, "file", "required with `chain`";
        /// How a server is chosen for each request: `round_robin` in turn, by weight; `least_connections` the one with the fewest requests of this edge under way for its weight.
        balance: Text, "`round_robin`, `least_connections`", "round_robin";
        /// Response fields of these servers that are removed before the response is stored or sent, such as `Set-Cookie` or `X-Powered-By`.
        hide: Texts, "list of names", "[]";
        /// How long these servers may take.
        timeouts: Spanned<OriginTimeouts>, "section", "";
        /// Open connections to each server, of all workers together. What comes beyond waits for `timeouts.connect`, then it is answered with 503.
        connections: Text, "number", "256";
        /// How old a connection may be that takes another request. Requests follow a change in DNS within this time and the time (TTL) of the old answer.
        connection_age: Text, "duration", "5m";
        /// Servers of DNS that are asked for the names of these servers, in turn; see [origins.md](origins.md#dns-names).
        resolver: Texts, "list of IP:port", "those of /etc/resolv.conf";
        /// How often a GET that failed, or that was answered with 502, 503 or 504, is sent once more, to another server if there is one.
        retries: Text, "number", "1";
        /// How many redirections are followed in a row; with 0 they are forwarded to the viewer and cached like other responses.
        follow_redirects: Text, "number", "0";
        /// Hosts to which redirections are followed, beside the servers themselves: `storage.example.com` on any port, or `192.0.2.7:8080`. Another port of a server's own host is not followed to unless it is listed. Authorization and Cookie are never sent to another server than the first.
        redirect_hosts: Texts, "list of host names, with or without a port", "[]";
        /// Maximum length of a body without an announced length; a longer body is cut short and not stored.
        max_unannounced: Text, "size", "8GiB";
        /// When a server is taken out, and when it comes back.
        health: Spanned<Health>, "section", "";
        /// Whether the servers of `cluster` share the objects of this site: a miss is asked of the object's owner first. See [cluster.md](cluster.md).
        peers: Text, "`true`, `false`", "false";
        /// Names of nodes of `cluster` through which the misses of all nodes go to this origin.
        shield: Texts, "list of names", "[]";
        /// `off` relays each response without the cache; see [proxy.md](proxy.md).
        cache: Text, "`on`, `off`", "on";
        /// How requests choose a server, so that the same requests go to the same one. While it is out, `balance` counts.
        spread: Spanned<Spread>, "section", "by `balance` alone";
        /// With `cache: off`: begin each connection to a server with a PROXY protocol header that names the client. Such a connection carries one request.
        proxy_protocol: Text, "`off`, `v2`", "off";
        /// Protocols to which a request of HTTP/1.1 may switch its connection, such as `websocket`: such a request goes past the cache, and once the server agrees, bytes pass both ways until both sides have closed. See [proxy.md](proxy.md#websocket).
        upgrades: Texts, "list of names", "[]";
        /// How long such a connection may have no bytes, in either direction. Pings of WebSocket are bytes.
        upgrade_idle: Text, "time", "5m";
    }
}

section! {
    /// How requests choose a server; see [proxy.md](proxy.md#spreading-requests).
    Spread {
        /// Part of the request that chooses the server: path and query, the path, or with `cache: off` the host.
        by: Text, "`url`, `path`, `host`", "required";
    }
}

section! {
    /// A server of an origin.
    OriginServer {
        /// Its URL.
        url: Text, "URL", "required";
        /// Its share of the requests: a server with 3 gets three times as many as one with 1.
        weight: Text, "number", "1";
        /// Used only while all servers that are no backups are out, or have failed the same request.
        backup: Text, "`true`, `false`", "false";
    }
}

section! {
    /// How long the servers of an origin may take. Then 504, or the response is cut short.
    OriginTimeouts {
        /// To a connection, name lookup and TLS included.
        connect: Text, "time", "3s";
        /// From the request to the head of the response.
        first_byte: Text, "time", "30s";
        /// Between two pieces of the response.
        between_bytes: Text, "time", "10s";
    }
}

section! {
    /// When a server is taken out, and when it comes back.
    Health {
        /// Failures in a row after which a server is out. It is tried again after a second, then after ever longer pauses up to a minute.
        unhealthy_after: Text, "number", "3";
        /// A path that every server is asked for, such as `/healthz`. A server is well if it answers with 2xx or 3xx within `interval`. One that is out then comes back by such checks alone.
        path: Text, "path", "no checks";
        /// How often it is asked, and how long it may take.
        interval: Text, "time", "5s";
        /// Good checks in a row after which it comes back.
        healthy_after: Text, "number", "2";
    }
}

section! {
    /// A bucket of an S3-compatible store, of which viewers can read everything below `prefix`.
    S3 {
        /// The store: `https://s3.eu-central-1.amazonaws.com`, `https://minio.example.com:9000`.
        endpoint: Text, "URL", "required";
        /// Name of the bucket.
        bucket: Text, "name", "required";
        /// The region that signatures name.
        region: Text, "name", "us-east-1";
        /// The bucket's name stands in the path, as most stores other than Amazon's want it; `false`: in front of the host name.
        path_style: Text, "`true`, `false`", "true";
        /// Prefix of every path, such as `vod/2026`.
        prefix: Text, "path", "no prefix";
        /// File with the access key.
        access_key_file: Text, "file", "`access_key_env` counts";
        /// File with the secret key, readable by its owner only.
        secret_key_file: Text, "file", "`secret_key_env` counts";
        /// Environment variable with the access key.
        access_key_env: Text, "name", "variable AWS_ACCESS_KEY_ID";
        /// Environment variable with the secret key.
        secret_key_env: Text, "name", "variable AWS_SECRET_ACCESS_KEY";
    }
}
