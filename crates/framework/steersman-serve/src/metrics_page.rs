//! Handle: the page of a registry's metrics, in the text format of Prometheus.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, VARY};
use http::{Request, Response, StatusCode};
use prometheus::{Encoder as _, Registry, TextEncoder};
use tokio::task::spawn_blocking;
use tracing::error;

use crate::routes::{Handler, response, text_response};

/// Serves the metrics of a registry, compressed with gzip if the client accepts it, as Go's handler does.
#[derive(Clone, Debug)]
#[must_use]
pub struct MetricsPage {
    registry: Registry,
}

const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

impl MetricsPage {
    /// Makes the page of a registry.
    pub fn new(registry: Registry) -> Self {
        Self { registry }
    }
}

impl Handler for MetricsPage {
    async fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        let registry = self.registry.clone();
        let compress = accepts_gzip(request.headers());
        // Collectors may sum over all objects, so they run on a blocking thread.
        let written = spawn_blocking(move || write(&registry, compress)).await;
        let problem = match written {
            Ok(Ok(body)) => return page(body, compress),
            Ok(Err(error)) => error.to_string(),
            Err(error) => steersman_object::task_panic_text(error.try_into_panic()),
        };
        error!(error = problem, "the metrics could not be written");
        text_response(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the metrics could not be written; the log has the reason",
        )
    }
}

fn page(body: Vec<u8>, compressed: bool) -> Response<Bytes> {
    let mut response = response(StatusCode::OK, TEXT_FORMAT, body);
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn write(registry: &Registry, compress: bool) -> Result<Vec<u8>, prometheus::Error> {
    let mut text = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut text)?;
    if !compress {
        return Ok(text);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&text)?;
    Ok(encoder.finish()?)
}

/// Returns whether the client accepts gzip: the header names gzip, with a quality above zero.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|encoding| {
        let (name, quality) = encoding.split_once(';').unwrap_or((encoding, ""));
        let quality = quality.trim().strip_prefix("q=").unwrap_or("1");
        name.trim() == "gzip" && quality.parse().is_ok_and(|quality: f32| quality > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_only_to_clients_that_accept_it() {
        let accepts = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_str(value).unwrap());
            accepts_gzip(&headers)
        };
        assert!(accepts("gzip") && accepts("deflate, gzip;q=0.5") && accepts("gzip; q=1"));
        assert!(!accepts("gzip;q=0") && !accepts("identity") && !accepts("gzipped"));
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
