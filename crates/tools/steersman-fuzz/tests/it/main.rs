//! Runs every input of the corpus without libFuzzer.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use steersman_fuzz::Target;

/// Runs the inputs of a target.
fn run(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let target = Target::named(name).unwrap();
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let input = std::fs::read(&path).unwrap();
        let found = std::panic::catch_unwind(|| (target.run)(&input));
        assert!(found.is_ok(), "{}", path.display());
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

macro_rules! targets {
    ($($name:ident)*) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];

        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*
    };
}

targets! {
    objects lists watches texts
    paths selectors patches apply protobuf tokens manifests definitions
    reviews conversions token_reviews
}

#[test]
fn every_target_is_tested() {
    assert!(
        Target::all()
            .map(|target| target.name)
            .eq(TESTED.iter().copied())
    );
    assert!(Target::named("nothing").is_none());
}
