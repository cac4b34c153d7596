//! Handle: signing in with a browser: a form takes the bearer token and keeps it in a cookie.

use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, HeaderMap, HeaderValue, LOCATION,
    SET_COOKIE,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;

use crate::routes::{Route, response, text_response};

/// The beginning of the name of the cookie that holds a token. The port of the server follows, because browsers send cookies
/// to all ports of a host, and several operators may be reached on one host.
const COOKIE_NAME: &str = "steersman-token";

/// The size in bytes from which a token is refused without a review.
pub(crate) const LONGEST_TOKEN: usize = 16 << 10;

/// The size in bytes from which browsers drop a cookie, less its attributes.
const LONGEST_COOKIE: usize = 3_900;

/// How long a browser keeps the cookie: as long as tokens of `kubectl create token` are valid by default.
const KEPT_SECONDS: u32 = 3_600;

/// The query of the form after a refused token.
const REFUSED: &str = "refused";

/// The pages below one path that a browser signs in to.
///
/// A browser cannot send a bearer token of its own. The route of [`route`](Self::route) shows a form for the token, and keeps
/// the token in a cookie that no script can read, and that no other site can use. The browser sends it to paths below that of
/// the pages on this host. Access controls of this crate read the token of a request from its `Authorization` header or,
/// without this header, from the cookie.
#[derive(Clone, derive_more::Debug)]
#[debug(
    "SignIn {{ pages: {pages:?}, is_secure: {is_secure}, accepts_links: {accepts_links}, .. }}"
)]
#[must_use]
pub struct SignIn {
    /// The path of the pages, with a slash at its end.
    pages: String,
    is_secure: bool,
    accepts_links: bool,
    form: fn(SignInProblem) -> String,
    policy: Option<&'static str>,
}

/// What a form has to say about the last attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignInProblem {
    /// Nothing: it is shown for the first time.
    None,
    /// The access control refused the token.
    Refused,
    /// The text cannot be a token, or is too long for a cookie: more than 3,900 bytes.
    NoToken,
}

impl SignIn {
    /// Makes the sign-in to the pages below `pages`, a path that ends with a slash. `form` returns the HTML page with the form:
    /// it sends the field `token` by POST to the path of the [route](Self::route). With `is_secure`, browsers send the cookie
    /// only over HTTPS.
    pub fn new(
        pages: impl Into<String>,
        is_secure: bool,
        form: fn(SignInProblem) -> String,
    ) -> Self {
        Self {
            pages: pages.into(),
            is_secure,
            accepts_links: false,
            form,
            policy: None,
        }
    }

    /// Sets whether a link with the query `token=TOKEN` signs in. For servers on a loopback address, because links are kept
    /// in the history of a browser. Default off.
    pub fn accept_links(mut self, accepts: bool) -> Self {
        self.accepts_links = accepts;
        self
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
        let query = request.uri().query().unwrap_or_default();
        let fields = match *request.method() {
            Method::POST if is_of_other_site(request.headers()) => {
                let text = "the form of another site cannot sign in";
                return text_response(StatusCode::FORBIDDEN, text);
            }
            Method::POST => &request.body()[..],
            Method::GET | Method::HEAD if self.accepts_links && query.starts_with("token=") => {
                query.as_bytes()
            }
            Method::GET | Method::HEAD if query == REFUSED => {
                return self.form(StatusCode::OK, SignInProblem::Refused);
            }
            Method::GET | Method::HEAD => return self.form(StatusCode::OK, SignInProblem::None),
            _ => return text_response(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"),
        };
        let secure = if self.is_secure { "; Secure" } else { "" };
        let name = cookie_name(request.headers());
        // Without a path, the cookie is sent to paths beside that of this response, also below the path of a proxy.
        let cookie = token_of_form(fields).and_then(|token| {
            let cookie = format!(
                "{name}={token}; Max-Age={KEPT_SECONDS}; HttpOnly; SameSite=Strict{secure}"
            );
            HeaderValue::from_str(&cookie).ok()
        });
        let Some(cookie) = cookie else {
            return self.form(StatusCode::BAD_REQUEST, SignInProblem::NoToken);
        };
        let mut response = redirect("./");
        response.headers_mut().insert(SET_COOKIE, cookie);
        response
    }

    fn form(&self, status: StatusCode, problem: SignInProblem) -> Response<Bytes> {
        let form = (self.form)(problem);
        let mut response = response(status, "text/html; charset=utf-8", form);
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(policy) = self.policy {
            headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
        }
        response
    }
}

/// Returns the name of the cookie for the port of a request.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let port = host
        .and_then(|host| host.rsplit_once(':'))
        .map(|(_, port)| port);
    match port.and_then(|port| port.parse::<u16>().ok()) {
        Some(port) => format!("{COOKIE_NAME}-{port}"),
        None => COOKIE_NAME.to_owned(),
    }
}

/// Returns the token in the cookie of a request: in that for its port, or in one without a port, which a program may send
/// through a proxy.
pub(crate) fn cookie_token(headers: &HeaderMap) -> Option<&str> {
    let named = |name: &str| {
        let cookies = headers.get_all(COOKIE).iter();
        let mut cookies = cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'));
        cookies.find_map(|cookie| cookie.trim().strip_prefix(name)?.strip_prefix('='))
    };
    named(&cookie_name(headers)).or_else(|| named(COOKIE_NAME))
}

/// Returns whether a request comes from the address bar or a link of a browser, so that a form can answer it.
pub(crate) fn is_of_browser(head: &Parts) -> bool {
    let accepts = head
        .headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok());
    accepts.is_some_and(|accepts| accepts.contains("text/html"))
}

/// Returns the response that sends a browser to the form at `form`, relative to the folder of the route `path`. A proxy may
/// serve both below another path, so the address goes up from that of the request.
pub(crate) fn to_form(form: &str, path: &str, head: &Parts) -> Response<Bytes> {
    let below = head.uri.path().strip_prefix(path).unwrap_or_default();
    let up = "../".repeat(below.matches('/').count());
    match cookie_token(&head.headers) {
        Some(_) => redirect(&format!("{up}{form}?{REFUSED}")),
        None => redirect(&format!("{up}{form}")),
    }
}

/// Returns a response that sends a browser to another path.
fn redirect(path: &str) -> Response<Bytes> {
    let mut response = text_response(StatusCode::SEE_OTHER, format!("see {path}"));
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(LOCATION, path);
    }
    response
}

/// Returns whether a browser says that another site has sent the request.
fn is_of_other_site(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_some_and(|site| site == "cross-site" || site == "same-site")
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
    let is_usable = !token.is_empty() && token.len() <= LONGEST_COOKIE;
    (is_usable && token.bytes().all(is_of_token)).then(|| token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign_in() -> SignIn {
        SignIn::new("/debug/", true, |problem| format!("{problem:?}"))
    }

    fn text(response: &Response<Bytes>) -> String {
        String::from_utf8(response.body().to_vec()).unwrap()
    }

    #[test]
    fn the_token_of_a_form_becomes_a_cookie_of_its_port_that_is_read_again() {
        let post = |body: &'static str, site: &str| {
            let request = Request::post("/debug/sign-in").header(HOST, "localhost:8443");
            let request = request.header("sec-fetch-site", site);
            sign_in().answer(&request.body(Bytes::from(body)).unwrap())
        };
        let signed = post("x=1&token=+ab.c%2D_d%3D%0A", "same-origin");
        assert_eq!(signed.status(), StatusCode::SEE_OTHER);
        assert_eq!(signed.headers()[LOCATION], "./");
        let cookie = signed.headers()[SET_COOKIE].to_str().unwrap();
        assert_eq!(
            cookie,
            "steersman-token-8443=ab.c-_d=; Max-Age=3600; HttpOnly; SameSite=Strict; Secure"
        );
        let token_of = |host: &'static str, cookies: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            headers.insert(COOKIE, HeaderValue::from_static(cookies));
            cookie_token(&headers).map(str::to_owned)
        };
        let cookies = "a=b; steersman-token-8443=ab.c-_d=; steersman-token-1=x";
        assert_eq!(
            token_of("localhost:8443", cookies).as_deref(),
            Some("ab.c-_d=")
        );
        assert_eq!(token_of("localhost:9443", cookies), None);
        assert_eq!(
            token_of("10.0.0.1:1", "steersman-token=t").as_deref(),
            Some("t")
        );
        let long = Box::leak(format!("token={}", "x".repeat(LONGEST_COOKIE + 1)).into_boxed_str());
        for wrong in [
            "", "token=", "token=a%3Bb", "token=a%20b", "token=%ff", "other=a", long,
        ] {
            let refused = post(wrong, "same-origin");
            assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{wrong}");
            assert_eq!(text(&refused), "NoToken");
        }
        assert_eq!(
            post("token=abc", "cross-site").status(),
            StatusCode::FORBIDDEN
        );
    }

    #[test]
    fn a_link_signs_in_only_where_links_are_accepted() {
        let get = |sign_in: SignIn, path: &str| {
            let request = Request::get(path).body(Bytes::new()).unwrap();
            sign_in.answer(&request)
        };
        let shown = get(sign_in(), "/debug/sign-in?token=abc");
        assert_eq!(
            (shown.status(), text(&shown).as_str()),
            (StatusCode::OK, "None")
        );
        let links = || sign_in().accept_links(true);
        assert_eq!(
            get(links(), "/debug/sign-in?token=abc").status(),
            StatusCode::SEE_OTHER
        );
        assert_eq!(
            get(links(), "/debug/sign-in?token=").status(),
            StatusCode::BAD_REQUEST
        );
        assert_eq!(text(&get(links(), "/debug/sign-in?refused")), "Refused");
        let request = Request::put("/debug/sign-in").body(Bytes::from("token=abc"));
        let refused = links().answer(&request.unwrap());
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[test]
    fn a_browser_is_sent_to_the_form_beside_the_pages_from_any_depth() {
        let location = |path: &str, cookie: &'static str| {
            let head = Request::get(path)
                .header(COOKIE, cookie)
                .body(())
                .unwrap()
                .into_parts()
                .0;
            let sent = to_form("sign-in", "/debug/", &head);
            sent.headers()[LOCATION].to_str().unwrap().to_owned()
        };
        assert_eq!(location("/debug/", "a=b"), "sign-in");
        assert_eq!(location("/debug/caches", "a=b"), "sign-in");
        assert_eq!(location("/debug/api/overview", "a=b"), "../sign-in");
        assert_eq!(
            location("/debug/", "steersman-token=old"),
            "sign-in?refused"
        );
    }
}
