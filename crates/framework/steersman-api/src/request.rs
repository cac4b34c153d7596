//! Driver: a prepared request, which can be sent any number of times.

pub(crate) mod answered_object;
pub(crate) mod url;
pub(crate) mod transport;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;

use crate::error::Error;
use crate::request_info::RequestInfo;
use answered_object::{AnsweredObject, answered_object};
use transport::ApiCall;

/// A prepared request: its encoded body, and the decoder of its answer.
///
/// Made by [`Api`](crate::Api), to be sent from a task of its own or more than once. The verb of the same name sends
/// it at once. Cheap to clone.
#[derive(derive_more::Debug)]
#[debug("Request({:?})", call.info)]
#[must_use = "nothing is sent before `send` is awaited"]
pub struct PreparedRequest<T> {
    client: kube_client::Client,
    call: ApiCall,
    read: Arc<Read<T>>,
}

type Read<T> = dyn Fn(&RequestInfo, &Bytes) -> Result<T, Error> + Send + Sync;

/// The answer to a [`PreparedRequest`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer<T> {
    /// The decoded answer.
    pub value: T,
    /// The object that the answer is about; `None` if the answer is about no object.
    pub object: Option<AnsweredObject>,
    /// The body of the answer, not decoded.
    pub body: Bytes,
    /// Whether the server says that it created the object (201). An apply creates an object that is absent.
    pub created: bool,
}

impl<T> PreparedRequest<T> {
    pub(crate) fn new(
        client: kube_client::Client,
        call: ApiCall,
        read: impl Fn(&RequestInfo, &Bytes) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Self {
        Self {
            client,
            call,
            read: Arc::new(read),
        }
    }

    /// Returns the verb, the kind and the target of the request.
    pub fn request_info(&self) -> &RequestInfo {
        &self.call.info
    }

    /// Returns the prefix from which the server generates the name (`metadata.generateName`); `None` if the object has
    /// a name.
    pub fn generate_name(&self) -> Option<&str> {
        let prefix = self.call.info.generate_name.as_deref();
        prefix.filter(|prefix| !prefix.is_empty())
    }

    /// Returns the HTTP method.
    pub fn method(&self) -> &str {
        self.call.method.as_str()
    }

    /// Sets the time limit until the server begins to answer. Zero and `Duration::MAX` mean no limit.
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.call.limit = limit;
        self
    }

    /// Sends the request once.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    ///
    /// # Cancel safety
    ///
    /// If the future of a write is dropped, the server may or may not execute the write.
    pub async fn send(&self) -> Result<Answer<T>, Error> {
        let (info, code, body) = self.call.clone().fetch_with_code(&self.client).await?;
        Ok(Answer {
            value: (self.read)(&info, &body)?,
            object: answered_object(&body),
            body,
            created: code == StatusCode::CREATED,
        })
    }
}

impl<T> Clone for PreparedRequest<T> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            call: self.call.clone(),
            read: Arc::clone(&self.read),
        }
    }
}
