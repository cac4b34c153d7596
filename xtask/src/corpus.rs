//! Sends the manifests of a folder to the API server and reports answers that differ.

use std::path::Path;

use crate::conformance::absolute;
use crate::flags::Corpus;
use crate::one_test::OneTest;

const TEST: OneTest = OneTest::integration("steersman-apiserver", "golden::corpus::corpus");
/// The variable with the folder, which makes the test run.
const FOLDER: &str = "STEERSMAN_CORPUS";

/// Compares the answers of embedded servers to the manifests of a folder with the recording of the folder, or with a
/// second server. The test prints the differences.
pub(crate) fn run(root: &Path, asked: &Corpus) -> Result<(), String> {
    let mut variables = vec![(FOLDER.to_owned(), absolute(&asked.folder)?.into())];
    if let Some(kubeconfig) = &asked.against {
        variables.push((format!("{FOLDER}_AGAINST"), absolute(kubeconfig)?.into()));
    }
    if asked.record {
        variables.push((format!("{FOLDER}_RECORD"), "1".into()));
    }
    let failure = "the answers differ, or there were none to compare: see above";
    TEST.run(root, variables, failure)
}
