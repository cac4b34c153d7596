//! Driver: sends requests and collects their answers within time limits.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube_client::client::Body;
use steersman_object::Kind;
use tokio::time::timeout;

use super::url::Url;
use crate::decode::protobuf::to_json;
use crate::encoding::{Negotiable, Negotiated, has_protobuf};
use crate::error::Error;
use crate::options::Projection;
use crate::request_info::RequestInfo;

/// The default time limit until a server begins to answer: 65 s, a little more than the limit of kube-apiserver itself
/// (`--request-timeout`, 60 s).
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(65);
/// The longest pause in an answer other than a watch.
const PAUSE: Duration = Duration::from_secs(30);
/// The longest wait that is accepted from a `Retry-After`, so that it cannot overflow a clock.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// The largest part of an error body that is read, in bytes.
const ERROR_BODY: usize = 1 << 20;

/// The `Accept` headers of one form of answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accept {
    pub(crate) json: &'static str,
    /// The header that prefers protobuf; `None` for a form that servers send only as JSON or text.
    pub(crate) protobuf: Option<&'static str>,
}

impl Accept {
    pub(crate) const JSON: Self = Self::only("application/json");

    pub(crate) const fn only(header: &'static str) -> Self {
        Self {
            json: header,
            protobuf: None,
        }
    }
}

/// The `Accept` header for metadata in JSON, of an object or of a watch.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// The `Accept` headers of one type of request: for metadata as JSON, and for metadata and whole objects as protobuf.
pub(crate) struct AnswerForms {
    metadata: Accept,
    protobuf: &'static str,
}

impl AnswerForms {
    pub(crate) const OBJECT: Self = Self {
        metadata: Accept {
            json: METADATA,
            protobuf: Some(
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
            ),
        },
        protobuf: "application/vnd.kubernetes.protobuf,application/json",
    };
    /// A server that does not know the form for metadata sends whole objects; their other parts are dropped.
    pub(crate) const LIST: Self = Self {
        metadata: Accept {
            json: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            protobuf: Some(
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            ),
        },
        ..Self::OBJECT
    };
    pub(crate) const WATCH: Self = Self {
        metadata: Accept {
            json: METADATA,
            protobuf: Some(
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1;stream=watch,\
                 application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
            ),
        },
        protobuf: "application/vnd.kubernetes.protobuf;stream=watch,application/json",
    };

    /// Returns the form for objects of a kind. Servers send only Kubernetes' own kinds in protobuf, but the metadata of
    /// every kind.
    pub(crate) fn of(&self, projection: Projection, kind: &Kind) -> Accept {
        match projection {
            Projection::Metadata => self.metadata,
            Projection::Whole if has_protobuf(kind) => Accept {
                protobuf: Some(self.protobuf),
                ..Accept::JSON
            },
            Projection::Whole | Projection::EveryField => Accept::JSON,
        }
    }
}

/// A successful answer with a body that has not arrived yet.
pub(crate) struct Answered {
    pub(crate) info: RequestInfo,
    pub(crate) response: Response<Body>,
    pub(crate) negotiated: Negotiated,
}

#[derive(Clone, Debug)]
pub(crate) struct ApiCall {
    pub(crate) info: RequestInfo,
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) body: Option<(&'static str, Bytes)>,
    pub(crate) accept: Accept,
    /// The kind of the object in the body; `None` if the body must be sent as JSON.
    pub(crate) object: Option<Kind>,
    /// Whether to request an uncompressed answer.
    pub(crate) identity: bool,
    /// The time limit until the server begins to answer. Zero and `Duration::MAX` mean no limit.
    pub(crate) limit: Duration,
}

impl ApiCall {
    pub(crate) fn get(info: RequestInfo, url: Url) -> Self {
        Self {
            info,
            method: Method::GET,
            url,
            body: None,
            accept: Accept::JSON,
            object: None,
            identity: false,
            limit: DEFAULT_REQUEST_TIMEOUT,
        }
    }

    /// Sends the request. An answer without success becomes an error.
    ///
    /// CONN-7: a server that refuses protobuf (406, 415) has not executed the request, so it is sent again as JSON.
    pub(crate) async fn send(self, client: &kube_client::Client) -> Result<Answered, Error> {
        let mut answered = self.send_once(client).await?;
        let code = answered.response.status();
        let refused = match code {
            StatusCode::NOT_ACCEPTABLE => answered.negotiated.asked_protobuf,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => answered.negotiated.sent_protobuf,
            _ => false,
        };
        if refused {
            answered
                .negotiated
                .fall_back(&format!("{} was answered with {code}", self.info));
            answered = self.send_once(client).await?;
        }
        let code = answered.response.status();
        if code.is_success() {
            return Ok(answered);
        }
        let info = answered.info;
        let retry_after = retry_after(answered.response.headers());
        // If the body cannot be read, the error has less detail.
        let body = collect(&info, answered.response, ERROR_BODY).await;
        let body = body.unwrap_or_default();
        let is_protobuf = answered.negotiated.is_protobuf;
        let json = is_protobuf.then(|| to_json(&body).ok()).flatten();
        let body = json.map_or(body, |(json, _)| json);
        Err(Error::from_answer(info, code.as_u16(), retry_after, &body))
    }

    async fn send_once(&self, client: &kube_client::Client) -> Result<Answered, Error> {
        let info = self.info.clone();
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.url.clone().into_string())
            .header(ACCEPT, self.accept.json);
        if self.identity {
            request = request.header(ACCEPT_ENCODING, "identity");
        }
        if let Some(accept) = self.accept.protobuf {
            let json = self.body.as_ref().map(|(_, json)| json.clone());
            let object = self.object.clone().zip(json);
            request = request.extension(Negotiable { accept, object });
        }
        let body = match &self.body {
            Some((content_type, bytes)) => {
                request = request.header(CONTENT_TYPE, *content_type);
                Body::from(bytes.clone())
            }
            None => Body::empty(),
        };
        let request = match request.body(body) {
            Ok(request) => request,
            Err(error) => return Err(Error::invalid_request(info, error.to_string())),
        };
        // A limit beyond the range of the clock means no limit.
        let limit = match self.limit {
            Duration::ZERO => Duration::MAX,
            limit => limit,
        };
        let mut response = match timeout(limit, client.send(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Error::from_client(info, error)),
            Err(_) => {
                let cause = format!("no answer within {} s", limit.as_secs_f64());
                return Err(Error::transport(&info, cause));
            }
        };
        let negotiated = response.extensions_mut().remove::<Negotiated>();
        Ok(Answered {
            info,
            response,
            negotiated: negotiated.unwrap_or_default(),
        })
    }

    /// Sends the request and collects the whole answer.
    pub(crate) async fn fetch(
        self,
        client: &kube_client::Client,
    ) -> Result<(RequestInfo, Bytes), Error> {
        let (info, _, body) = self.fetch_with_code(client).await?;
        Ok((info, body))
    }

    /// Sends the request and collects the whole answer as JSON, with its status code.
    pub(crate) async fn fetch_with_code(
        self,
        client: &kube_client::Client,
    ) -> Result<(RequestInfo, StatusCode, Bytes), Error> {
        let answered = self.send(client).await?;
        let (info, code) = (answered.info, answered.response.status());
        let body = collect(&info, answered.response, usize::MAX).await?;
        let body = as_json(&info, &answered.negotiated, body)?;
        Ok((info, code, body))
    }
}

fn as_json(info: &RequestInfo, negotiated: &Negotiated, body: Bytes) -> Result<Bytes, Error> {
    if !negotiated.is_protobuf {
        return Ok(body);
    }
    match to_json(&body) {
        Ok((json, unknown)) => {
            negotiated.note_unknown(info.kind(), &unknown);
            Ok(json)
        }
        Err(why) => {
            let problem = format!("it is not an object in protobuf: {why}");
            negotiated.fall_back(&format!("{info}: {problem}"));
            Err(Error::decode(info, problem))
        }
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
        // HTTP trailers are ignored.
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
