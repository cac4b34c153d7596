//! Handle: the HTTP route that shows and changes the log level.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use steersman_serve::{Route, text_response};

use crate::log::LogLevel;

pub(crate) const PATH: &str = "/debug/log-level";

/// The longest body of a request, in bytes.
const LONGEST: usize = 4096;

/// Returns the route of the log level: GET returns the level, and PUT sets it to the body.
pub(crate) fn level_route(level: LogLevel) -> Route {
    Route::any(PATH, LONGEST, move |request: Request<Bytes>| {
        let response = respond(&level, &request);
        async move { response }
    })
}

fn respond(level: &LogLevel, request: &Request<Bytes>) -> Response<Bytes> {
    match *request.method() {
        Method::GET | Method::HEAD => text_response(StatusCode::OK, format!("{}\n", level.get())),
        Method::PUT => {
            let wanted = String::from_utf8_lossy(request.body());
            let before = level.get();
            match level.set(&wanted) {
                Ok(()) => {
                    let after = level.get();
                    tracing::warn!(before, after, "the log level was changed");
                    text_response(StatusCode::OK, format!("{after}\n"))
                }
                Err(error) => text_response(StatusCode::BAD_REQUEST, format!("{error}\n")),
            }
        }
        _ => text_response(
            StatusCode::METHOD_NOT_ALLOWED,
            "GET returns the level, PUT sets it\n",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::LogFormat;

    #[test]
    fn the_level_is_shown_and_set_and_a_wrong_one_changes_nothing() {
        let (level, layer) = LogLevel::layer("info", LogFormat::Human).unwrap();
        let _subscriber =
            tracing_subscriber::layer::SubscriberExt::with(tracing_subscriber::registry(), layer);
        let ask = |method: Method, body: &'static str| {
            let request = Request::builder().method(method).uri(PATH);
            let request = request.body(Bytes::from_static(body.as_bytes())).unwrap();
            let response = respond(&level, &request);
            let text = String::from_utf8_lossy(response.body()).trim().to_owned();
            (response.status().as_u16(), text)
        };
        assert_eq!(ask(Method::GET, ""), (200, "info".to_owned()));
        assert_eq!(
            ask(Method::PUT, "debug,h2=warn\n"),
            (200, "debug,h2=warn".to_owned())
        );
        assert_eq!(ask(Method::PUT, "h2=loud").0, 400);
        // `warning` is refused: as a target, it would silence all other lines.
        assert_eq!(ask(Method::PUT, "warning").0, 400);
        assert_eq!(ask(Method::PUT, "").0, 400);
        assert_eq!(ask(Method::POST, "info").0, 405);
        assert_eq!(ask(Method::GET, ""), (200, "debug,h2=warn".to_owned()));
    }
}
