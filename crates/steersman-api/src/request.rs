//! Driver: a request that is ready to be sent, by whom and as often as its owner decides.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::about::{About, about};
use crate::asked::Asked;
use crate::error::Error;
use crate::transport::Call;

/// A request that is ready to be sent: its body is encoded, and it knows how its answer is read.
///
/// [`Api`](crate::Api) makes them, for those who send a request from a task of its own, or more than once;
/// everybody else calls the verb of the same name. It borrows nothing, and is cheap to clone.
#[must_use = "nothing is sent before `send` is awaited"]
pub struct Request<T> {
    client: kube_client::Client,
    call: Call,
    read: Arc<Read<T>>,
    generate_name: Option<Arc<str>>,
}

type Read<T> = dyn Fn(&Asked, &Bytes) -> Result<T, Error> + Send + Sync;

/// What came back for a [`Request`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer<T> {
    /// The answer as what was asked for.
    pub value: T,
    /// Which object it is about; `None` where it is none.
    pub about: Option<About>,
}

impl<T> Request<T> {
    pub(crate) fn new(
        client: kube_client::Client,
        call: Call,
        read: impl Fn(&Asked, &Bytes) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Self {
        Self {
            client,
            call,
            read: Arc::new(read),
            generate_name: None,
        }
    }

    /// The same, of an object whose name the server is to make.
    pub(crate) fn generating(mut self, generate_name: Option<&str>) -> Self {
        self.generate_name = generate_name.filter(|text| !text.is_empty()).map(Arc::from);
        self
    }

    /// What it asks for.
    #[must_use]
    pub fn asked(&self) -> &Asked {
        &self.call.asked
    }

    /// What a name that the server is to make begins with (`metadata.generateName`); `None` for what has a name.
    #[must_use]
    pub fn generate_name(&self) -> Option<&str> {
        self.generate_name.as_deref()
    }

    /// The HTTP method.
    #[must_use]
    pub fn method(&self) -> &str {
        self.call.method.as_str()
    }

    /// The same with another time limit: how long the server may take until its answer begins. Zero and
    /// `Duration::MAX` mean no limit.
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.call.limit = limit;
        self
    }

    /// Sends it, once.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future of a write leaves open whether the server has done it.
    pub async fn send(&self) -> Result<Answer<T>, Error> {
        let (asked, body) = self.call.clone().fetch(&self.client).await?;
        Ok(Answer {
            value: (self.read)(&asked, &body)?,
            about: about(&body),
        })
    }
}

impl<T> Clone for Request<T> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            call: self.call.clone(),
            read: Arc::clone(&self.read),
            generate_name: self.generate_name.clone(),
        }
    }
}

impl<T> fmt::Debug for Request<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Request").field(&self.call.asked).finish()
    }
}
