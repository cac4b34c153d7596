//! Driver: access control by a bearer token in a file.

use std::path::PathBuf;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::error;

use crate::access::{bearer, is_log_due, unauthorized};
use crate::routes::{AccessControl, text_response};

/// Admits clients that send the bearer token in a file. It needs no API server.
///
/// The file is read at each request, so that the token can be replaced. White space around the token is ignored.
///
/// | request | response |
/// |---|---|
/// | without a bearer token, or with another one | 401 |
/// | while the file cannot be read, or is empty | 500, and one error per minute in the log |
#[derive(Debug)]
#[must_use]
pub struct TokenFile {
    path: PathBuf,
    last_error: Mutex<Option<Instant>>,
}

impl TokenFile {
    /// Makes the access control without reading the file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            last_error: Mutex::default(),
        }
    }
}

impl AccessControl for TokenFile {
    async fn admit(&self, head: &Parts) -> Result<(), Response<Bytes>> {
        let Some(sent) = bearer(&head.headers) else {
            return Err(unauthorized());
        };
        let read = std::fs::read_to_string(&self.path);
        let problem = match &read {
            Ok(text) if is_same(text.trim().as_bytes(), sent.as_bytes()) => return Ok(()),
            // The token in the file is not empty, so the request has another token.
            Ok(text) if !text.trim().is_empty() => return Err(unauthorized()),
            Ok(_) => "it is empty".to_owned(),
            Err(error) => error.to_string(),
        };
        if is_log_due(&mut self.last_error.lock()) {
            error!(file = %self.path.display(), problem = problem.as_str(), "the token of a server cannot be read, so it refuses all clients");
        }
        let text = "Authentication failed";
        Err(text_response(StatusCode::INTERNAL_SERVER_ERROR, text))
    }
}

/// Compares all bytes in any case, so that the duration reveals nothing about the token.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_token_of_the_file_is_let_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let access = TokenFile::new(&path);
        let status = async |header: Option<&str>| {
            let mut request = http::Request::get("/metrics");
            if let Some(header) = header {
                request = request.header("authorization", header);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            let admitted = access.admit(&head).await;
            admitted.map_or_else(|refused| refused.status().as_u16(), |()| 200)
        };
        assert_eq!(status(Some("Bearer secret")).await, 500);
        std::fs::write(&path, " \n").unwrap();
        assert_eq!(status(Some("Bearer secret")).await, 500);
        std::fs::write(&path, "secret\n").unwrap();
        for (header, expected) in [
            (Some("Bearer secret"), 200),
            (Some("Bearer secre"), 401),
            (Some("Bearer secrets"), 401),
            (Some("Bearer  "), 401),
            (Some("Basic secret"), 401),
            (None, 401),
        ] {
            assert_eq!(status(header).await, expected, "{header:?}");
        }
        std::fs::write(&path, "other").unwrap();
        assert_eq!(status(Some("Bearer secret")).await, 401);
    }
}
