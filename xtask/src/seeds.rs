//! Lives seeded worlds, more of them than the tests do.

use std::ops::Range;
use std::path::Path;

use crate::one_test::OneTest;

/// The test that does it, and the variable by which it is told.
const TEST: OneTest = OneTest {
    package: "steersman-informer",
    test: "seeds::every_world_ends_with_each_store_and_each_onlooker_equal_to_the_server",
};
const SEEDS: &str = "STEERSMAN_SEEDS";

/// Lives the worlds of these seeds.
///
/// # Errors
/// Says that cargo could not be started, or that a seed fails; the test has printed why by then.
pub(crate) fn run(root: &Path, seeds: &Range<u64>) -> Result<(), String> {
    let range = format!("{}..{}", seeds.start, seeds.end);
    TEST.run(root, [(SEEDS.to_owned(), range.into())], "a seed fails")
}
