//! Driver: the thread that appends the writes of a server to the log of its data directory.

use std::thread;
use std::time::Duration;

use steersman_apiserver::WriteAheadLog;
use tokio::runtime::Handle;

use super::data::LogWriter;
use super::process::say;

/// Time after which an append that failed is repeated.
const RETRY: Duration = Duration::from_millis(500);

/// Refuses writes when it is dropped, which happens if the thread panics.
struct FailAtEnd(WriteAheadLog);

impl Drop for FailAtEnd {
    fn drop(&mut self) {
        self.0
            .fail("the thread that appends to it has panicked; restart the program");
    }
}

/// Starts the thread, which runs until the process ends. An append may wait for the disk, so it is on
/// no thread of the runtime.
///
/// # Errors
/// The operating system starts no thread.
pub(super) fn start(
    program: &'static str,
    log: WriteAheadLog,
    writer: LogWriter,
) -> std::io::Result<()> {
    let runtime = Handle::current();
    let thread = thread::Builder::new().name("write-ahead-log".to_owned());
    let thread = thread.spawn(move || keep(program, &log, writer, &runtime));
    thread.map(drop)
}

fn keep(program: &str, log: &WriteAheadLog, mut writer: LogWriter, runtime: &Handle) -> ! {
    let _guard = FailAtEnd(log.clone());
    // Watches are woken within the runtime.
    let _entered = runtime.enter();
    let mut payload = Vec::new();
    loop {
        let group = runtime.block_on(log.next());
        payload.clear();
        // Writing into memory cannot fail.
        let _ = group.write(&mut payload);
        let mut has_failed = false;
        while let Err(error) = writer.append(group.first(), &payload, group.starts_file()) {
            let path = writer.path();
            let why = format!("cannot append to {}: {error}", path.display());
            if !has_failed {
                let text = format!(
                    "{program}: {why}; writes and reads of objects are refused until it succeeds"
                );
                say(std::io::stderr(), &text);
            }
            has_failed = true;
            log.fail(why);
            // No timer of the runtime, which may have ended: the log is tried until the process ends.
            thread::park_timeout(RETRY);
        }
        if has_failed {
            let path = writer.path();
            let text = format!("{program}: appends to {} again", path.display());
            say(std::io::stderr(), &text);
        }
        log.keep(group);
    }
}
