//! Driver: asks a proxy for a tunnel to the server, by CONNECT.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tower::BoxError;

pub(crate) struct Proxy {
    pub(crate) address: Uri,
    /// The value of the header `Proxy-Authorization`.
    authorization: Option<String>,
}

/// The maximal size of the head of a proxy's response, in bytes.
const LARGEST_HEAD: usize = 16 << 10;

const END: &[u8] = b"\r\n\r\n";

/// The error message for an invalid proxy address.
pub const NO_PROXY_ADDRESS: &str = "the address of the proxy is no URL such as http://proxy:3128";

/// Checks that connections can use this proxy.
///
/// # Errors
///
/// The problem with the address of the proxy.
pub fn check_proxy(proxy: &Uri) -> Result<(), String> {
    match proxy.scheme_str() {
        Some("http") if proxy.host().is_some_and(|host| !host.is_empty()) => Ok(()),
        Some(scheme @ ("https" | "socks5" | "socks5h")) => Err(format!(
            "connections do not go through proxies with {scheme}: name one with http"
        )),
        _ => Err(NO_PROXY_ADDRESS.to_owned()),
    }
}

impl Proxy {
    /// Parses the URL of a proxy, which may include a name and a password.
    ///
    /// # Errors
    ///
    /// The problem with the URL.
    pub(crate) fn new(url: &Uri) -> Result<Self, String> {
        check_proxy(url)?;
        let host = url.host().unwrap_or_default();
        let port = url.port_u16().unwrap_or(80);
        let address = format!("http://{host}:{port}").parse();
        let user = url
            .authority()
            .and_then(|all| all.as_str().rsplit_once('@'));
        Ok(Self {
            address: address.map_err(|error: http::uri::InvalidUri| error.to_string())?,
            authorization: user.map(|(user, _)| basic(user)),
        })
    }

    /// Asks for a tunnel to `target`, a host with a port. Afterwards the stream leads to the target.
    pub(crate) async fn tunnel<S>(&self, stream: &mut S, target: &str) -> Result<(), BoxError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some(authorization) = &self.authorization {
            request.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await?;
        let answer = read_head(stream).await;
        let failed = |problem: &str| {
            let proxy = self.address.authority().map_or("", |all| all.as_str());
            format!("the proxy {proxy} opens no tunnel to {target}: {problem}")
        };
        let (head, rest) = answer.map_err(|problem| failed(&problem))?;
        let line = head.lines().next().unwrap_or_default();
        let code = line.split_whitespace().nth(1).unwrap_or_default();
        match code.parse() {
            // Bytes after the head cannot be from the target, which never speaks first.
            Ok(200..=299_u16) if rest > 0 => Err(failed("its answer has a body").into()),
            Ok(200..=299_u16) => Ok(()),
            Ok(407) => {
                Err(failed("407, it needs a name and a password: http://NAME:PASSWORD@…").into())
            }
            _ => Err(failed(line).into()),
        }
    }
}

/// Returns the header value for the credentials in a URL, `name:password`, with percent-encoded special characters.
fn basic(user: &str) -> String {
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let mut both: Vec<u8> = percent_decode_str(name).collect();
    both.push(b':');
    both.extend(percent_decode_str(password));
    format!("Basic {}", STANDARD.encode(both))
}

/// Reads the head of a response. Also returns the number of bytes that were read after the head.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> Result<(String, usize), String> {
    let mut read = Vec::new();
    let mut part = [0; 1024];
    loop {
        if let Some(end) = memchr::memmem::find(&read, END) {
            let head = String::from_utf8_lossy(&read[..end]).into_owned();
            return Ok((head, read.len() - end - END.len()));
        }
        if read.len() > LARGEST_HEAD {
            return Err("its answer is no answer of a proxy".to_owned());
        }
        let count = stream.read(&mut part).await;
        match count.map_err(|error| error.to_string())? {
            0 => return Err("it closed the connection".to_owned()),
            count => read.extend_from_slice(&part[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn asked(url: &str, answer: &'static str) -> (String, Result<(), String>) {
        let proxy = Proxy::new(&url.parse().unwrap()).unwrap();
        let (mut ours, mut theirs) = tokio::io::duplex(1 << 12);
        let serving = async move {
            let mut request = vec![0; 1 << 12];
            let count = theirs.read(&mut request).await.unwrap();
            theirs.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&request[..count]).into_owned()
        };
        let asking = proxy.tunnel(&mut ours, "api.example.com:6443");
        let (request, opened) = tokio::join!(serving, asking);
        (request, opened.map_err(|error| error.to_string()))
    }

    #[tokio::test]
    async fn a_tunnel_is_asked_for_with_the_credentials_of_the_url() {
        let answer = "HTTP/1.1 200 Connection established\r\nVia: me\r\n\r\n";
        let (request, opened) = asked("http://me:p%40ss@proxy:3128", answer).await;
        assert_eq!(opened, Ok(()));
        let expected = "CONNECT api.example.com:6443 HTTP/1.1\r\nHost: api.example.com:6443\r\n\
                        Proxy-Authorization: Basic bWU6cEBzcw==\r\n\r\n";
        assert_eq!(request, expected);
        let (request, _) = asked("http://proxy", answer).await;
        assert!(!request.contains("Proxy-Authorization"), "{request}");
    }

    #[tokio::test]
    async fn a_refusal_names_the_proxy_and_the_target_and_no_password() {
        for (answer, problem) in [
            ("HTTP/1.1 403 Forbidden\r\n\r\n<p>No.</p>", "403 Forbidden"),
            ("HTTP/1.1 200 OK\r\n\r\nhello", "a body"),
            ("HTTP/1.1 407 Who are you\r\n\r\n", "a name and a password"),
            ("SSH-2.0-OpenSSH\r\n\r\n", "SSH-2.0-OpenSSH"),
            ("", "closed the connection"),
        ] {
            let (_, opened) = asked("http://me:hunter2@proxy:3128", answer).await;
            let error = opened.unwrap_err();
            assert!(error.contains(problem), "{error}");
            assert!(error.contains("proxy:3128"), "{error}");
            assert!(error.contains("api.example.com:6443"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
