//! Driver: performs the HTTP/2 handshake.

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

/// The flow-control window of a stream in bytes: how much the server may send before it is read.
///
/// Go's client allows 4 MiB. Data that a server sends ahead during a list takes memory that the allocator keeps: for a
/// cache of 50,000 Pods, 4 MiB cost 3.9 MB more than 1 MiB. At a round trip of 100 ms, 1 MiB still allows 10 MB/s.
const STREAM_WINDOW: u32 = 1 << 20;
/// The flow-control window of a connection in bytes, for all its streams together.
///
/// CONN-3: enough for 256 full stream windows; kube-apiserver allows 250 streams. Unread streams thus take no window
/// from others.
const CONNECTION_WINDOW: u32 = 256 << 20;
/// The largest frame that the server may send, in bytes. With the default of 16 KiB, more frames mean more headers and
/// wake-ups.
const FRAME: u32 = 256 << 10;
/// The maximal size of a response's headers in bytes, because servers may send many warnings.
const HEADERS: u32 = 1 << 20;
/// The time limit for the server's settings.
const SETTINGS: Duration = Duration::from_secs(10);

pub(crate) struct Http2 {
    pub(crate) sender: http2::SendRequest<Full<Bytes>>,
    pub(crate) connection: Arc<Mutex<Http2Connection>>,
}

pub(crate) type Http2Connection = http2::Connection<TokioIo<Box<dyn Io>>, Full<Bytes>, Spawn>;

impl Http2 {
    /// Returns the number of streams that the server allows; 0 for a closed connection.
    pub(crate) fn limit(&self) -> usize {
        match self.sender.is_closed() {
            true => 0,
            false => self.connection.lock().current_max_send_streams(),
        }
    }
}

/// Performs the HTTP/2 handshake, and waits until the server has sent the allowed number of streams.
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
    // CONN-2: pings are also sent without requests, so that no request uses a dead connection.
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
    timeout(SETTINGS, settled).await.map_err(|_| {
        let waited = SETTINGS.as_secs();
        format!("the server sent no settings of HTTP/2 within {waited} s")
    })??;
    spawn.settled.store(true, Ordering::Relaxed);
    Ok(Http2 {
        sender,
        connection: Arc::new(Mutex::new(connection)),
    })
}

/// Runs the tasks of a connection in the runtime of its pool. Until the server's settings have arrived, it notifies
/// [`greet`] after each poll, because hyper does not signal their arrival.
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
