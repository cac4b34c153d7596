//! Replays a conversation against a server, and collects the differences to the recording.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use super::case::{Case, Do, Got, Step, Watch};
use super::compare::{self, Saved, fill};
use super::ledger::clean;
use super::transport::{Answer, Ask, Transport, request};

/// The headers that are compared; the recording has no others.
const HEADERS: [&str; 7] = [
    "accept-patch", "allow", "content-type", "etag", "location", "retry-after", "warning",
];

/// Time from the opening of a watch to its first step, and the pause between steps.
const OPENED: Duration = Duration::from_millis(400);
const BETWEEN: Duration = Duration::from_millis(100);

/// Interval of the checks whether a watch has delivered everything.
const LOOK: Duration = Duration::from_millis(10);

/// A difference, and the step at which it appeared.
#[derive(Debug)]
pub(super) struct Mismatch {
    step: String,
    what: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {}\n    {}", self.step, self.what)
    }
}

/// Replays the conversation in a new namespace.
pub(super) async fn replay(
    server: &impl Transport,
    case: &Case,
    ignored: &[String],
) -> Vec<Mismatch> {
    let namespace = server.namespace();
    let path = format!("/api/v1/namespaces/{namespace}");
    let body =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
    if let Some(ledger) = server.ledger() {
        ledger.note(&path);
    }
    let answer = server
        .send(request("POST", "/api/v1/namespaces", &body.to_string()))
        .await;
    if answer.status != 201 {
        let status = answer.status;
        return vec![Mismatch {
            step: format!("POST {path}"),
            what: wrong_status(201, status, &answer.text().await),
        }];
    }
    server.age().await;
    let mut run = Run {
        server,
        saved: Saved::from([("ns".to_owned(), json!(namespace))]),
        mismatches: Vec::new(),
        ignored,
    };
    run.steps(&case.steps, Duration::ZERO).await;
    match server.ledger() {
        Some(ledger) => clean(server, ledger).await,
        None => {
            server.send(request("DELETE", &path, "")).await;
        }
    }
    run.mismatches
}

struct Run<'a, T> {
    server: &'a T,
    saved: Saved,
    mismatches: Vec<Mismatch>,
    /// JSON pointers at parts of answers that may differ.
    ignored: &'a [String],
}

impl<T: Transport> Run<'_, T> {
    /// Boxed, because the steps of a watch contain steps.
    fn steps<'a>(
        &'a mut self,
        steps: &'a [Step],
        pause: Duration,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            for step in steps {
                match step {
                    Step::Do(step) => self.request(step).await,
                    Step::Watch(step) => self.watch(step).await,
                    Step::Sleep(step) => {
                        let time = Duration::from_secs_f64(step.seconds);
                        self.server.pass(time).await;
                    }
                }
                self.server.pass(pause).await;
            }
        })
    }

    async fn request(&mut self, step: &Do) {
        let line = fill(&step.request, &self.saved);
        let (method, path) = line.split_once(' ').unwrap();
        let body = step
            .body
            .as_ref()
            .map(|body| fill_body(&body.0, &self.saved));
        let mut headers = headers(&step.headers, step.user.as_deref(), &step.groups);
        if body.is_some() && !step.headers.contains_key("Content-Type") {
            headers.insert("Content-Type", "application/json");
        }
        let body = body.unwrap_or_default();
        let ledger = self.server.ledger();
        let asked = ledger.and_then(|ledger| ledger.ask(method, path, &body));
        let answer = self
            .server
            .send(Ask {
                method,
                path,
                headers,
                body,
                anonymous: is_anonymous(&step.headers),
            })
            .await;
        let (status, answered) = (answer.status, answer.headers.clone());
        let text = answer.text().await;
        let parsed: Option<Value> = serde_json::from_str(&text).ok();
        if let (Some(ledger), Some(asked)) = (ledger, asked) {
            ledger.answer(&asked, status, parsed.as_ref());
        }
        for (name, pointer) in &step.save {
            let value = parsed.as_ref().and_then(|body| body.pointer(pointer));
            self.saved
                .insert(name.clone(), value.cloned().unwrap_or_default());
        }
        let outcome = self.compare(&step.got, status, &answered, &text, path);
        self.note(&line, outcome);
    }

    async fn watch(&mut self, step: &Watch) {
        let path = fill(&step.path, &self.saved);
        let asked = lasting(step, &path, self.server.patience());
        let ask = Ask {
            method: "GET",
            path: &asked,
            headers: headers(&step.headers, step.user.as_deref(), &step.groups),
            body: String::new(),
            anonymous: is_anonymous(&step.headers),
        };
        let Answer { status, body, .. } = self.server.send(ask).await;
        let ends = Instant::now() + Duration::from_secs_f64(step.seconds);
        // Read from the first moment on, concurrently with the steps, as a client does.
        let lines = Arc::new(Mutex::new(Vec::new()));
        let latest = ends + self.server.patience();
        let reading = tokio::spawn(read_until(body, latest, Arc::clone(&lines)));
        self.server.pass(OPENED).await;
        self.steps(&step.during, BETWEEN).await;
        let wanted = step.got.events.as_ref().map_or(0, Vec::len);
        while !reading.is_finished() {
            let lines = lines.lock().iter().filter(|byte| **byte == b'\n').count();
            if Instant::now() >= ends && lines >= wanted {
                break;
            }
            sleep(LOOK).await;
        }
        reading.abort();
        let text = String::from_utf8(std::mem::take(&mut *lines.lock())).unwrap();
        let line = format!("GET {path}");
        let Some(events) = &step.got.events else {
            let outcome = self.compare(&step.got, status, &BTreeMap::new(), &text, &path);
            return self.note(&line, outcome);
        };
        if status != step.got.status {
            return self.note(&line, Err(wrong_status(step.got.status, status, &text)));
        }
        let outcome = self.events(events, &text);
        self.note(&line, outcome);
    }

    fn note(&mut self, step: &str, outcome: Result<(), String>) {
        if let Err(what) = outcome {
            let step = step.to_owned();
            self.mismatches.push(Mismatch { step, what });
        }
    }

    fn compare(
        &self,
        want: &Got,
        status: u16,
        headers: &BTreeMap<String, String>,
        text: &str,
        path: &str,
    ) -> Result<(), String> {
        if status != want.status {
            return Err(wrong_status(want.status, status, text));
        }
        // The recording has no headers of a refused watch.
        for name in HEADERS.iter().filter(|_| !want.headers.is_empty()) {
            let (want, got) = (want.headers.get(*name), headers.get(*name));
            let same = match (want, got) {
                // The tag is a hash of the served kinds, which differ.
                (Some(_), Some(_)) if *name == "etag" => true,
                (Some(want), Some(got)) => compare::text(want, got, &self.saved),
                (want, got) => want == got,
            };
            if !same {
                return Err(format!("{name}:\n    want {want:?}\n    got  {got:?}"));
            }
        }
        let Some(want) = &want.body else {
            return Ok(());
        };
        let yaml = headers
            .get("content-type")
            .is_some_and(|kind| kind == "application/yaml");
        match want {
            Value::String(recorded) if yaml => {
                let parse = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap_or_default();
                compare::body(&parse(recorded), &parse(text), &self.saved)
            }
            Value::String(recorded) => {
                if compare::text(recorded, text, &self.saved) {
                    return Ok(());
                }
                Err(format!("body:\n    want {recorded:?}\n    got  {text:?}"))
            }
            recorded => {
                let got: Value =
                    serde_json::from_str(text).map_err(|error| format!("{error}: {text:?}"))?;
                if path == "/version" {
                    compare::version(recorded, &got)
                } else {
                    let [want, got] = [recorded, &got].map(|one| self.comparable(one));
                    compare::body(&want, &got, &self.saved)
                }
            }
        }
    }

    /// Returns a body without the parts that may differ.
    fn comparable(&self, body: &Value) -> Value {
        let mut body = body.clone();
        for pointer in self.ignored {
            compare::remove(&mut body, pointer);
        }
        if self.server.has_own_clock() {
            compare::sort_managers(&mut body);
        }
        body
    }

    fn events(&self, want: &[Value], text: &str) -> Result<(), String> {
        let got: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).map_err(|error| format!("{error}: {line:?}")))
            .collect::<Result<_, _>>()?;
        let relevant = |events: &[Value]| -> Vec<Value> {
            events
                .iter()
                .filter(|event| !is_plain_bookmark(event))
                .cloned()
                .collect()
        };
        let (want, got) = (relevant(want), relevant(&got));
        let [want, got] = [want, got].map(|events| {
            let events = events.iter().map(|event| self.comparable(event));
            Value::from_iter(events)
        });
        compare::body(&want, &got, &self.saved)
    }
}

/// Returns whether an event is a bookmark other than the end of the initial events. Their times are
/// not determined.
fn is_plain_bookmark(event: &Value) -> bool {
    event["type"] == "BOOKMARK" && event["object"]["metadata"].get("annotations").is_none()
}

fn wrong_status(want: u16, got: u16, text: &str) -> String {
    format!("status: want {want}, got {got}: {text}")
}

/// Returns whether a step is sent without a credential.
fn is_anonymous(headers: &BTreeMap<String, Option<String>>) -> bool {
    matches!(headers.get("Authorization"), Some(None))
}

/// Returns the headers of a request: the recorder's own, those of impersonation, then the step's.
fn headers<'a>(
    own: &'a BTreeMap<String, Option<String>>,
    user: Option<&'a str>,
    groups: &'a [String],
) -> BTreeMap<&'a str, &'a str> {
    let mut headers = BTreeMap::from([("Accept", "application/json"), ("User-Agent", "golden/1")]);
    headers.extend(user.map(|user| ("Impersonate-User", user)));
    headers.extend(
        groups
            .last()
            .map(|group| ("Impersonate-Group", group.as_str())),
    );
    for (name, value) in own {
        match value {
            Some(value) => headers.insert(name, value),
            None => headers.remove(name.as_str()),
        };
    }
    headers
}

/// Fills saved values into a body. A member that consists of a name alone takes the type of the
/// value.
fn fill_body(body: &str, saved: &Saved) -> String {
    let mut text = body.to_owned();
    for (name, value) in saved {
        let alone = format!("\"{{{{{name}}}}}\"");
        if text.contains(&alone) {
            text = text.replace(&alone, &value.to_string());
        }
    }
    fill(&text, saved)
}

/// Returns the path of a watch. If no step waits for its end, its timeout is longer by `patience`:
/// on a busy machine the steps may come later than recorded, but must still run during the watch.
fn lasting(step: &Watch, path: &str, patience: Duration) -> String {
    const FIELD: &str = "timeoutSeconds=";
    let waits = step.during.iter().map(|step| match step {
        Step::Sleep(step) => step.seconds,
        Step::Do(_) | Step::Watch(_) => 0.0,
    });
    let waits: f64 = waits.sum();
    let Some((before, after)) = path.split_once(FIELD) else {
        return path.to_owned();
    };
    let (seconds, rest) = after.split_at(after.find('&').unwrap_or(after.len()));
    match seconds.parse::<u32>() {
        Ok(lasts @ 1..) if waits < f64::from(lasts) => {
            let lasts = u64::from(lasts) + patience.as_secs();
            format!("{before}{FIELD}{lasts}{rest}")
        }
        _ => path.to_owned(),
    }
}

#[test]
fn watches_last_longer_only_if_no_step_waits_for_their_end() {
    let watch = |sleep: f64| -> Watch {
        let during = json!([{"sleep": sleep}]);
        let watch = json!({"watch": "/", "seconds": 3, "during": during, "got": {"status": 200}});
        serde_json::from_value(watch).unwrap()
    };
    let lasting = |sleep, path| lasting(&watch(sleep), path, Duration::from_secs(30));
    assert_eq!(
        lasting(0.5, "/a?timeoutSeconds=1&b=c"),
        "/a?timeoutSeconds=31&b=c"
    );
    for (sleep, path) in [
        (1.2, "/a?timeoutSeconds=1"),
        (0.5, "/a"),
        (0.5, "/a?timeoutSeconds=x"),
    ] {
        assert_eq!(lasting(sleep, path), path);
    }
}

/// Collects the data that arrives until `ends`.
async fn read_until(mut body: BoxStream<'static, Bytes>, ends: Instant, all: Arc<Mutex<Vec<u8>>>) {
    while let Ok(Some(piece)) = timeout_at(ends, body.next()).await {
        all.lock().extend_from_slice(&piece);
    }
}
