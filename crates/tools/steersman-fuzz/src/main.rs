//! A libFuzzer binary: `FUZZ_TARGET` names the target, and the arguments are those of libFuzzer.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use steersman_fuzz::Target;

static TARGET: OnceLock<Target> = OnceLock::new();

fuzz_target!(|input: &[u8]| {
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        Target::named(&name).unwrap_or_else(|| panic!("FUZZ_TARGET={name:?} names no target"))
    });
    (target.run)(input);
});
