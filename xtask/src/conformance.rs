//! Replays the recorded conversations and reports servers that answer differently.

use std::path::{Path, PathBuf};

use crate::flags::Conformance;
use crate::one_test::OneTest;

const TEST: OneTest =
    OneTest::integration("steersman-apiserver", "golden::conformance::conformance");
const PROTOBUF_TEST: OneTest = OneTest::integration(
    "steersman-protobuf",
    "golden::recorded_objects_are_equal_in_both_encodings",
);
/// The variable that makes the test run, and the prefix of the variables with its settings.
const RUN: &str = "STEERSMAN_CONFORMANCE";

/// Replays the conversations against the embedded server, and against a real server if a kubeconfig names one or
/// `KUBEBUILDER_ASSETS` holds the binaries; or compares recorded objects in protobuf with their JSON, in both directions.
/// The test prints the differences. On Unix the test of conversations replaces this process.
pub(crate) fn run(root: &Path, asked: &Conformance) -> Result<(), String> {
    if let Some(cases) = &asked.protobuf {
        let variable = "STEERSMAN_PROTOBUF_CASES".to_owned();
        let variables = vec![(variable, absolute(cases)?.into())];
        return PROTOBUF_TEST.run(root, variables, "the encodings differ");
    }
    let mut variables = vec![(RUN.to_owned(), "1".into())];
    // The test runs in another folder, so the paths are made absolute.
    for (variable, path) in [("KUBECONFIG", &asked.kubeconfig), ("CASES", &asked.cases)] {
        if let Some(path) = path {
            variables.push((format!("{RUN}_{variable}"), absolute(path)?.into()));
        }
    }
    if let Some(filter) = &asked.filter {
        variables.push((format!("{RUN}_FILTER"), filter.into()));
    }
    // An interrupt must reach the test, so that it removes its objects from a real server.
    #[cfg(unix)]
    return TEST.exec(root, variables);
    #[cfg(not(unix))]
    TEST.run(
        root,
        variables,
        "a server answered differently than recorded",
    )
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, String> {
    path.canonicalize()
        .map_err(|error| format!("{}: {error}", path.display()))
}
