//! Driver: a new server with a few objects for each input, and requests to it.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use steersman_apiserver::{ApiServer, ResponseBody};
use steersman_protobuf::stream::Broken;
use steersman_protobuf::{
    Envelope, Frames, Keep, ListItems, Message, WatchFrame, append_message, append_object,
};
use tokio::runtime::Runtime;
use tower::ServiceExt;

const DEFINITION: &str = include_str!("world/definition.json");
const OBJECTS: &str = include_str!("world/objects.json");
/// The number of body chunks to read, because a watch does not end.
const PIECES: usize = 8;

/// A server and the runtime of its requests. The clock is paused, so waits take no real time.
pub(crate) struct World {
    runtime: Runtime,
    server: ApiServer,
}

/// A response, up to the chunk limit.
pub(crate) struct ServerResponse {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
    /// Whether the complete body was read.
    pub(crate) whole: bool,
}

impl ServerResponse {
    /// Returns the objects of a body in protobuf as JSON: one object, the items of a list, or the objects
    /// of a watch's events. Fails if the body cannot be decoded.
    pub(crate) fn protobuf(&self) -> Result<Vec<Value>, String> {
        let broken = |error: Broken| error.to_string();
        let mut chunk = Bytes::copy_from_slice(&self.body);
        let mut objects = Vec::new();
        if self.content_type.ends_with(";stream=watch") {
            let mut frames = Frames::default();
            frames.push(chunk);
            while let Some(frame) = frames.next_frame().map_err(broken)? {
                objects.push(object_in(&Envelope::open(
                    WatchFrame::read(&frame)?.object,
                )?)?);
            }
            return Ok(objects);
        }
        let envelope = Envelope::open(&self.body)?;
        let Some(kind) = envelope.kind.strip_suffix("List") else {
            return Ok(vec![object_in(&envelope)?]);
        };
        if envelope.api_version == V1_BETA1 {
            // This list has its items before its metadata, so clients for `v1` do not read it.
            return Ok(Vec::new());
        }
        let message = Message::of_kind(&envelope.api_version, kind);
        let message = message.ok_or_else(|| format!("{} has no message", envelope.kind))?;
        let mut items = ListItems::new();
        while let Some(item) = items.next_item(&mut chunk).map_err(broken)? {
            let mut text = Vec::new();
            append_message(message, &item, &mut text)?;
            objects.push(serde_json::from_slice(&text).map_err(|error| error.to_string())?);
        }
        items.finish().map_err(broken)?;
        Ok(objects)
    }

    /// Returns the body as JSON; null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl World {
    /// Creates a server with a ConfigMap, a Deployment, and a custom kind with one object.
    #[expect(clippy::expect_used, reason = "no input makes this fail")]
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without threads or sockets needs nothing of the system");
        let guard = runtime.enter();
        let server = ApiServer::new();
        drop(guard);
        let definition = serde_json::from_str(DEFINITION).expect("definition.json is JSON");
        server.install_crd(definition).expect("a valid definition");
        let objects: Vec<Value> = serde_json::from_str(OBJECTS).expect("objects.json is JSON");
        for object in objects {
            server.create(object).expect("a valid object");
        }
        Self { runtime, server }
    }

    /// Sends a request; `None` if the input is not a valid request.
    pub(crate) fn send(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Option<ServerResponse> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body))).ok()?;
        self.runtime.block_on(async {
            // Without faults, every request has a response.
            let response = self.server.service().oneshot(request).await.ok()?;
            Some(read(response).await)
        })
    }

    pub(crate) fn revision(&self) -> u64 {
        self.server.revision()
    }
}

/// The version of metadata alone that the table of messages does not name.
const V1_BETA1: &str = "meta.k8s.io/v1beta1";

fn object_in(envelope: &Envelope<'_>) -> Result<Value, String> {
    let message = if envelope.api_version == V1_BETA1 {
        Message::named("meta.v1.PartialObjectMetadata")
    } else {
        envelope.message()
    };
    let message = message.ok_or_else(|| format!("{} has no message", envelope.kind))?;
    let kind = (&*envelope.api_version, &*envelope.kind);
    let mut text = Vec::new();
    append_object(kind, message, envelope.raw, Keep::WHOLE, &mut text)?;
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

async fn read(response: Response<ResponseBody>) -> ServerResponse {
    let (parts, mut body) = response.into_parts();
    let content_type = parts.headers.get("content-type");
    let mut answer = ServerResponse {
        status: parts.status.as_u16(),
        content_type: content_type
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned(),
        body: Vec::new(),
        whole: false,
    };
    for _ in 0..PIECES {
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    answer.body.extend_from_slice(&data);
                }
            }
            Some(Err(_)) => return answer,
            None => {
                answer.whole = true;
                return answer;
            }
        }
    }
    answer
}
