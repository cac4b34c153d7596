//! Driver: ends a program with the session of `cargo steersman dev` that started it.

/// The variable with which `cargo steersman dev` starts a program. The command holds the other end of the standard
/// input.
const STOP_WITH_INPUT: &str = "CARGO_STEERSMAN_STOP_WITH_INPUT";

/// Stops this process as SIGTERM does when its standard input ends, if `cargo steersman dev` started it. A command that
/// is killed cannot stop its program, and the system closes the standard input for it.
pub(crate) fn stop_with_session() {
    if std::env::var_os(STOP_WITH_INPUT).is_none() {
        return;
    }
    let name = "dev session".to_owned();
    // A thread of its own: nothing can cancel a read of the standard input, and no runtime shall wait for it.
    let reader = std::thread::Builder::new().name(name).spawn(|| {
        // An error is an end, too.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        stop();
    });
    // Without the thread the program stops as before: when the command asks.
    drop(reader);
}

#[cfg(unix)]
fn stop() {
    use rustix::process::{Signal, getpid, kill_process};
    // A process may always signal itself.
    let _ = kill_process(getpid(), Signal::TERM);
}

#[cfg(not(unix))]
fn stop() {
    std::process::exit(1);
}
