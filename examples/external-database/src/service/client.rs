//! Handle: the client of the service.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use thiserror::Error;

use super::records::{Answer, Settings};
use super::server::DatabaseService;

/// The client of the service. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DatabaseClient {
    transport: Transport,
}

#[derive(Clone, Debug)]
enum Transport {
    Http(Box<Client<HttpConnector, Full<Bytes>>>, SocketAddr),
    /// Without sockets, for tests on a paused clock.
    InProcess(DatabaseService),
}

/// A request that the service did not execute.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The service refused the request.
    #[error("the database service answered {method} {path} with {status}: {message}")]
    Refused {
        /// The HTTP method.
        method: Method,
        /// The path.
        path: String,
        /// The status of the answer.
        status: StatusCode,
        /// The reason in the answer.
        message: String,
    },
    /// The service cannot be reached.
    #[error("the database service cannot be reached at {address}")]
    Unreachable {
        /// The address.
        address: SocketAddr,
        /// The error of the connection.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl DatabaseClient {
    /// Makes a client of the service at an address.
    pub fn http(address: SocketAddr) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let transport = Transport::Http(Box::new(client), address);
        Self { transport }
    }

    /// Makes a client of a service in this process.
    pub fn in_process(service: DatabaseService) -> Self {
        let transport = Transport::InProcess(service);
        Self { transport }
    }

    /// Returns the settings of a database; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`ServiceError`].
    pub async fn find(&self, name: &str) -> Result<Option<Settings>, ServiceError> {
        let path = path(name);
        match self.send(Method::GET, &path, Value::Null).await? {
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (StatusCode::OK, body) => match serde_json::from_value(body.clone()) {
                Ok(settings) => Ok(Some(settings)),
                Err(_) => Err(refused(Method::GET, path, (StatusCode::OK, body))),
            },
            other => Err(refused(Method::GET, path, other)),
        }
    }

    /// Creates a database, or changes its settings; returns the password of a new one.
    ///
    /// # Errors
    ///
    /// [`ServiceError`].
    pub async fn put(
        &self,
        name: &str,
        settings: &Settings,
    ) -> Result<Option<String>, ServiceError> {
        let path = path(name);
        match self.send(Method::PUT, &path, json!(settings)).await? {
            (StatusCode::CREATED, body) => Ok(password_in(&body)),
            (StatusCode::OK, _) => Ok(None),
            other => Err(refused(Method::PUT, path, other)),
        }
    }

    /// Replaces the password of a database, and returns the new one.
    ///
    /// # Errors
    ///
    /// [`ServiceError`].
    pub async fn new_password(&self, name: &str) -> Result<Option<String>, ServiceError> {
        let path = path(name) + "/password";
        match self.send(Method::POST, &path, Value::Null).await? {
            (StatusCode::OK, body) => Ok(password_in(&body)),
            other => Err(refused(Method::POST, path, other)),
        }
    }

    /// Returns whether a user can log in.
    ///
    /// # Errors
    ///
    /// [`ServiceError`].
    pub async fn accepts(
        &self,
        name: &str,
        user: &str,
        password: &str,
    ) -> Result<bool, ServiceError> {
        let path = path(name) + "/login";
        let login = json!({ "user": user, "password": password });
        match self.send(Method::POST, &path, login).await? {
            (StatusCode::NO_CONTENT, _) => Ok(true),
            (StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND, _) => Ok(false),
            other => Err(refused(Method::POST, path, other)),
        }
    }

    /// Deletes a database, if it exists.
    ///
    /// # Errors
    ///
    /// [`ServiceError`].
    pub async fn delete(&self, name: &str) -> Result<(), ServiceError> {
        let path = path(name);
        match self.send(Method::DELETE, &path, Value::Null).await? {
            (StatusCode::NO_CONTENT | StatusCode::NOT_FOUND, _) => Ok(()),
            other => Err(refused(Method::DELETE, path, other)),
        }
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> Result<Answer, ServiceError> {
        let body = match body {
            Value::Null => Bytes::new(),
            body => Bytes::from(body.to_string()),
        };
        let (client, address) = match &self.transport {
            Transport::InProcess(service) => return Ok(service.respond(&method, path, &body)),
            Transport::Http(client, address) => (client, *address),
        };
        let exchange = async {
            let request = Request::builder()
                .method(method)
                .uri(format!("http://{address}{path}"))
                .body(Full::new(body))?;
            let response = client.request(request).await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            // A body that is no JSON is one without a message.
            let body = serde_json::from_slice(&body).unwrap_or_default();
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>((status, body))
        };
        let unreachable = |source| ServiceError::Unreachable { address, source };
        exchange.await.map_err(unreachable)
    }
}

fn path(name: &str) -> String {
    format!("/databases/{name}")
}

fn password_in(body: &Value) -> Option<String> {
    body["password"].as_str().map(str::to_owned)
}

fn refused(method: Method, path: String, (status, body): Answer) -> ServiceError {
    let message = body["message"].as_str().unwrap_or_default().to_owned();
    ServiceError::Refused {
        method,
        path,
        status,
        message,
    }
}
