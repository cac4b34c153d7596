//! CLIENT-7: a write in a runtime that ends before the server answers.

use futures::FutureExt as _;

use crate::world::{World, config};

/// CLIENT-7: a write fails if its runtime ends, because it is unknown whether the server executed it.
#[test]
fn a_write_fails_if_its_runtime_ends_before_the_answer() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    let world = runtime.block_on(async { World::new() });
    let object = config("a");
    let mut create = Box::pin(world.client.create(&object));
    let entered = runtime.enter();
    assert!((&mut create).now_or_never().is_none());
    drop(entered);
    drop(runtime);
    let error = create.now_or_never().unwrap().unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("the runtime ended before the answer came"),
        "{text}"
    );
}
