//! Driver: performs the HTTP/2 handshake on a byte stream.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::timeout;
use tower::BoxError;

use crate::dial::Io;

/// The number of bytes that one stream may send before they are read.
///
/// Go's client allows 4 MiB. What a server sends ahead during a list is memory that the allocator keeps afterwards:
/// 4 MiB cost a cache of 50,000 Pods 3.9 MB more than 1 MiB. A round trip of 100 ms still allows 10 MB/s.
const STREAM_WINDOW: u32 = 1 << 20;
/// The number of bytes that all streams of a connection may send before they are read.
///
/// CONN-3: as much as 256 streams can fill, which is more than kube-apiserver allows (250), so that unread streams
/// take no window from the other streams.
const CONNECTION_WINDOW: u32 = 256 << 20;
/// The largest frame that the server may send, in bytes. With the default of 16 KiB, each frame costs a header and a
/// wake-up.
const FRAME: u32 = 256 << 10;
/// The size limit of the headers of an answer, in bytes: servers may send many warnings.
const HEADERS: u32 = 1 << 20;
/// The time that a server has to send its settings.
const SETTINGS: Duration = Duration::from_secs(10);

pub(crate) struct Http2 {
    pub(crate) sender: http2::SendRequest<Full<Bytes>>,
    pub(crate) connection: Arc<Mutex<Http2Connection>>,
}

pub(crate) type Http2Connection = http2::Connection<TokioIo<Box<dyn Io>>, Full<Bytes>, Spawn>;

impl Http2 {
    /// Returns the number of streams that the server allows; 0 if the connection has closed.
    pub(crate) fn limit(&self) -> usize {
        match self.sender.is_closed() {
            true => 0,
            false => self.connection.lock().current_max_send_streams(),
        }
    }
}

/// Performs the HTTP/2 handshake, and waits until the server has sent the number of streams that it allows.
pub(crate) async fn greet(
    io: Box<dyn Io>,
    runtime: Handle,
    pings: Option<(Duration, Duration)>,
) -> Result<Http2, BoxError> {
    let spawn = Spawn {
        runtime,
        settled: Arc::default(),
        polled: Arc::default(),
    };
    let mut builder = http2::Builder::new(spawn.clone());
    builder
        .timer(TokioTimer::new())
        .initial_max_send_streams(0)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_header_list_size(HEADERS);
    // CONN-2: pings are also sent without requests, so that the next request does not meet a dead connection.
    if let Some((interval, timeout)) = pings {
        builder
            .keep_alive_interval(interval)
            .keep_alive_timeout(timeout)
            .keep_alive_while_idle(true);
    }
    let (sender, mut connection) = builder.handshake(TokioIo::new(io)).await?;
    let settled = async {
        while connection.current_max_send_streams() == 0 {
            tokio::select! {
                ended = &mut connection => {
                    ended?;
                    return Err(BoxError::from("the server closed the connection"));
                }
                () = spawn.polled.notified() => {}
            }
        }
        Ok(())
    };
    match timeout(SETTINGS, settled).await {
        Ok(settled) => settled?,
        Err(_) => {
            let waited = SETTINGS.as_secs();
            return Err(format!("the server sent no settings of HTTP/2 within {waited} s").into());
        }
    }
    spawn.settled.store(true, Ordering::Relaxed);
    Ok(Http2 {
        sender,
        connection: Arc::new(Mutex::new(connection)),
    })
}

/// Runs the tasks of a connection in the runtime of its pool. Until the settings of the server have arrived, notifies
/// [`greet`] after each poll of such a task: hyper has no other signal for the settings.
#[derive(Clone, Debug)]
pub(crate) struct Spawn {
    runtime: Handle,
    settled: Arc<AtomicBool>,
    polled: Arc<Notify>,
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Spawn {
    fn execute(&self, task: F) {
        if self.settled.load(Ordering::Relaxed) {
            self.runtime.spawn(task);
            return;
        }
        let (settled, polled) = (Arc::clone(&self.settled), Arc::clone(&self.polled));
        let mut task = Box::pin(task);
        self.runtime.spawn(poll_fn(move |context| {
            let ready = task.as_mut().poll(context);
            if !settled.load(Ordering::Relaxed) {
                polled.notify_one();
            }
            ready
        }));
    }
}
