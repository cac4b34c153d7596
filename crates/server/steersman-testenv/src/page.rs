//! Driver: shows the pages of the servers in this process while a test waits, if `STEERSMAN_UI` asks for them.

use std::future::{Future, pending};
use std::io::Write as _;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use steersman_apiserver::{ApiServer, UiServing};
use tokio::time::sleep;

/// The variable that asks for the page of every embedded server: `1`, or `hold` to keep a test at a failed wait.
const STEERSMAN_UI: &str = "STEERSMAN_UI";

/// The time after which a wait is long, in the time of the runtime's clock.
const LONG: Duration = Duration::from_secs(5);

/// The pages that are served now.
static PAGES: Mutex<Vec<OpenPage>> = Mutex::new(Vec::new());

/// The number of the next page.
static NEXT: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
struct OpenPage {
    number: u64,
    url: String,
    /// Whether the server is in the process, so that its test may run on a paused clock.
    in_process: bool,
}

/// The page of the server of one environment. Dropping it ends the page.
#[derive(Debug)]
pub(crate) struct ServerPage {
    _serving: UiServing,
    number: u64,
}

impl ServerPage {
    /// Serves the page of a server; `None` if `STEERSMAN_UI` is not set, or if there is no free port.
    pub(crate) fn of(server: &ApiServer, in_process: bool) -> Option<Self> {
        wish()?;
        let serving = match server.serve_ui("127.0.0.1:0") {
            Ok(serving) => serving,
            Err(error) => {
                say(&format!("the page of the server is not served: {error}"));
                return None;
            }
        };
        // Relaxed: the number orders no other memory access.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        PAGES.lock().push(OpenPage {
            number,
            url: serving.url(),
            in_process,
        });
        Some(Self {
            _serving: serving,
            number,
        })
    }
}

impl Drop for ServerPage {
    fn drop(&mut self) {
        PAGES.lock().retain(|page| page.number != self.number);
    }
}

/// Awaits a wait for `what`. Prints the addresses of the pages when the wait becomes long.
pub(crate) async fn watched<T>(what: &str, wait: impl Future<Output = T>) -> T {
    if PAGES.lock().is_empty() {
        return wait.await;
    }
    let mut wait = pin!(wait);
    tokio::select! {
        biased;
        done = &mut wait => return done,
        () = sleep(LONG) => tell(&format!("{what} is awaited since {LONG:?}")),
    }
    wait.await
}

/// Prints the addresses of the pages after a failed wait. With `STEERSMAN_UI=hold` the test stays here until the process
/// is stopped, so that a developer can look at the state.
pub(crate) async fn failed(text: &str) {
    if PAGES.lock().is_empty() {
        return;
    }
    if wish().as_deref() != Some("hold") {
        tell(text);
        return;
    }
    tell(&format!("{text}\nthe test is held; stop it with ctrl-c"));
    if !PAGES.lock().iter().any(|page| page.in_process) {
        return pending().await;
    }
    // While a runtime with a paused clock has nothing else to do, it moves its clock, and the operator would go on for
    // years: the thread is blocked, so that nothing changes. The pages have threads of their own.
    block()
}

fn block() -> ! {
    loop {
        std::thread::park();
    }
}

/// Returns the value of the variable, unless it is absent, empty or a word for no.
fn wish() -> Option<String> {
    let value = std::env::var(STEERSMAN_UI).ok()?;
    let is_no = matches!(value.as_str(), "" | "0" | "false" | "no");
    (!is_no).then_some(value)
}

fn tell(text: &str) {
    let pages = PAGES.lock();
    let urls: Vec<&str> = pages.iter().map(|page| page.url.as_str()).collect();
    let urls = urls.join(" and ");
    drop(pages);
    say(&format!("{text}\n  the server's page: {urls}"));
}

/// Prints to the standard error of the process: what a test prints with macros appears only after the test.
fn say(text: &str) {
    // A closed pipe must not fail a test.
    let _ = writeln!(std::io::stderr(), "steersman-testenv: {text}");
}
