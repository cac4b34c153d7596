//! Driver: passes the bytes of one client to the server and back, and counts those from the server.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::with_server;
use crate::process::BenchResult;

/// A relay for one client. Dropping it ends its connections.
pub(super) struct Relay {
    received: Arc<AtomicU64>,
    kubeconfig: tempfile::NamedTempFile,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// Starts a relay to the server of a kubeconfig.
    pub(super) async fn start(kubeconfig: &str) -> BenchResult<Self> {
        let server = kubeconfig.split("https://").nth(1).unwrap_or_default();
        let server: String = server
            .chars()
            .take_while(|character| character.is_ascii_digit() || ".:".contains(*character))
            .collect();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let own = listener.local_addr()?.to_string();
        let file = tempfile::NamedTempFile::new()?;
        with_server(kubeconfig, &server, &own, file.path())?;
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, count) = (server.clone(), Arc::clone(&count));
                // A connection that breaks is made again by the client.
                tokio::spawn(async move { drop(pass(client, &server, &count).await) });
            }
        });
        Ok(Self {
            received,
            kubeconfig: file,
            accepting,
        })
    }

    pub(super) fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// Returns the number of bytes from the server so far.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(client: TcpStream, server: &str, received: &AtomicU64) -> std::io::Result<()> {
    let server = TcpStream::connect(server).await?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let asking = async {
        tokio::io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let answering = async {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = from_server.read(&mut buffer).await?;
            if read == 0 {
                return to_client.shutdown().await;
            }
            received.fetch_add(read as u64, Ordering::Relaxed);
            to_client.write_all(&buffer[..read]).await?;
        }
    };
    tokio::try_join!(asking, answering).map(drop)
}
