//! Handle: signing in with a browser: a form takes the bearer token and keeps it in a cookie.

use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HeaderMap, HeaderValue, LOCATION,
    SET_COOKIE,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;

use crate::routes::{Route, response, text_response};

/// The name of the cookie that holds a token.
const COOKIE_NAME: &str = "steersman-token";

/// The size in bytes from which a token is refused without a review.
pub(crate) const LONGEST_TOKEN: usize = 16 << 10;

/// How long a browser keeps the cookie: as long as tokens of `kubectl create token` are valid by default.
const KEPT_SECONDS: u32 = 3_600;

/// The pages below one path that a browser signs in to.
///
/// A browser cannot send a bearer token of its own. The route of [`route`](Self::route) shows a form for the token, and keeps
/// the token in a cookie that no script can read, that is sent to no other site and only below the path. Access controls of this
/// crate read the token of a request from its `Authorization` header or, without this header, from the cookie.
#[derive(Clone, Debug)]
#[must_use]
pub struct SignIn {
    /// The path of the pages, with a slash at its end.
    pages: String,
    is_secure: bool,
    form: Bytes,
    policy: Option<&'static str>,
}

impl SignIn {
    /// Makes the sign-in to the pages below `pages`, a path that ends with a slash. `form` is the HTML page with the form: it
    /// sends the field `token` by POST to the path of the [route](Self::route). With `is_secure`, browsers send the cookie only
    /// over HTTPS.
    pub fn new(pages: impl Into<String>, is_secure: bool, form: impl Into<Bytes>) -> Self {
        Self {
            pages: pages.into(),
            is_secure,
            form: form.into(),
            policy: None,
        }
    }

    /// Sets the `Content-Security-Policy` of the form. By default it has none.
    pub fn policy(mut self, policy: &'static str) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Returns the path of the form: `sign-in` below that of the pages.
    pub fn path(&self) -> String {
        format!("{}sign-in", self.pages)
    }

    /// Returns the route of the form. Every client may use it.
    pub fn route(&self) -> Route {
        let this = self.clone();
        // A form encodes each byte of a token with at most three.
        let largest = 3 * LONGEST_TOKEN + 64;
        Route::any(self.path(), largest, move |request: Request<Bytes>| {
            let response = this.answer(&request);
            async move { response }
        })
    }

    fn answer(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let fields = match *request.method() {
            Method::POST => &request.body()[..],
            // A program that runs on the host of the browser may print a link with the token.
            _ => request.uri().query().unwrap_or_default().as_bytes(),
        };
        let token = match token_of_form(fields) {
            Some(token) => token,
            None if fields.is_empty() && request.method() != Method::POST => {
                return self.form(StatusCode::OK);
            }
            None => return self.form(StatusCode::BAD_REQUEST),
        };
        let secure = if self.is_secure { "; Secure" } else { "" };
        let cookie = format!(
            "{COOKIE_NAME}={token}; Path={}; Max-Age={KEPT_SECONDS}; HttpOnly; SameSite=Strict{secure}",
            self.pages
        );
        let Ok(cookie) = HeaderValue::from_str(&cookie) else {
            return self.form(StatusCode::BAD_REQUEST);
        };
        // Relative, because a proxy may serve the pages below another path.
        let mut response = redirect("./");
        response.headers_mut().insert(SET_COOKIE, cookie);
        response
    }

    fn form(&self, status: StatusCode) -> Response<Bytes> {
        let mut response = response(status, "text/html; charset=utf-8", self.form.clone());
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(policy) = self.policy {
            headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
        }
        response
    }
}

/// Returns the token in the cookie of a request.
pub(crate) fn cookie_token(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter();
    let mut cookies = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    cookies.find_map(|cookie| cookie.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='))
}

/// Returns whether a request comes from the address bar or a link of a browser, so that a form can answer it.
pub(crate) fn is_of_browser(head: &Parts) -> bool {
    let accepts = head
        .headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok());
    accepts.is_some_and(|accepts| accepts.contains("text/html"))
}

/// Returns a response that sends a browser to another path.
pub(crate) fn redirect(path: &str) -> Response<Bytes> {
    let mut response = text_response(StatusCode::SEE_OTHER, format!("see {path}"));
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(LOCATION, path);
    }
    response
}

/// Returns the token of the form. Only characters of tokens are accepted, so that no other attribute of the cookie can follow.
fn token_of_form(body: &[u8]) -> Option<String> {
    let body = str::from_utf8(body).ok()?;
    let field = body
        .split('&')
        .find_map(|field| field.strip_prefix("token="))?;
    let field = field.replace('+', " ");
    let token = percent_decode_str(&field).decode_utf8().ok()?;
    let token = token.trim();
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let is_usable =
        !token.is_empty() && token.len() <= LONGEST_TOKEN && token.bytes().all(is_of_token);
    is_usable.then(|| token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_a_form_becomes_a_cookie_that_is_read_again() {
        let sign_in = SignIn::new("/debug/", true, "<form>");
        let post = |body: &'static str| {
            let request = Request::post("/debug/sign-in")
                .body(Bytes::from(body))
                .unwrap();
            sign_in.answer(&request)
        };
        let signed = post("x=1&token=+ab.c%2D_d%3D%0A");
        assert_eq!(signed.status(), StatusCode::SEE_OTHER);
        assert_eq!(signed.headers()[LOCATION], "./");
        let cookie = signed.headers()[SET_COOKIE].to_str().unwrap();
        assert_eq!(
            cookie,
            "steersman-token=ab.c-_d=; Path=/debug/; Max-Age=3600; HttpOnly; SameSite=Strict; Secure"
        );
        let mut headers = HeaderMap::new();
        headers.insert(
            COOKIE,
            HeaderValue::from_static("a=b; steersman-token=ab.c-_d="),
        );
        assert_eq!(cookie_token(&headers), Some("ab.c-_d="));
        let get = |path: &str| {
            let request = Request::get(path).body(Bytes::new()).unwrap();
            sign_in.answer(&request).status()
        };
        assert_eq!(get("/debug/sign-in"), StatusCode::OK);
        assert_eq!(get("/debug/sign-in?token=abc"), StatusCode::SEE_OTHER);
        assert_eq!(get("/debug/sign-in?token="), StatusCode::BAD_REQUEST);
        for wrong in [
            "", "token=", "token=a%3Bb", "token=a%20b", "token=%ff", "other=a",
        ] {
            assert_eq!(post(wrong).status(), StatusCode::BAD_REQUEST, "{wrong}");
        }
    }
}
