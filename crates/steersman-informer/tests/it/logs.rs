//! What a failure leaves in the log: one line that says what happens, to whom, why, and the way out.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_informer::{Reason, State};
use tracing_subscriber::fmt::MakeWriter;

use super::fake::*;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_one_line_until_its_reason_changes() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let fake = Fake::new();
    for _ in 0..3 {
        fake.list_refused(401, "Unauthorized");
    }
    fake.list_refused(500, "InternalError");
    fake.page("10", []);
    let _wire = fake.watch();
    let advised = listing().ways_out(|reason| {
        (reason == Reason::Unauthorized).then(|| "renew the credentials".to_owned())
    });
    let running = run(&fake, advised);
    let mut states = running.informer.state_changes();
    states.wait_for(State::is_synced).await.unwrap();

    let text = String::from_utf8(log.0.lock().clone()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|l| l.contains("degraded")).collect();
    let [unauthorized, failing] = lines.as_slice() else {
        panic!("{text}");
    };
    for part in [
        "WARN",
        "degraded; trying again until it works kind=configmaps reason=unauthorized",
        "error=list failed: the server answered 401",
        "way_out=renew the credentials",
    ] {
        assert!(
            unauthorized.contains(part),
            "{part} is not in {unauthorized}"
        );
    }
    assert!(failing.contains("reason=server"), "{failing}");
    assert!(!failing.contains("way_out"), "{failing}");
    assert!(text.contains("recovered kind=configmaps"), "{text}");
}
