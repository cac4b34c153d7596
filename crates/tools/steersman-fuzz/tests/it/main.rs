//! Runs every input of the corpus without libFuzzer.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use steersman_fuzz::Target;

/// Returns the inputs of a target by name.
fn corpus(target: Target) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name());
    let mut inputs: Vec<(String, Vec<u8>)> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect();
    inputs.sort();
    inputs
}

macro_rules! targets {
    ($($name:ident $target:ident)*) => {
        const TESTED: &[Target] = &[$(Target::$target),*];

        $(#[test]
        fn $name() {
            let inputs = corpus(Target::$target);
            assert!(!inputs.is_empty());
            for (path, input) in inputs {
                let found = std::panic::catch_unwind(|| Target::$target.run(&input));
                assert!(found.is_ok(), "{path}");
            }
        })*
    };
}

targets! {
    paths Paths
    selectors Selectors
    patches Patches
    apply Apply
    protobuf Protobuf
    tokens Tokens
    manifests Manifests
    definitions Definitions
}

#[test]
fn every_target_is_tested_and_found_by_its_name() {
    assert_eq!(TESTED, Target::ALL);
    for target in Target::ALL {
        assert_eq!(Target::named(target.name()), Some(target));
    }
    assert_eq!(Target::named("nothing"), None);
}
