//! Driver: the socket of a connection, which sends a single slice with `send` and counts the bytes that it sends.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The TCP socket below a TLS stream. TLS writes lists that usually have one slice; for one slice the vectored write
/// (`writev`) is slower than `send`.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    /// The number of bytes that the operating system has accepted for sending.
    sent: Arc<AtomicU64>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream) -> Self {
        let sent = Arc::default();
        Self { stream, sent }
    }

    pub(super) fn sent(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.sent)
    }

    fn count(&self, written: io::Result<usize>) -> Poll<io::Result<usize>> {
        if let Ok(bytes) = written {
            // Relaxed: the counter orders no other memory access.
            self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        Poll::Ready(written)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = Pin::new(&mut self.stream);
        let written = match slices {
            [one] => stream.poll_write(context, one),
            _ => stream.poll_write_vectored(context, slices),
        };
        self.count(ready!(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
