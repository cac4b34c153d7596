//! Compares the drawn terminal view with text files.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use serde_json::json;

use super::*;
use crate::dev::page_source::PageViews;
use crate::dev::view::model::{Heading, ShownParts, ViewCommand, ViewEvent};
use crate::dev::view::requests::ViewRequest;
use crate::dev::view::snapshot::OperatorSnapshot;

/// A test session, with times counted from its start.
struct Session {
    model: ViewModel,
    start: Instant,
}

impl Session {
    fn new(shown: ShownParts) -> Self {
        // The start is not the origin of the clock, because diagnostics have times before the start.
        let start = crate::dev::clock::now() + Duration::from_secs(3600);
        let heading = Heading {
            name: "greeter".to_owned(),
            server: "https://127.0.0.1:38441".to_owned(),
            access: "export KUBECONFIG=/src/greeter/target/steersman/kubeconfig".to_owned(),
            shown,
        };
        Self {
            model: ViewModel::new(heading, start),
            start,
        }
    }

    fn at(&self, millis: u64) -> Instant {
        self.start + Duration::from_millis(millis)
    }

    fn tell(&mut self, millis: u64, event: ViewEvent) -> Option<ViewCommand> {
        let now = self.at(millis);
        self.model.update(event, now)
    }

    fn press(&mut self, millis: u64, key: char) -> Option<ViewCommand> {
        let key = KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE);
        self.tell(millis, ViewEvent::Key(key))
    }

    /// Draws the view as text, with a line per row and without trailing spaces.
    fn draw(&mut self, millis: u64, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let now = self.at(millis);
        let drawn = terminal.draw(|frame| draw(frame, &mut self.model, now, false));
        let buffer = drawn.unwrap().buffer.clone();
        let rows = buffer.content().chunks(usize::from(width).max(1));
        let rows = rows.map(|cells| {
            let row: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
            row.trim_end().to_owned() + "\n"
        });
        rows.collect()
    }
}

fn request(verb: &'static str, target: &str, status: u16) -> ViewRequest {
    ViewRequest {
        verb,
        target: target.to_owned(),
        watched: (verb == "watch").then(|| target.to_owned()),
        status: Some(status),
    }
}

/// Diagnostics after `millis`. The last reconcile has failed if `is_out` is set, which stands for an outage.
fn snapshot(session: &Session, millis: u64, is_out: bool) -> ViewEvent {
    let cache = |kind: &str, objects: u64| {
        let problem = is_out.then(|| json!({"reason": "unreachable"}));
        json!({"kind": kind, "objects": objects, "hasSynced": true, "state": "synced", "problem": problem})
    };
    let reconcile = |id: u64, at: u64, reason: &str, result: &str, message: &str| {
        let ago = (millis - at) as f64 / 1000.0;
        json!({"id": id, "request": "default/greeting-sample", "reason": reason, "result": result,
            "message": message, "seconds": 0.012, "endedAgo": ago})
    };
    let mut reconciles = vec![
        reconcile(1, 460, "the initial list", "success", ""),
        reconcile(
            2,
            470,
            "ConfigMap.v1 default/greeting-sample was created",
            "success",
            "",
        ),
    ];
    if millis > 20_000 {
        let message = "patch configmaps default/greeting-sample: 503 an outage";
        reconciles.push(reconcile(3, 20_500, "a resync", "error", message));
    }
    if !is_out && millis > 20_000 {
        reconciles.push(reconcile(4, 26_000, "retry 3", "success", ""));
    }
    let finished = reconciles.len();
    reconciles.reverse();
    let attention = is_out.then(|| {
        json!({"link": "caches", "title": "ConfigMap.v1 does not follow the server: unreachable",
            "detail": "no connection; reads return objects that become stale", "remedy": "check the server\nand its address"})
    });
    let views = PageViews {
        overview: json!({
            "stage": "started", "isLeader": true, "attention": attention.into_iter().collect::<Vec<_>>(),
            "controllers": {"items": [{"name": "greeting", "waitingFor": [], "ready": 0, "running": 1, "delayed": 3,
                "finished": finished}]},
        }),
        caches: json!({"caches": {"items": [cache("ConfigMap.v1", 5), cache("Greeting.v1alpha1.example.com", 1)]}}),
        controllers: [("greeting".to_owned(), json!({ "recent": reconciles }))].into(),
        ..PageViews::default()
    };
    ViewEvent::Snapshot(Box::new(OperatorSnapshot::read(&views, session.at(millis))))
}

/// Returns a session in which an outage has ended.
fn after_an_outage() -> Session {
    let mut session = Session::new(ShownParts::WithServer);
    session.tell(50, ViewEvent::Said("building greeter".to_owned()));
    session.tell(360, ViewEvent::Said("greeter started".to_owned()));
    session.tell(360, ViewEvent::OperatorStarted);
    session.tell(
        370,
        ViewEvent::Said("applied 1 object of config/samples".to_owned()),
    );
    for line in [
        "2026-03-04T10:00:00.10Z  INFO steersman_informer::pipeline::apply: synced kind=configmaps objects=4",
        "2026-03-04T10:00:00.11Z  INFO steersman_manager::supervisor: the manager has started",
        "2026-03-04T10:00:20.50Z ERROR reconcile{controller=\"greeting\"}: reconcile failed attempt=0",
    ] {
        session.tell(400, ViewEvent::LogLine(line.to_owned()));
    }
    let requests = vec![
        request("list", "greetings.example.com", 200),
        request("watch", "greetings.example.com", 200),
        request("watch", "configmaps", 200),
        request("create", "configmaps in default", 201),
        request(
            "patch",
            "greetings.example.com/status default/greeting-sample",
            200,
        ),
    ];
    session.tell(470, ViewEvent::Requests(requests));
    let ready =
        "Greeting default/greeting-sample is ready: Published: the ConfigMap has the message";
    session.tell(470, ViewEvent::Said(ready.to_owned()));
    let learned = snapshot(&session, 900, false);
    session.tell(900, learned);
    let injected = session.press(20_000, 'o');
    assert_eq!(injected, Some(ViewCommand::Inject(ViewFault::Outage)));
    let refused = vec![
        request("watch", "configmaps", 503),
        request("patch", "configmaps default/greeting-sample", 503),
    ];
    session.tell(20_500, ViewEvent::Requests(refused));
    let learned = snapshot(&session, 21_000, true);
    session.tell(21_000, learned);
    let lifted = session.press(25_000, 'o');
    assert_eq!(lifted, Some(ViewCommand::Lift(ViewFault::Outage)));
    let opened = vec![
        request("watch", "configmaps", 200),
        request("watch", "greetings.example.com", 200),
        request("patch", "configmaps default/greeting-sample", 200),
    ];
    session.tell(26_000, ViewEvent::Requests(opened));
    let learned = snapshot(&session, 26_200, false);
    session.tell(26_200, learned);
    session.tell(28_000, ViewEvent::Tick);
    session
}

/// Compares the text of a view with a file. If `STEERSMAN_UPDATE` is set, writes the file first.
fn compare(file: &str, picture: &str) {
    let path = format!(
        "{}/src/dev/view/render/golden/{file}",
        env!("CARGO_MANIFEST_DIR")
    );
    if std::env::var_os("STEERSMAN_UPDATE").is_some() {
        std::fs::write(&path, picture).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(
        picture == expected,
        "{file} differs: STEERSMAN_UPDATE=1 writes it again\n{picture}"
    );
}

#[test]
fn a_session_is_drawn_in_each_size() {
    let mut session = after_an_outage();
    compare("80x24.txt", &session.draw(30_000, 80, 24));
    compare("120x40.txt", &session.draw(30_000, 120, 40));
    session.press(30_000, '?');
    compare("help.txt", &session.draw(30_000, 80, 24));
}

#[test]
fn a_failed_build_shows_the_first_error_of_the_compiler() {
    let mut session = after_an_outage();
    session.tell(40_000, ViewEvent::BuildBegan);
    let line = "   Compiling greeter v0.1.0 (/src/greeter)";
    session.tell(40_100, ViewEvent::BuildLine(line.to_owned()));
    let building = session.draw(43_000, 80, 24);
    assert!(
        building.contains("building for 3 s: Compiling greeter"),
        "{building}"
    );
    for line in [
        "warning: unused variable: `a`",
        "error[E0308]: mismatched types",
        " --> src/controllers/greeting.rs:12:5",
    ] {
        session.tell(44_000, ViewEvent::BuildLine(line.to_owned()));
    }
    session.tell(44_000, ViewEvent::BuildEnded { is_good: false });
    let failed = session.draw(44_000, 80, 24);
    assert!(
        failed.contains("\nthe build failed, so the former program runs\n"),
        "{failed}"
    );
    assert!(
        failed.contains("error[E0308]: mismatched types"),
        "{failed}"
    );
    assert!(!failed.contains("unused variable"), "{failed}");
    session.tell(50_000, ViewEvent::BuildBegan);
    session.tell(50_000, ViewEvent::BuildEnded { is_good: true });
    let good = session.draw(50_000, 80, 24);
    assert!(!good.contains("E0308"), "{good}");
}

#[test]
fn an_operator_elsewhere_is_shown_with_what_needs_attention() {
    let mut session = Session::new(ShownParts::PageOnly);
    session.tell(0, ViewEvent::OperatorStarted);
    let quiet = snapshot(&session, 10_000, false);
    session.tell(10_000, quiet);
    let out = snapshot(&session, 21_000, true);
    session.tell(21_000, out);
    compare("top.txt", &session.draw(22_000, 100, 30));
    assert_eq!(session.press(22_000, 'r'), None);
    assert_eq!(session.press(22_000, 'q'), Some(ViewCommand::Quit));
    let later = snapshot(&session, 30_000, false);
    session.tell(30_000, later);
    session.tell(31_000, ViewEvent::Unanswered("no answer".to_owned()));
    let drawn = session.draw(31_000, 100, 30);
    for part in [
        "no longer: ConfigMap.v1 does not follow",
        "no answer",
        "nothing",
    ] {
        assert!(drawn.contains(part), "{part}: {drawn}");
    }
}

#[test]
fn many_controllers_without_new_reconciles_add_nothing_to_the_journal() {
    let mut session = Session::new(ShownParts::PageOnly);
    let controllers = (0..8).map(|number| {
        let recent: Vec<_> = (1..=64)
            .rev()
            .map(|id| json!({"id": id, "request": "a", "result": if id % 2 == 0 { "error" } else { "success" }}))
            .collect();
        (format!("c-{number}"), json!({ "recent": recent }))
    });
    let views = PageViews {
        controllers: controllers.collect(),
        ..PageViews::default()
    };
    session.tell(0, ViewEvent::OperatorStarted);
    let look = |session: &mut Session, millis| {
        let snapshot = OperatorSnapshot::read(&views, session.at(millis));
        session.tell(millis, ViewEvent::Snapshot(Box::new(snapshot)));
        session.model.journal.back().cloned()
    };
    let first = look(&mut session, 1_000);
    assert!(first.is_some());
    assert_eq!(look(&mut session, 2_000), first);
}

#[test]
fn no_size_and_no_state_of_the_view_panics() {
    for shown in [
        ShownParts::WithServer,
        ShownParts::WithCluster,
        ShownParts::PageOnly,
    ] {
        for mut session in [Session::new(shown), after_an_outage()] {
            for (width, height) in [(20, 5), (1, 1), (0, 0), (3, 30), (300, 2), (500, 200)] {
                for key in ['?', 'p', '?', 'k'] {
                    session.press(30_000, key);
                    session.draw(30_000, width, height);
                }
            }
        }
    }
    let mut session = Session::new(ShownParts::WithCluster);
    assert_eq!(session.press(0, 'o'), None);
    let drawn = session.draw(0, 80, 24);
    assert!(drawn.contains("without --real"), "{drawn}");
    assert!(!drawn.contains("outage"), "{drawn}");
}

#[test]
fn a_terminal_that_is_to_have_no_colors_gets_none() {
    let mut session = after_an_outage();
    let now = session.at(30_000);
    let mut has_color = |has_colors| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let drawn = terminal.draw(|frame| draw(frame, &mut session.model, now, has_colors));
        let cells = drawn.unwrap().buffer.content().to_vec();
        cells.iter().any(|cell| cell.fg != Color::Reset)
    };
    assert!(has_color(true));
    assert!(!has_color(false));
}
