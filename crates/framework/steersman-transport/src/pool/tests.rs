//! Tests the connections of a pool on pipes with a paused clock.

use std::convert::Infallible;
use std::time::Duration;

use futures::FutureExt as _;
use futures::stream::{self, StreamExt as _};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use hyper::server::conn::http2 as server;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::io::DuplexStream;

use super::*;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The behaviour of the server on connections that are opened from now on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    /// Responds: without an end to `/watch`, with 64 MiB to `/large`, at once to other paths.
    Serves,
    /// Serves for this duration; then neither reads nor writes, with the connection open.
    FallsSilent(Duration),
    /// Closes the connection with a GOAWAY at the first request.
    GoesAway,
    /// Cuts the connection at the first request without a response.
    Cuts,
    /// Refuses to be dialed.
    Refuses,
    /// Panics during the dial.
    Panics,
}

/// An HTTP server in this process, which uses pipes instead of sockets.
struct Server {
    manner: Mutex<Manner>,
    streams: u32,
    opened: AtomicU64,
    info: AtomicU64,
}

fn server(manner: Manner, streams: u32) -> Arc<Server> {
    Arc::new(Server {
        manner: Mutex::new(manner),
        streams,
        opened: AtomicU64::new(0),
        info: AtomicU64::new(0),
    })
}

impl Server {
    fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    fn pool(self: &Arc<Self>) -> Arc<ConnectionPool> {
        let server = Arc::clone(self);
        let dial = Box::new(move |_| {
            let manner = *server.manner.lock();
            server.opened.fetch_add(1, Ordering::Relaxed);
            let server = Arc::clone(&server);
            async move {
                assert!(manner != Manner::Panics, "a defect of the dialer");
                if manner == Manner::Refuses {
                    return Err(BoxError::from("nothing listens there"));
                }
                let (ours, theirs) = tokio::io::duplex(1 << 16);
                tokio::spawn(server.serve(theirs, manner));
                Ok(Dialed {
                    io: Box::new(ours),
                    protocol: Protocol::Http2,
                    generation: 0,
                })
            }
            .boxed()
        });
        let pool = ConnectionPool::new(dial, ConnectionOptions::default(), Handle::current());
        Arc::new(pool)
    }

    async fn serve(self: Arc<Self>, io: DuplexStream, manner: Manner) {
        let info = Arc::new(tokio::sync::Notify::new());
        let (tell, counted) = (Arc::clone(&info), Arc::clone(&self));
        let service = service_fn(move |request: Request<Incoming>| {
            tell.notify_one();
            counted.info.fetch_add(1, Ordering::Relaxed);
            let answer = answer(request.uri().path());
            async move {
                if manner == Manner::Cuts {
                    let (): () = futures::future::pending().await;
                }
                Ok::<_, Infallible>(answer)
            }
        });
        let mut connection = std::pin::pin!(
            server::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(self.streams)
                .serve_connection(TokioIo::new(io), service)
        );
        match manner {
            Manner::FallsSilent(after) => {
                let _ = tokio::time::timeout(after, connection.as_mut()).await;
                // The pipe stays open, but neither end reads.
                let (): () = futures::future::pending().await;
            }
            Manner::GoesAway => {
                tokio::select! {
                    _ = connection.as_mut() => return,
                    () = info.notified() => {}
                }
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
            Manner::Cuts => {
                tokio::select! {
                    _ = connection.as_mut() => {}
                    () = info.notified() => {}
                }
            }
            Manner::Serves | Manner::Refuses | Manner::Panics => {
                let _ = connection.await;
            }
        }
    }
}

fn answer(path: &str) -> Answer {
    let frame = |size| Ok(Frame::data(Bytes::from(vec![7; size])));
    let body = match path {
        "/watch" => {
            let first = stream::once(async move { frame(1) });
            StreamBody::new(first.chain(stream::pending())).boxed_unsync()
        }
        "/large" => {
            let frames = stream::iter(0..64).map(move |_| frame(1 << 20));
            StreamBody::new(frames).boxed_unsync()
        }
        _ => Full::new(Bytes::from_static(b"done")).boxed_unsync(),
    };
    Response::new(body)
}

fn ask(path: &str) -> Request<Bytes> {
    let uri = format!("https://server{path}");
    Request::get(uri).body(Bytes::new()).unwrap()
}

async fn text(pool: &Arc<ConnectionPool>) -> Result<Bytes, BoxError> {
    let text = async {
        let answer = pool.send(ask("/")).await?;
        Ok(answer.into_body().collect().await?.to_bytes())
    };
    tokio::time::timeout(Duration::from_secs(300), text).await?
}

async fn open_watch(pool: &Arc<ConnectionPool>) -> PooledBody {
    let mut body = pool.send(ask("/watch")).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    body
}

/// CONN-2: a silent connection is pinged, and fails without a response.
#[tokio::test(start_paused = true)]
async fn a_silent_link_fails_all_its_streams_45_s_after_the_last_frame() {
    let server = server(Manner::FallsSilent(Duration::from_secs(5)), 100);
    let pool = server.pool();
    let begun = Instant::now();
    let (mut one, mut two) = (open_watch(&pool).await, open_watch(&pool).await);
    for watch in [&mut one, &mut two] {
        let frame = tokio::time::timeout(Duration::from_secs(300), watch.frame());
        assert!(frame.await.unwrap().unwrap().is_err());
    }
    assert!(
        begun.elapsed() <= Duration::from_secs(46),
        "{:?}",
        begun.elapsed()
    );
    *server.manner.lock() = Manner::Serves;
    assert_eq!(text(&pool).await.unwrap(), "done");
    assert_eq!(server.opened(), 2);
}

/// CONN-2: pings also watch an idle connection.
#[tokio::test(start_paused = true)]
async fn a_link_that_became_silent_while_idle_gets_no_request() {
    let server = server(Manner::FallsSilent(Duration::from_secs(5)), 100);
    let pool = server.pool();
    assert_eq!(text(&pool).await.unwrap(), "done");
    *server.manner.lock() = Manner::Serves;
    sleep(Duration::from_secs(50)).await;
    let begun = Instant::now();
    assert_eq!(text(&pool).await.unwrap(), "done");
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(server.opened(), 2);
}

/// CONN-2: the server answers the pings while all streams are quiet.
#[tokio::test(start_paused = true)]
async fn a_quiet_watch_on_a_live_link_is_kept() {
    let server = server(Manner::Serves, 100);
    let pool = server.pool();
    let mut watch = open_watch(&pool).await;
    let quiet = tokio::time::timeout(Duration::from_secs(3600), watch.frame()).await;
    assert!(quiet.is_err());
    assert_eq!(text(&pool).await.unwrap(), "done");
    assert_eq!(server.opened(), 1);
}

/// CONN-3: a paused reader takes no flow-control window from other streams.
#[tokio::test(start_paused = true)]
async fn unread_streams_do_not_block_other_streams() {
    let server = server(Manner::Serves, 100);
    let pool = server.pool();
    let mut unread = Vec::new();
    for _ in 0..40 {
        unread.push(pool.send(ask("/large")).await.unwrap());
    }
    let body = pool.send(ask("/large")).await.unwrap().into_body();
    let read = tokio::time::timeout(Duration::from_secs(300), body.collect()).await;
    assert_eq!(read.unwrap().unwrap().to_bytes().len(), 64 << 20);
    assert_eq!(text(&pool).await.unwrap(), "done");
    assert_eq!(server.opened(), 1);
}

/// CONN-5: only a request that the server has not processed is sent again.
#[tokio::test(start_paused = true)]
async fn a_goaway_loses_no_request_and_no_watch() {
    let server = server(Manner::GoesAway, 100);
    let pool = server.pool();
    let mut watch = open_watch(&pool).await;
    *server.manner.lock() = Manner::Serves;
    let asks = (0..20).map(|_| text(&pool));
    for answered in futures::future::join_all(asks).await {
        assert_eq!(answered.unwrap(), "done");
    }
    // The server finishes the requests in progress.
    assert!(watch.frame().now_or_never().is_none());
    assert_eq!(server.opened(), 2);
}

/// CONN-5: a request that the server may have processed is not repeated.
#[tokio::test(start_paused = true)]
async fn a_request_on_a_link_that_breaks_is_sent_once() {
    let server = server(Manner::Cuts, 100);
    let pool = server.pool();
    let info = || server.info.load(Ordering::Relaxed);
    assert!(text(&pool).await.is_err());
    assert_eq!(info(), 1);
    *server.manner.lock() = Manner::Serves;
    assert_eq!(text(&pool).await.unwrap(), "done");
    assert_eq!((info(), server.opened()), (2, 2));
}

/// CONN-1: clients of one configuration share connections.
#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_one_dial_share_its_failure() {
    let server = server(Manner::Refuses, 100);
    let pool = server.pool();
    let error = text(&pool).await.unwrap_err();
    assert!(error.to_string().contains("nothing listens"), "{error}");
    assert_eq!(server.opened(), 1);
    // All requests that wait for one dial get its error.
    let asks = (0..20).map(|_| text(&pool));
    for answered in futures::future::join_all(asks).await {
        assert!(answered.is_err());
    }
    assert_eq!(server.opened(), 2);
}

/// CONN-1: clients of one configuration share connections.
#[tokio::test(start_paused = true)]
async fn a_link_ends_with_its_pool_and_after_90_s_without_a_request() {
    let server = server(Manner::Serves, 100);
    let pool = server.pool();
    assert_eq!(text(&pool).await.unwrap(), "done");
    sleep(Duration::from_secs(200)).await;
    assert_eq!(text(&pool).await.unwrap(), "done");
    assert_eq!(server.opened(), 2);
    // A response body outlives the pool.
    let watch = open_watch(&pool).await;
    drop(pool);
    tokio::task::yield_now().await;
    assert_eq!(Arc::strong_count(&server), 3, "the pipe is served still");
    drop(watch);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(Arc::strong_count(&server), 1, "and no longer");
}

/// CONN-1: clients of one configuration share connections.
#[tokio::test(start_paused = true)]
async fn a_dial_that_panics_fails_only_its_own_requests() {
    let server = server(Manner::Panics, 100);
    let pool = server.pool();
    text(&pool).await.unwrap_err();
    *server.manner.lock() = Manner::Serves;
    assert_eq!(text(&pool).await.unwrap(), "done");
}
