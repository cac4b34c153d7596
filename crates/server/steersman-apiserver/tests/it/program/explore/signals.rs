//! What is left of an exploration that ends: nothing.

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixListener;

use super::world::{TOO_LONG, World};

/// An operator that ignores SIGTERM, with a child: tells the numbers of both processes over a socket, and never asks the
/// server.
const STUBBORN: &str = "
import os, signal, socket, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(['sleep', '1000'])
told = socket.socket(socket.AF_UNIX)
told.connect(sys.argv[1])
told.sendall(f'{os.getpid()}\\n{child.pid}\\n'.encode())
time.sleep(1000)
";

async fn pids(listener: &UnixListener) -> Vec<Pid> {
    let (stream, _) = listener.accept().await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut pids = Vec::new();
    while pids.len() < 2 {
        let line = lines.next_line().await.unwrap().unwrap();
        pids.push(Pid::from_raw(line.parse().unwrap()).unwrap());
    }
    pids
}

/// Returns whether a process runs; one that has ended but that its parent has not noticed does not.
fn runs(pid: Pid) -> bool {
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    if Path::new("/proc/self/stat").exists() {
        let stat = std::fs::read_to_string(path).unwrap_or_default();
        let state = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .trim_start()
            .chars()
            .next();
        return state.is_some_and(|state| state != 'Z');
    }
    test_kill_process(pid).is_ok()
}

#[tokio::test]
async fn a_signal_ends_the_operators_and_their_children() {
    let Some(world) = World::new() else {
        return;
    };
    let world = world.with_scenario("steps: [{apply: site.yaml}]\n");
    for signal in [Signal::INT, Signal::TERM] {
        let socket = world.folder.path().join(format!("{signal:?}.socket"));
        let listener = UnixListener::bind(&socket).unwrap();
        let words = ["python3", "-c", STUBBORN, socket.to_str().unwrap()];
        let mut command = world.program(&[], &words);
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        let explorer = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
        let pids = tokio::time::timeout(TOO_LONG, pids(&listener))
            .await
            .unwrap();
        kill_process(explorer, signal).unwrap();
        let ended = tokio::time::timeout(TOO_LONG, child.wait_with_output()).await;
        let output = ended.unwrap().unwrap();
        let complained = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{complained}");
        assert!(complained.contains("stopped by a signal"), "{complained}");
        for pid in pids {
            // The kernel ends a killed process a moment later.
            while runs(pid) {
                tokio::task::yield_now().await;
            }
        }
        world.assert_nothing_is_left();
    }
}
