//! Driver: measures what it costs to look at an operator: by its debug page, and by traces.
//!
//! All operators run at once, each in a process, and reconcile in turns for half a second, so that what else happens on
//! the machine affects all of them alike.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use steersman_serve::{Route, Routes, Server, ServerOptions, text_response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cache::words::{ClientRole, InsideReport, Observation, ObservedLog, ObservedOperator};
use crate::figures::Figures;
use crate::process::{Actor, BenchResult, progress};
use crate::report::{Figure, Spread};
use crate::samples::Sample;
use crate::world::Worlds;

/// What is measured in each turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Silent,
    Json,
    Human,
    Page,
    OpenPage,
    OneTraceOfHundred,
    AllTraces,
}

/// The rates and the memory of all parts of one turn.
type Turn = Vec<(Part, InsideReport)>;

const PARTS: [Part; 7] = [
    Part::Silent,
    Part::Json,
    Part::Human,
    Part::Page,
    Part::OpenPage,
    Part::OneTraceOfHundred,
    Part::AllTraces,
];

/// How long an operator reconciles in a turn.
const PART: Duration = Duration::from_millis(500);

impl Part {
    /// Returns the operator of the part; the open page is that of [`Part::Page`].
    fn observation(self) -> Observation {
        let log = match self {
            Self::Silent => ObservedLog::None,
            Self::Human => ObservedLog::Human,
            _ => ObservedLog::Json,
        };
        Observation {
            log,
            has_page: matches!(self, Self::Page | Self::OpenPage),
            traces: match self {
                Self::OneTraceOfHundred => Some(0.01),
                Self::AllTraces => Some(1.0),
                _ => None,
            },
        }
    }
}

/// Runs all measurements.
pub(crate) async fn measure(is_quick: bool) -> BenchResult<Vec<Figure>> {
    let (objects, turns) = if is_quick { (100, 1) } else { (10_000, 20) };
    let world = Worlds::Own.start(Sample::ConfigMap, objects).await?;
    let collector = Collector::start().await?;
    let mut operators: Vec<(Observation, Actor, String)> = Vec::new();
    for observation in PARTS.map(Part::observation) {
        if operators.iter().any(|(known, ..)| *known == observation) {
            continue;
        }
        let role = ClientRole::Inside(ObservedOperator {
            kubeconfig: world.kubeconfig.clone(),
            objects,
            observation,
            collector: collector.endpoint.clone(),
        });
        let mut operator = Actor::client(&role)?;
        let page: String = operator.receive().await?;
        operators.push((observation, operator, page));
    }
    let mut measured: Vec<Turn> = Vec::new();
    // The first turn fills the journals.
    for turn in 0..=turns {
        progress(format!("turn {turn} of {turns}"));
        let mut reports = Turn::new();
        for part in PARTS {
            let mut operators = operators.iter_mut();
            let of = operators.find(|(known, ..)| *known == part.observation());
            let (_, operator, page) = of.ok_or("each part has an operator")?;
            let open = match part {
                Part::OpenPage => Some(OpenPages::open(page).await?),
                _ => None,
            };
            reports.push((part, operator.request(&PART).await?));
            drop(open);
        }
        if turn > 0 {
            measured.push(reports);
        }
    }
    for (_, operator, _) in operators {
        operator.end().await?;
    }
    world.end().await?;
    collector.stop.cancel();
    figures(&measured)
}

fn figures(turns: &[Turn]) -> BenchResult<Vec<Figure>> {
    let mut figures = Figures::shown();
    let each = |part: Part, of: fn(&InsideReport) -> f64| {
        let reports = turns.iter().flatten().filter(move |(of, _)| *of == part);
        reports.map(|(_, report)| of(report)).collect::<Vec<f64>>()
    };
    let what = "rate of reconciles that do nothing, 8 workers, with a log in JSON";
    let rates = Spread::of(each(Part::Json, |one| one.per_second));
    figures.add(Figure::new("inside/rate", what, "reconciles/s", rates).more_is_better());
    let cpu = "processor time of such a reconcile";
    let what = format!("{cpu}, without a log");
    let silent = Spread::of(each(Part::Silent, |one| one.cpu_ns));
    figures.add(Figure::new("inside/cpu", what, "ns", silent));
    let shares = [
        (
            Part::Json,
            Part::Silent,
            "json",
            "with a log in JSON",
            Some(1.15),
        ),
        (
            Part::Human,
            Part::Silent,
            "human",
            "with a log for people",
            None,
        ),
        (
            Part::Page,
            Part::Json,
            "page",
            "with the debug page, which is not open",
            Some(1.03),
        ),
        (
            Part::OpenPage,
            Part::Json,
            "open",
            "with an open overview and an open page of the controller",
            Some(1.03),
        ),
        (
            Part::OneTraceOfHundred,
            Part::Json,
            "traces/1",
            "with 1 % of the traces exported",
            Some(1.05),
        ),
        (
            Part::AllTraces,
            Part::Json,
            "traces/100",
            "with all traces exported",
            None,
        ),
    ];
    for (part, base, id, how, most) in shares {
        let pairs = each(part, |one| one.cpu_ns)
            .into_iter()
            .zip(each(base, |one| one.cpu_ns));
        let ratios = Spread::of(pairs.map(|(with, without)| with / without).collect());
        let base = match base {
            Part::Silent => "without a log",
            _ => "with the log alone",
        };
        let what = format!("{cpu} {how}, divided by that {base}");
        let mut figure = Figure::new(&format!("inside/{id}"), what, "", ratios);
        if let Some(most) = most {
            figure = figure.at_most(most);
        }
        figures.add(figure);
    }
    let open = each(Part::OpenPage, |one| one.resident).into_iter();
    let more = open.zip(each(Part::Json, |one| one.resident));
    let more = Spread::of(more.map(|(open, without)| (open - without) / 1e6).collect());
    let what = "resident memory with the open page, less that without the page";
    figures.add(Figure::new("inside/memory", what, "MB", more).at_most(2.0));
    Ok(figures.all())
}

/// The live overview and the live page of the controller. Dropping it closes both.
struct OpenPages(Vec<JoinHandle<()>>);

impl OpenPages {
    async fn open(address: &str) -> BenchResult<Self> {
        let mut reading = Vec::new();
        for view in ["overview", "controller?controller=observed"] {
            let mut stream = TcpStream::connect(address).await?;
            let request = format!(
                "GET /debug/live/{view} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await?;
            let mut bytes = vec![0; 1 << 16];
            let first = stream.read(&mut bytes).await?;
            if !bytes[..first].starts_with(b"HTTP/1.1 200") {
                let answer = String::from_utf8_lossy(&bytes[..first]).into_owned();
                return Err(format!("the debug page answers {answer}").into());
            }
            reading.push(tokio::spawn(async move {
                while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
            }));
        }
        Ok(Self(reading))
    }
}

impl Drop for OpenPages {
    fn drop(&mut self) {
        for reading in &self.0 {
            reading.abort();
        }
    }
}

/// A collector of traces that drops them.
struct Collector {
    endpoint: String,
    stop: CancellationToken,
}

impl Collector {
    async fn start() -> BenchResult<Self> {
        let mut routes = Routes::new();
        // An answer without a body is an empty message.
        routes.add(Route::any(
            "/v1/traces",
            1 << 26,
            |_: http::Request<Bytes>| async { text_response(StatusCode::OK, "") },
        ))?;
        let address = "127.0.0.1:0".into();
        let server = Server::bind("collector", &address, ServerOptions::new()).await?;
        let endpoint = format!("http://{}", server.local_address());
        let stop = CancellationToken::new();
        tokio::spawn(server.run(routes, stop.clone()));
        Ok(Self { endpoint, stop })
    }
}
