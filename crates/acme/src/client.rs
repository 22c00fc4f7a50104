//! Requests to the authority over this program's TLS, each on a connection of its own, bounded in time and bytes.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{AGE, CONNECTION, DATE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use httpdate::parse_http_date;
use hyper::body::{Body, Incoming};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use penstock_config::limits;
use penstock_sys::lock::Unpoisoned;
use penstock_tls::{Authorities, Outbound, OutboundError};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::clock::CaClock;

/// Why the authority gave no usable answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CaError {
    Unreachable(String),
    Timeout,
    TooLarge,
    /// An error without a problem document.
    Status(StatusCode),
}

impl fmt::Display for CaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "the CA cannot be reached: {why}"),
            Self::Timeout => {
                write!(f, "the CA has not answered within {} s", limits::ACME_REQUEST_SECONDS)
            }
            Self::TooLarge => {
                write!(f, "the CA's answer has more than {} bytes", limits::ACME_RESPONSE_BYTES)
            }
            Self::Status(status) => write!(f, "the CA answered {status}"),
        }
    }
}

impl std::error::Error for CaError {}

fn unreachable(error: impl fmt::Display) -> CaError {
    CaError::Unreachable(error.to_string())
}

/// How long the authority asked to wait with its last error (`Retry-After`). Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetryAfter(Arc<Mutex<Option<Duration>>>);

impl RetryAfter {
    /// The time, which is then forgotten.
    pub(crate) fn take(&self) -> Option<Duration> {
        self.0.lock().unpoisoned().take()
    }

    /// Takes the field of an answer: seconds, or a time by the authority's clock (RFC 9110 section 10.2.3).
    fn note(&self, status: StatusCode, fields: &HeaderMap) {
        let is_error = status.is_client_error() || status.is_server_error();
        let text = |name| fields.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let time = |text| parse_http_date(text).ok();
        let asked = text(RETRY_AFTER).filter(|_| is_error).and_then(|asked| match asked.parse() {
            Ok(seconds) => Some(Duration::from_secs(seconds)),
            Err(_) => {
                let now = text(DATE).and_then(time).unwrap_or_else(SystemTime::now);
                time(asked)?.duration_since(now).ok()
            }
        });
        *self.0.lock().unpoisoned() = asked;
    }
}

/// The client of an authority. Clones share its sessions of TLS.
#[derive(Clone)]
pub(crate) struct CaClient {
    authorities: Authorities,
    /// By host and port.
    hosts: Arc<Mutex<HashMap<String, Arc<Outbound>>>>,
    retry_after: RetryAfter,
    clock: CaClock,
}

impl CaClient {
    /// A client that trusts these authorities, and notes what they say.
    pub(crate) fn new(authorities: Authorities, retry_after: RetryAfter, clock: CaClock) -> Self {
        Self { authorities, hosts: Arc::default(), retry_after, clock }
    }

    async fn exchange(self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, CaError> {
        let (mut parts, body) = request.into_parts();
        let (host, port) = host_and_port(&parts.uri)?;
        let tls = self.tls(&host)?;
        let socket = TcpStream::connect((host.as_str(), port)).await.map_err(unreachable)?;
        let stream = tls.connect(socket).await.map_err(|error| {
            if matches!(error, OutboundError::CertificateTime(_)) {
                self.clock.fail_to_verify();
            }
            unreachable(error)
        })?;
        let authority = parts.uri.authority().map(ToString::to_string).unwrap_or_default();
        let field = |value: &str| HeaderValue::from_str(value).map_err(unreachable);
        parts.headers.insert(HOST, field(&authority)?);
        parts.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        parts.headers.insert(USER_AGENT, field(concat!("penstock/", env!("CARGO_PKG_VERSION")))?);
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        parts.uri = path.parse().map_err(unreachable)?;
        let opened = hyper::client::conn::http1::Builder::new()
            .max_buf_size(limits::ACME_HEAD_BYTES)
            .handshake(TokioIo::new(stream))
            .await;
        let (mut sender, connection) = opened.map_err(unreachable)?;
        let answered = async {
            let response = sender.send_request(Request::from_parts(parts, body)).await;
            let (parts, body) = response.map_err(unreachable)?.into_parts();
            Ok((parts, read(body).await?))
        };
        let driven = async {
            // What ends the connection shows in the response.
            drop(connection.await);
            std::future::pending::<()>().await;
        };
        let (parts, body) = tokio::select! {
            answer = answered => answer?,
            () = driven => return Err(CaError::Timeout),
        };
        self.retry_after.note(parts.status, &parts.headers);
        let field = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        self.clock.hear(field(DATE), field(AGE));
        let is_problem = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&body).is_ok();
        if (parts.status.is_client_error() || parts.status.is_server_error()) && !is_problem {
            return Err(CaError::Status(parts.status));
        }
        Ok(BytesResponse { parts, body: Box::new(body) })
    }

    fn tls(&self, host: &str) -> Result<Arc<Outbound>, CaError> {
        let mut hosts = self.hosts.lock().unpoisoned();
        if let Some(known) = hosts.get(host) {
            return Ok(Arc::clone(known));
        }
        if hosts.len() >= limits::ACME_HOSTS {
            hosts.clear();
        }
        let made = Outbound::new(&self.authorities, host, 2, None).map_err(unreachable)?;
        let made = Arc::new(made);
        hosts.insert(host.to_owned(), Arc::clone(&made));
        Ok(made)
    }
}

impl HttpClient for CaClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let exchange = self.clone().exchange(request);
        Box::pin(async move {
            let answer = timeout(Duration::from_secs(limits::ACME_REQUEST_SECONDS), exchange).await;
            answer.unwrap_or(Err(CaError::Timeout)).map_err(|error| Error::Other(Box::new(error)))
        })
    }
}

fn host_and_port(uri: &Uri) -> Result<(String, u16), CaError> {
    if uri.scheme_str() != Some("https") {
        return Err(unreachable(format_args!("{uri} is not a URL of https")));
    }
    let host = uri.host().ok_or_else(|| unreachable(format_args!("{uri} names no host")))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok((host.to_owned(), uri.port_u16().unwrap_or(443)))
}

async fn read(mut body: Incoming) -> Result<Bytes, CaError> {
    let mut read = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.map_err(unreachable)?.into_data() else { continue };
        if read.len() + data.len() > limits::ACME_RESPONSE_BYTES {
            return Err(CaError::TooLarge);
        }
        read.extend_from_slice(&data);
    }
    Ok(read.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_is_spoken() {
        let of = |uri: &str| host_and_port(&uri.parse().unwrap());
        assert_eq!(of("https://ca.test/dir"), Ok(("ca.test".to_owned(), 443)));
        assert_eq!(of("https://[::1]:14000/dir"), Ok(("::1".to_owned(), 14000)));
        assert!(of("http://ca.test/dir").is_err());
        assert!(of("/dir").is_err());
    }

    #[test]
    fn a_retry_after_counts_with_errors_only() {
        let asked = RetryAfter::default();
        let fields = |after: &'static str| {
            let date = HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT");
            HeaderMap::from_iter([(DATE, date), (RETRY_AFTER, HeaderValue::from_static(after))])
        };
        asked.note(StatusCode::TOO_MANY_REQUESTS, &fields("120"));
        assert_eq!(asked.take(), Some(Duration::from_secs(120)));
        assert_eq!(asked.take(), None);
        asked.note(StatusCode::OK, &fields("120"));
        assert_eq!(asked.take(), None);
        // As far away as the authority's own time says, whatever the clock of this machine is.
        asked.note(StatusCode::SERVICE_UNAVAILABLE, &fields("Sun, 06 Nov 1994 10:49:37 GMT"));
        assert_eq!(asked.take(), Some(Duration::from_secs(7200)));
        for wrong in ["Sun, 06 Nov 1994 08:49:36 GMT", "soon", "-1"] {
            asked.note(StatusCode::SERVICE_UNAVAILABLE, &fields(wrong));
            assert_eq!(asked.take(), None, "{wrong}");
        }
    }
}
