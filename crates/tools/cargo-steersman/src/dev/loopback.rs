//! Driver: free ports of this machine, and HTTP requests to them.

use std::net::{SocketAddr, TcpListener};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::error::Error;

pub(crate) fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = listener.map_err(Error::file("127.0.0.1:0", "opened"))?;
    Ok(address.port())
}

/// Sends a GET request over plain TCP, and reads until the server closes the connection. `headers` end with a line
/// break.
pub(crate) async fn get(address: SocketAddr, path: &str, headers: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
