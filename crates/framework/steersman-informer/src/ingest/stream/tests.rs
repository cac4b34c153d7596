//! Streams that are never dry, and ingests that wait for each other.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use futures::stream;
use parking_lot::Mutex;
use steersman_api::Malformed;
use steersman_object::ResourceVersion;

use super::*;

/// The longest wait, so that a failed test does not hang.
const PATIENCE: Duration = Duration::from_secs(30);

fn object(name: &str, size: usize) -> StreamPart<Decoded<RawObject>, &'static str> {
    let padding = "x".repeat(size);
    let json = format!(r#"{{"metadata":{{"name":"{name}"}},"data":"{padding}"}}"#);
    let object = RawObject::from_json(json.into_bytes()).unwrap();
    StreamPart::Object(EventType::Added, Decoded::Good(object))
}

fn name(part: &StreamPart<Arrived, &'static str>) -> String {
    match part {
        StreamPart::Object(_, arrived) => match &arrived.item {
            Decoded::Malformed(malformed) => malformed.key.name().to_owned(),
            Decoded::Good(_) => "?".to_owned(),
        },
        StreamPart::Foreign(_, version) => format!("foreign@{version}"),
        StreamPart::Other(other) => (*other).to_owned(),
    }
}

/// Called with the name of each object before the object is ingested.
type Before = dyn Fn(&str) + Send + Sync;

/// Records the names of the ingested objects.
#[derive(Clone)]
struct Noting {
    worked: Arc<Mutex<Vec<String>>>,
    before: Arc<Before>,
}

impl Noting {
    fn new(before: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            worked: Arc::default(),
            before: Arc::new(before),
        }
    }
}

impl Ingest for Noting {
    fn ingest(&self, decoded: Decoded<RawObject>, _: IngestContext) -> Arrived {
        let key = decoded.good().unwrap().head().key.clone();
        (self.before)(key.name());
        self.worked.lock().push(key.name().to_owned());
        Decoded::from(Malformed::new(key, "", ResourceVersion::unset(), "")).into()
    }
}

/// Returns a signal that any thread may wait for.
fn signal() -> (Sender<()>, Mutex<Receiver<()>>) {
    let (sender, receiver) = channel();
    (sender, Mutex::new(receiver))
}

// REFL-7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refl_7_batches_are_ingested_concurrently_and_returned_in_order() {
    let (later, earlier) = signal();
    let ingest = Noting::new(move |name| match name {
        // The first batch ends only after the second has begun.
        "0" => earlier.lock().recv_timeout(PATIENCE).unwrap(),
        "2" => later.send(()).unwrap(),
        _ => {}
    });
    let parts = (0..9).map(|number| object(&number.to_string(), BATCH / 2));
    let parts = stream::iter(parts.chain([StreamPart::Other("end")]));
    let mut ingest_stream = IngestStream::new(parts, ingest, Projection::Whole, true, None);
    let mut seen = Vec::new();
    while let Some(part) = ingest_stream.next().await {
        seen.push(name(&part));
    }
    assert_eq!(seen, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "end"]);
}

// REFL-7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refl_7_the_stream_reads_one_batch_per_worker_and_one_more_ahead() {
    let (go, gate) = signal();
    let ingest = Noting::new(move |name| {
        if name == "0" {
            gate.lock().recv_timeout(PATIENCE).unwrap();
        }
    });
    let read = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&read);
    let parts = stream::iter(0..100).map(move |number| {
        *counted.lock() += 1;
        object(&number.to_string(), BATCH)
    });
    let mut ingest_stream = IngestStream::new(parts, ingest, Projection::Whole, true, None);
    assert!(ingest_stream.next().now_or_never().is_none());
    assert_eq!(*read.lock(), 3);
    go.send(()).unwrap();
    let mut seen = 0;
    while let Some(part) = ingest_stream.next().await {
        assert_eq!(name(&part), seen.to_string());
        seen += 1;
    }
    assert_eq!(seen, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_list_each_object_is_ingested_as_it_is_read() {
    let ingest = Noting::new(|_| ());
    let worked = Arc::clone(&ingest.worked);
    let first = [object("a", 0), StreamPart::Other("end"), object("b", BATCH)];
    let read_by_then = ["c", "d"].map(|name| object(name, BATCH));
    let later = ["e", "f"].map(|name| object(name, 0));
    let parts = stream::iter(first.into_iter().chain(read_by_then).chain(later));
    let mut ingest_stream = IngestStream::new(parts, ingest, Projection::Whole, true, None);
    for expected in ["a", "end"] {
        assert_eq!(name(&ingest_stream.next().await.unwrap()), expected);
    }
    ingest_stream.end_list();
    for expected in ["b", "c", "d", "e"] {
        assert_eq!(name(&ingest_stream.next().await.unwrap()), expected);
    }
    assert_eq!(*worked.lock().last().unwrap(), "e");
    assert_eq!(name(&ingest_stream.next().await.unwrap()), "f");
    assert!(ingest_stream.next().await.is_none());
}

#[tokio::test]
async fn with_one_thread_nothing_is_read_ahead() {
    let ingest = Noting::new(|_| ());
    let worked = Arc::clone(&ingest.worked);
    let parts = stream::iter(["a", "b"].map(|name| object(name, 0)));
    let mut ingest_stream = IngestStream::new(parts, ingest, Projection::Whole, true, None);
    for expected in [["a"].as_slice(), &["a", "b"]] {
        ingest_stream.next().now_or_never().unwrap().unwrap();
        assert_eq!(*worked.lock(), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[should_panic(expected = "odd")]
async fn a_panic_in_a_worker_is_raised_in_the_reader() {
    let ingest = Noting::new(|_| panic!("odd"));
    let parts = stream::iter([object("a", 0)]);
    IngestStream::new(parts, ingest, Projection::Whole, true, None)
        .next()
        .await;
}
