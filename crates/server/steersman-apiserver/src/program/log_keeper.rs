//! Driver: appends the writes of a server to the log of its data directory.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_apiserver::{WalGroup, WriteAheadLog};
use tokio::runtime::Handle;

use super::data::LogWriter;
use super::durability::Durability;
use super::process::report;

const RETRY: Duration = Duration::from_millis(500);

/// Makes the server refuse writes when this guard is dropped: the thread that appends to the log has panicked.
struct FailAtEnd(WriteAheadLog);

impl Drop for FailAtEnd {
    fn drop(&mut self) {
        self.0
            .fail("the thread that appends to it has panicked; restart the program");
    }
}

/// Starts to append writes to the log. With `Durability::Fsync` only the thread `write-ahead-log` appends, because the
/// disk may take long. Otherwise the threads of the requests append, and `write-ahead-log` repeats failed appends.
pub(super) fn start(
    program: &'static str,
    log: WriteAheadLog,
    writer: LogWriter,
    durability: Durability,
) -> std::io::Result<()> {
    let runtime = Handle::current();
    let mut appender = GroupAppender {
        writer: Arc::new(Mutex::new(writer)),
        payload: Vec::new(),
    };
    if durability != Durability::Fsync {
        let mut now = appender.clone();
        log.append_at_once(move |group| now.append(group));
    }
    let thread = thread::Builder::new().name("write-ahead-log".to_owned());
    let thread = thread.spawn(move || keep(program, &log, &mut appender, &runtime));
    thread.map(drop)
}

#[derive(Clone)]
struct GroupAppender {
    writer: Arc<Mutex<LogWriter>>,
    /// The bytes to append for the current [`WalGroup`]. The next group uses the same buffer, to avoid an allocation.
    payload: Vec<u8>,
}

impl GroupAppender {
    fn append(&mut self, group: &WalGroup) -> Result<(), String> {
        self.payload.clear();
        // Writing into memory cannot fail.
        let _ = group.write(&mut self.payload);
        let mut writer = self.writer.lock();
        let appended = writer.append(group.first(), &self.payload, group.starts_file());
        appended.map_err(|error| format!("cannot append to {}: {error}", writer.path().display()))
    }
}

fn keep(program: &str, log: &WriteAheadLog, appender: &mut GroupAppender, runtime: &Handle) -> ! {
    let _guard = FailAtEnd(log.clone());
    // `log.keep` wakes watches, which needs a current runtime.
    let _entered = runtime.enter();
    loop {
        let group = runtime.block_on(log.next());
        let mut has_failed = false;
        while let Err(why) = appender.append(&group) {
            if !has_failed {
                let refused = "writes and reads of objects are refused until it succeeds";
                report(program, format_args!("{why}; {refused}"));
            }
            has_failed = true;
            log.fail(why);
            // Waits without a timer of the runtime, which may have ended: the thread appends until the process ends.
            thread::park_timeout(RETRY);
        }
        if has_failed {
            let path = appender.writer.lock().path();
            report(program, format_args!("appends to {} again", path.display()));
        }
        log.keep(group);
    }
}
