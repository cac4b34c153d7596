//! Driver: free ports of this machine, and HTTP requests to them.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::Error;

/// The time limit of a request.
const ANSWER: Duration = Duration::from_secs(2);

pub(crate) fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = listener.map_err(Error::file("127.0.0.1:0", "opened"))?;
    Ok(address.port())
}

/// Sends a GET request over plain TCP, and reads until the server closes the connection. Returns whether the status is
/// 200, and the body; `None` without an answer in time. Cancel safe.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Option<(bool, String)> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = timeout(ANSWER, exchange).await.ok()?.ok()?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.starts_with("HTTP/1.1 200"), body.to_owned()))
}
