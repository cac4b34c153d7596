//! Replays the recorded conversations, and says where servers answer otherwise.

use std::path::{Path, PathBuf};

use crate::one_test::OneTest;

/// The test that does it, and the variables by which it is told.
const TEST: OneTest = OneTest {
    package: "steersman-apiserver",
    test: "golden::conformance::conformance",
};
const RUN: &str = "STEERSMAN_CONFORMANCE";

/// Runs the replayer of `steersman-apiserver`'s tests against the embedded server, and against a real
/// one where a kubeconfig names it or `KUBEBUILDER_ASSETS` has the binaries.
///
/// # Errors
/// Says that cargo could not be started, that a path does not exist, or that cases differ; the
/// differences are printed by then. On Unix the test takes the place of this process, and its exit
/// code says whether cases differ.
pub(crate) fn run(
    root: &Path,
    kubeconfig: Option<&Path>,
    filter: Option<&str>,
    cases: Option<&Path>,
) -> Result<(), String> {
    let mut told = vec![(RUN.to_owned(), "1".into())];
    // The test runs in another folder.
    for (variable, path) in [("KUBECONFIG", kubeconfig), ("CASES", cases)] {
        if let Some(path) = path {
            told.push((format!("{RUN}_{variable}"), absolute(path)?.into()));
        }
    }
    if let Some(filter) = filter {
        told.push((format!("{RUN}_FILTER"), filter.into()));
    }
    // An interrupt must reach the test, which removes what it made on a server of others.
    #[cfg(unix)]
    return TEST.become_it(root, told);
    #[cfg(not(unix))]
    TEST.run(root, told, "servers answer otherwise than recorded")
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    path.canonicalize()
        .map_err(|error| format!("{}: {error}", path.display()))
}
