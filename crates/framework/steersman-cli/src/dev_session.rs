//! Driver: ends the program together with the `cargo steersman dev` that started it.

/// The environment variable that `cargo steersman dev` sets for its program. The command keeps the program's standard
/// input open while it runs.
const STOP_WITH_INPUT: &str = "CARGO_STEERSMAN_STOP_WITH_INPUT";

/// If `cargo steersman dev` started this process, stops it like SIGTERM when standard input closes. The system closes
/// it even for a killed command, which cannot stop its program.
pub(crate) fn stop_with_session() {
    if std::env::var_os(STOP_WITH_INPUT).is_none() {
        return;
    }
    let name = "dev session".to_owned();
    // The read is on a separate thread, because it cannot be cancelled, and no runtime should wait for it.
    let reader = std::thread::Builder::new().name(name).spawn(|| {
        // A failed read also counts as the end of the input.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        stop();
    });
    // Without the thread, the program only stops when the command asks for it.
    drop(reader);
}

#[cfg(unix)]
fn stop() {
    // `raise` signals this thread; what the signal does, it does to the process. It cannot fail for a known signal.
    let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
}

#[cfg(not(unix))]
fn stop() {
    std::process::exit(1);
}
