//! Driver: sends requests and collects their answers within time limits.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube_client::client::Body;
use tokio::time::timeout;

use super::url::Url;
use crate::error::Error;
use crate::request_info::RequestInfo;

/// The default time limit until a server begins to answer: 65 s, a little more than the limit of kube-apiserver
/// itself (`--request-timeout`, 60 s).
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(65);
/// The longest pause in an answer other than a watch.
const PAUSE: Duration = Duration::from_secs(30);
/// The longest wait that is taken from a `Retry-After`, so that it cannot overflow a clock.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// The largest part of an error body that is read, in bytes.
const ERROR_BODY: usize = 1 << 20;

/// The `Accept` header of a list of metadata. A server that does not know this form sends whole objects, of which the
/// rest is dropped.
pub(crate) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// The `Accept` header of the metadata of one object, and of a watch of metadata.
pub(crate) const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// One request to an API server.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) info: RequestInfo,
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// The content type and the body, if there is one.
    pub(crate) body: Option<(&'static str, Bytes)>,
    /// The accepted forms of the answer.
    pub(crate) accept: &'static str,
    /// Whether to ask for an uncompressed answer.
    pub(crate) identity: bool,
    /// The time limit until the server begins to answer. Zero and `Duration::MAX` mean no limit.
    pub(crate) limit: Duration,
}

impl Call {
    pub(crate) fn get(info: RequestInfo, url: Url) -> Self {
        Self {
            info,
            method: Method::GET,
            url,
            body: None,
            accept: "application/json",
            identity: false,
            limit: DEFAULT_REQUEST_TIMEOUT,
        }
    }

    /// Sends the request. An answer that is not a success becomes an error.
    pub(crate) async fn send(
        self,
        client: &kube_client::Client,
    ) -> Result<(RequestInfo, Response<Body>), Error> {
        let info = self.info;
        let mut request = Request::builder()
            .method(self.method)
            .uri(self.url.into_string())
            .header(ACCEPT, self.accept);
        if self.identity {
            request = request.header(ACCEPT_ENCODING, "identity");
        }
        let body = match self.body {
            Some((content_type, bytes)) => {
                request = request.header(CONTENT_TYPE, content_type);
                Body::from(bytes)
            }
            None => Body::empty(),
        };
        let request = match request.body(body) {
            Ok(request) => request,
            Err(error) => return Err(Error::invalid_request(info, error.to_string())),
        };
        // A time beyond the range of the clock means no limit.
        let limit = match self.limit {
            Duration::ZERO => Duration::MAX,
            limit => limit,
        };
        let response = match timeout(limit, client.send(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Error::from_client(info, error)),
            Err(_) => {
                let cause = format!("no answer within {} s", limit.as_secs_f64());
                return Err(Error::transport(&info, cause));
            }
        };
        if response.status().is_success() {
            return Ok((info, response));
        }
        let code = response.status().as_u16();
        let retry_after = retry_after(response.headers());
        // If its body cannot be read, the error has less detail.
        let body = collect(&info, response, ERROR_BODY).await;
        let body = body.unwrap_or_default();
        Err(Error::from_answer(info, code, retry_after, &body))
    }

    /// Sends the request and collects the whole answer.
    pub(crate) async fn fetch(
        self,
        client: &kube_client::Client,
    ) -> Result<(RequestInfo, Bytes), Error> {
        let (info, _, body) = self.fetch_with_code(client).await?;
        Ok((info, body))
    }

    /// Sends the request and collects the whole answer, with its status code.
    pub(crate) async fn fetch_with_code(
        self,
        client: &kube_client::Client,
    ) -> Result<(RequestInfo, StatusCode, Bytes), Error> {
        let (info, response) = self.send(client).await?;
        let code = response.status();
        let body = collect(&info, response, usize::MAX).await?;
        Ok((info, code, body))
    }
}

async fn collect(info: &RequestInfo, response: Response<Body>, max: usize) -> Result<Bytes, Error> {
    let mut body = response.into_body();
    let mut bytes = BytesMut::new();
    while bytes.len() < max {
        match next_chunk(info, &mut body).await? {
            Some(chunk) => bytes.extend_from_slice(&chunk),
            None => break,
        }
    }
    Ok(bytes.freeze())
}

/// Returns the next bytes of an answer other than a watch; `None` at its end.
pub(crate) async fn next_chunk(
    info: &RequestInfo,
    body: &mut Body,
) -> Result<Option<Bytes>, Error> {
    loop {
        let frame = match timeout(PAUSE, body.frame()).await {
            Ok(None) => return Ok(None),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(Error::from_client(info.clone(), error)),
            Err(_) => {
                let cause = format!("the answer stopped for {} s", PAUSE.as_secs());
                return Err(Error::transport(info, cause));
            }
        };
        // Trailers are ignored.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

/// Returns the `Retry-After` in seconds, the only form that kube-apiserver sends.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_after_is_capped() {
        let read = |value: &str| {
            let value = http::HeaderValue::from_str(value).unwrap();
            retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value)]))
        };
        assert_eq!(read("7"), Some(Duration::from_secs(7)));
        assert_eq!(read("18446744073709551615"), Some(LONGEST_WAIT));
        for nothing in ["-1", "99999999999999999999", "soon", ""] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }
}
