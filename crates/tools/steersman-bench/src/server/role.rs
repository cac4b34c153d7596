//! Driver: the roles of processes in a measurement, and their reports on standard output.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use serde::{Deserialize, Serialize};
use steersman_apiserver::ApiServer;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::Notify;
use tokio::time::Instant;
use tower::ServiceExt;

use super::fill::fill;
use super::serve::serve;
use super::simulator::{SimulatorTask, bring_up};
use crate::process::{BenchResult, memory, send};
use crate::samples::Sample;
use crate::wire::{Exchange, ServerAddress, trust};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ServerRole {
    /// Starts a server and sends it a request.
    Start,
    /// Lists and watches without sockets.
    InProcess { objects: u64, runs: u32 },
    /// Serves over HTTPS until its standard input ends.
    Serve { objects: u64, of: Sample },
    /// Lists and watches over HTTPS.
    Fetch { place: ServerAddress, runs: u32 },
    /// Runs the simulator on Pods of Deployments.
    Simulator(SimulatorTask),
    /// Opens many watches over HTTPS.
    Watch { place: ServerAddress, watchers: u32 },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Started {
    pub(crate) in_process_ms: f64,
    pub(crate) https_ms: f64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InProcess {
    pub(crate) bytes: u64,
    /// Megabytes per second, one figure per run.
    pub(crate) pages: Vec<f64>,
    pub(crate) watch_list: Vec<f64>,
    pub(crate) writes_per_second: f64,
    /// Resident memory after the objects were written, in bytes.
    pub(crate) resident: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Played {
    pub(crate) pods_per_second: f64,
    /// Resident memory with all Pods, in bytes.
    pub(crate) resident: u64,
}

const PODS: &str = "/api/v1/pods";
const WATCH_LIST: &str = "/api/v1/pods?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
const INITIAL_END: &[u8] = b"k8s.io/initial-events-end";
const CONFIG_MAPS: &str = "/api/v1/configmaps?watch=true&resourceVersion=";

pub(crate) fn play(role: &str) -> BenchResult<()> {
    let began = Instant::now();
    let role: ServerRole = serde_json::from_str(role)?;
    let mut builder = match role {
        ServerRole::Watch { .. } => unhurried(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build()?;
    runtime.block_on(async {
        match role {
            ServerRole::Start => start(began).await,
            ServerRole::InProcess { objects, runs } => in_process(objects, runs).await,
            ServerRole::Serve { objects, of } => serve(objects, of).await,
            ServerRole::Fetch { place, runs } => fetch(place, runs).await,
            ServerRole::Simulator(task) => simulator(task).await,
            ServerRole::Watch { place, watchers } => watch(place, watchers).await,
        }
    })
}

/// Returns a runtime that polls its sockets at most once a millisecond, as a network card batches interrupts. If
/// watchers on the same machine slept until each event, the server would pay for the wake-ups in system time of its writes.
fn unhurried() -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.on_thread_park(rest);
    builder
}

#[expect(clippy::disallowed_methods, reason = "only this thread sleeps")]
fn rest() {
    std::thread::sleep(Duration::from_millis(1));
}

async fn start(began: Instant) -> BenchResult<()> {
    let server = ApiServer::new();
    ask(&server, "/api/v1/namespaces/default", |_| false).await?;
    let in_process = began.elapsed();
    let again = Instant::now();
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await?;
    let place = ServerAddress::of(&serving);
    let asked = Exchange::get(&place, &trust(&place)?, "/api/v1/namespaces/default").await?;
    asked.drain().await?;
    send(&Started {
        in_process_ms: in_process.as_secs_f64() * 1e3,
        https_ms: again.elapsed().as_secs_f64() * 1e3,
    })
}

/// Sends a request in process, and reads the response up to the piece for which `is_end` returns true. Returns the size
/// of the read pieces in bytes.
async fn ask(
    server: &ApiServer,
    uri: &str,
    mut is_end: impl FnMut(&[u8]) -> bool,
) -> BenchResult<u64> {
    let request = Request::get(uri).body(Empty::<Bytes>::new())?;
    let response = server.service().oneshot(request).await?;
    let mut body = response.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            bytes += data.len() as u64;
            if is_end(&data) {
                break;
            }
        }
    }
    Ok(bytes)
}

/// Returns whether a piece has the end of the initial objects of a watch.
fn is_initial_end(piece: &[u8]) -> bool {
    let tail = &piece[piece.len().saturating_sub(400)..];
    let mut windows = tail.windows(INITIAL_END.len());
    windows.any(|window| window == INITIAL_END)
}

async fn in_process(objects: u64, runs: u32) -> BenchResult<()> {
    let server = ApiServer::new();
    let began = Instant::now();
    let writes = fill(&server, Sample::Pod, 0..objects)?;
    let took = began.elapsed();
    let (resident, _) = memory()?;
    let (mut pages, mut watch_list, mut bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..runs {
        let began = Instant::now();
        bytes = list_in_pages(&server).await?;
        pages.push(rate(bytes, began.elapsed()));
        let began = Instant::now();
        let streamed = ask(&server, WATCH_LIST, is_initial_end).await?;
        watch_list.push(rate(streamed, began.elapsed()));
    }
    send(&InProcess {
        bytes,
        pages,
        watch_list,
        writes_per_second: writes as f64 / took.as_secs_f64(),
        resident,
    })
}

fn rate(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / 1e6 / took.as_secs_f64()
}

async fn list_in_pages(server: &ApiServer) -> BenchResult<u64> {
    let mut bytes = 0;
    let mut next = String::new();
    loop {
        let uri = format!("{PODS}?limit=500&continue={next}");
        let mut head = Vec::new();
        let keep_head = |piece: &[u8]| {
            if head.is_empty() {
                head = piece[..piece.len().min(2000)].to_vec();
            }
            false
        };
        bytes += ask(server, &uri, keep_head).await?;
        let head = String::from_utf8_lossy(&head);
        let Some((_, rest)) = head.split_once("\"continue\":\"") else {
            return Ok(bytes);
        };
        next = rest.split('"').next().unwrap_or_default().to_owned();
    }
}

async fn simulator(task: SimulatorTask) -> BenchResult<()> {
    let seconds = bring_up(task).await?;
    send(&Played {
        pods_per_second: task.pods as f64 / seconds,
        resident: memory()?.0,
    })
}

async fn fetch(place: ServerAddress, runs: u32) -> BenchResult<()> {
    let trust = trust(&place)?;
    let (mut lists, mut watches) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let began = Instant::now();
        let (bytes, _) = Exchange::get(&place, &trust, PODS).await?.drain().await?;
        lists.push(rate(bytes, began.elapsed()));
        let began = Instant::now();
        let mut exchange = Exchange::get(&place, &trust, WATCH_LIST).await?;
        let mut bytes = 0;
        loop {
            let piece = exchange.read().await?;
            bytes += piece.len() as u64;
            if piece.is_empty() || is_initial_end(piece) {
                break;
            }
        }
        watches.push(rate(bytes, began.elapsed()));
    }
    send(&(lists, watches))
}

async fn watch(place: ServerAddress, watchers: u32) -> BenchResult<()> {
    let trust = trust(&place)?;
    let (seen, moved) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let mut open = 0u32;
    for _ in 0..watchers {
        let mut exchange = Exchange::get(&place, &trust, &format!("{CONFIG_MAPS}1")).await?;
        // The head of the response shows that the watch is open.
        exchange.read().await?;
        open += 1;
        let (seen, moved) = (Arc::clone(&seen), Arc::clone(&moved));
        tokio::spawn(async move {
            let mut before = b'\r';
            while let Ok(piece) = exchange.read().await {
                let mut lines = 0;
                for byte in piece {
                    // Each event ends with a newline; other lines end with a carriage return and a newline.
                    lines += u64::from(*byte == b'\n' && before != b'\r');
                    before = *byte;
                }
                if piece.is_empty() {
                    return;
                }
                if lines > 0 {
                    seen.fetch_add(lines, Ordering::Relaxed);
                    moved.notify_one();
                }
            }
        });
    }
    send(&open)?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let wanted: u64 = lines.next_line().await?.unwrap_or_default().parse()?;
    while seen.load(Ordering::Relaxed) < wanted {
        let quiet = tokio::time::timeout(Duration::from_secs(10), moved.notified()).await;
        if quiet.is_err() {
            break;
        }
    }
    send(&seen.load(Ordering::Relaxed))
}
