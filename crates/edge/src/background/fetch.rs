//! Asking an OCSP responder over plain HTTP (RFC 6960 appendix A.1). Its answer is signed, so the way needs no TLS.

use std::convert::Infallible;
use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::http::request::Builder;
use hyper::{Request, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use penstock_config::limits;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::metrics::StapleOutcome;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum FetchError {
    /// The URL is not `http:`, the address was not found, nothing is listening, or the connection broke.
    Unreachable(String),
    Timeout,
    Status(StatusCode),
    TooLarge,
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "the responder cannot be reached ({why})"),
            Self::Timeout => write!(f, "the responder took too long"),
            Self::Status(status) => write!(f, "the responder answered {status}"),
            Self::TooLarge => write!(f, "the responder's answer is too large"),
        }
    }
}

impl From<&FetchError> for StapleOutcome {
    fn from(error: &FetchError) -> Self {
        match error {
            FetchError::Unreachable(_) => Self::Unreachable,
            FetchError::Timeout => Self::Timeout,
            FetchError::Status(_) => Self::HttpStatus,
            FetchError::TooLarge => Self::TooLarge,
        }
    }
}

fn unreachable(error: impl fmt::Display) -> FetchError {
    FetchError::Unreachable(error.to_string())
}

/// The answer of the responder at this address to a question in DER.
pub(super) async fn ask(responder: &str, question: &[u8]) -> Result<Vec<u8>, FetchError> {
    let deadline = Duration::from_secs(limits::OCSP_DEADLINE_SECONDS);
    timeout(deadline, by_either_method(responder, question)).await.unwrap_or(Err(FetchError::Timeout))
}

/// GET, which caches between us and the responder understand (RFC 5019 §5); POST for responders that do not know it.
async fn by_either_method(responder: &str, question: &[u8]) -> Result<Vec<u8>, FetchError> {
    let address: Uri = responder.parse().map_err(unreachable)?;
    let path = address.path().trim_end_matches('/');
    let in_path = penstock_tls::base64(question).replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let get = Request::get(format!("{path}/{in_path}"));
    match exchange(&address, get, Question(None)).await {
        Err(FetchError::Status(status)) if status.is_client_error() || status.is_server_error() => {
            let post = Request::post(address.path()).header(header::CONTENT_TYPE, "application/ocsp-request");
            let post = post.header(header::CONTENT_LENGTH, question.len());
            exchange(&address, post, Question(Some(Bytes::copy_from_slice(question)))).await
        }
        answer => answer,
    }
}

async fn exchange(address: &Uri, request: Builder, body: Question) -> Result<Vec<u8>, FetchError> {
    let host = address.host().ok_or_else(|| unreachable("its address names no host"))?;
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let request = request
        .header(header::HOST, address.authority().map_or("", |authority| authority.as_str()))
        .header(header::ACCEPT, "application/ocsp-response")
        .header(header::USER_AGENT, "penstock")
        .header(header::CONNECTION, "close")
        .body(body)
        .map_err(unreachable)?;
    let socket = TcpStream::connect((name, address.port_u16().unwrap_or(80))).await.map_err(unreachable)?;
    let connection = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = connection.map_err(unreachable)?;
    // The connection has to be driven while the answer is awaited; it ends with this question.
    let driven = async {
        drop(connection.await);
        pending::<()>().await;
    };
    tokio::select! {
        answer = async { read(sender.send_request(request).await.map_err(unreachable)?).await } => answer,
        () = driven => Err(FetchError::Timeout),
    }
}

/// The body of a question, sent in one piece.
struct Question(Option<Bytes>);

impl Body for Question {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}

async fn read(answer: hyper::Response<Incoming>) -> Result<Vec<u8>, FetchError> {
    if answer.status() != StatusCode::OK {
        return Err(FetchError::Status(answer.status()));
    }
    let mut body = answer.into_body();
    let mut response = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.map_err(unreachable)?.into_data() else { continue };
        if (response.len() + data.len()) as u64 > limits::OCSP_RESPONSE_BYTES {
            return Err(FetchError::TooLarge);
        }
        response.extend_from_slice(&data);
    }
    Ok(response)
}
