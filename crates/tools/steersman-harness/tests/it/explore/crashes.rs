//! Bugs that a crash between two writes shows.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_client::finalizer::{self, FinalizerStage};
use steersman_controller::Context;
use steersman_object::Object as _;
use tokio::sync::OnceCell;
use tokio::time::sleep;

use super::support::{
    Form, Outcome, Widget, WidgetOperator, all_but, check, config_map, create_once, data,
    delete_if_there, ensure, key, operator, phase, scenario, set_phase, widget,
};

const FINALIZER: &str = "example.com/record";

/// The time that a process needs to connect to the place of its records.
const CONNECTS: Duration = Duration::from_millis(700);

/// Keeps a record of each widget outside of it. Planted: the finalizer that removes the record comes after the record.
struct LateFinalizer {
    form: Form,
    connected: OnceCell<()>,
}

impl WidgetOperator for LateFinalizer {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        self.connected.get_or_init(|| sleep(CONNECTS)).await;
        let client = ctx.client();
        let record = widget.key().sibling("a-record");
        match finalizer::stage(&widget, FINALIZER) {
            FinalizerStage::Missing if self.form.is_mended() => {
                client.add_finalizer(&widget, FINALIZER).await?;
                ensure(client, &record, "of", "a").await
            }
            FinalizerStage::Missing => {
                ensure(client, &record, "of", "a").await?;
                client.add_finalizer(&widget, FINALIZER).await?;
                Ok(())
            }
            FinalizerStage::Held => ensure(client, &record, "of", "a").await,
            FinalizerStage::CleanUp => {
                delete_if_there(client, &record).await?;
                client.remove_finalizer(&widget, FINALIZER).await?;
                Ok(())
            }
            FinalizerStage::Released => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_finalizer_that_is_added_after_the_record_leaks_the_record() {
    let scenario = || {
        scenario("late finalizer")
            .apply(widget(json!({"size": 1})))
            .pass(Duration::from_secs(1))
            .delete::<Widget>(&key())
    };
    let operator = |form| {
        operator(move || LateFinalizer {
            form,
            connected: OnceCell::new(),
        })
    };
    check(("crash-after-write", "wrong-state"), scenario, operator).await;
}

/// Writes that a widget is done, and creates its child. Planted: the status comes first, and a widget that is done is
/// left alone.
struct EarlyStatus(Form);

impl WidgetOperator for EarlyStatus {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        if self.0.is_mended() {
            ensure(client, &widget.key(), "size", widget.spec.size).await?;
            return set_phase(client, &widget, "Done").await;
        }
        if phase(&widget) != Some("Done") {
            set_phase(client, &widget, "Done").await?;
            ensure(client, &widget.key(), "size", widget.spec.size).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_status_that_is_written_before_the_child_hides_that_the_child_is_missing() {
    let scenario = || scenario("early status").apply(widget(json!({"size": 1})));
    let operator = |form| operator(move || EarlyStatus(form));
    check(("crash-after-write", "wrong-state"), scenario, operator).await;
}

/// Works while an annotation of the widget says so. Planted: the annotation of a process that was killed stays for
/// ever, because each later process takes it for that of another one.
struct StuckLock(Form);

const LOCK: &str = "example.com/locked";

impl WidgetOperator for StuckLock {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        let is_locked = widget
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|all| all.contains_key(LOCK));
        let child = client.get_opt::<ConfigMap>(&widget.key()).await?;
        let has_size =
            |child: &ConfigMap| child.data.as_ref() == Some(&data("size", widget.spec.size));
        let is_done = phase(&widget) == Some("Done") && child.as_deref().is_some_and(has_size);
        let must_wait = is_locked && !self.0.is_mended();
        if must_wait || (is_done && !is_locked) {
            return Ok(());
        }
        let lock = |widget: &mut Widget| {
            let annotations = widget.metadata.annotations.get_or_insert_default();
            annotations.insert(LOCK.to_owned(), "yes".to_owned());
        };
        let locked = client.modify(&widget, lock).await?.into_object();
        ensure(client, &widget.key(), "size", widget.spec.size).await?;
        set_phase(client, &locked, "Done").await?;
        let unlock = |widget: &mut Widget| {
            let annotations = widget.metadata.annotations.get_or_insert_default();
            annotations.remove(LOCK);
        };
        client.modify(&locked, unlock).await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_lock_that_a_killed_process_holds_stops_all_work() {
    let scenario = || scenario("stuck lock").apply(widget(json!({"size": 1})));
    let operator = |form| operator(move || StuckLock(form));
    check(("crash-after-write", "wrong-state"), scenario, operator).await;
}

/// Moves the data of an old ConfigMap to a new one. Planted: it deletes the old one first, with the data in memory.
struct HastyMigration(Form);

impl WidgetOperator for HastyMigration {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        let (old, new) = (widget.key().sibling("a-old"), widget.key().sibling("a-new"));
        let Some(before) = client.live().get_opt::<ConfigMap>(&old).await? else {
            return Ok(());
        };
        let value = before.data.as_ref().and_then(|data| data.get("size"));
        let moved = config_map(&new, "size", value.cloned().unwrap_or_default());
        if self.0.is_mended() {
            create_once(client, &moved).await?;
        }
        client.delete(&before).await?;
        create_once(client, &moved).await
    }
}

#[tokio::test]
async fn a_migration_that_deletes_its_source_first_loses_the_data() {
    let scenario = || {
        let mut old = serde_json::to_value(config_map(&key().sibling("a-old"), "size", 3)).unwrap();
        (old["apiVersion"], old["kind"]) = (json!("v1"), json!("ConfigMap"));
        // A user who deletes the new ConfigMap destroys the only copy.
        scenario("hasty migration")
            .initial(old)
            .apply(widget(json!({"size": 1})))
            .perturbations(all_but(&["interfere", "missed"]))
    };
    let operator = |form| operator(move || HastyMigration(form));
    check(("crash-after-write", "wrong-state"), scenario, operator).await;
}

/// Removes the record of a widget and then its finalizer. Planted: in the other order.
struct EarlyRelease(Form);

impl WidgetOperator for EarlyRelease {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        let record = widget.key().sibling("a-record");
        match finalizer::stage(&widget, FINALIZER) {
            FinalizerStage::Missing => {
                client.add_finalizer(&widget, FINALIZER).await?;
                ensure(client, &record, "of", "a").await
            }
            FinalizerStage::Held => ensure(client, &record, "of", "a").await,
            FinalizerStage::CleanUp => {
                if self.0.is_mended() {
                    delete_if_there(client, &record).await?;
                }
                client.remove_finalizer(&widget, FINALIZER).await?;
                delete_if_there(client, &record).await
            }
            FinalizerStage::Released => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_finalizer_that_is_removed_before_the_record_leaks_the_record() {
    let scenario = || {
        scenario("early release")
            .apply(widget(json!({"size": 1})))
            .quiet()
            .delete::<Widget>(&key())
    };
    let operator = |form| operator(move || EarlyRelease(form));
    check(("crash-after-write", "wrong-state"), scenario, operator).await;
}

/// Deletes the record of a widget that is deleted. Planted: a record that is gone is an error, so that the finalizer
/// stays after a crash.
struct StrictCleanUp(Form);

impl WidgetOperator for StrictCleanUp {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        let record = widget.key().sibling("a-record");
        match finalizer::stage(&widget, FINALIZER) {
            FinalizerStage::Missing => {
                client.add_finalizer(&widget, FINALIZER).await?;
                ensure(client, &record, "of", "a").await
            }
            FinalizerStage::Held => ensure(client, &record, "of", "a").await,
            FinalizerStage::CleanUp => {
                match self.0 {
                    Form::Planted => client.delete_key::<ConfigMap>(&record).await?,
                    Form::Mended => delete_if_there(client, &record).await?,
                }
                client.remove_finalizer(&widget, FINALIZER).await?;
                Ok(())
            }
            FinalizerStage::Released => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_clean_up_that_cannot_be_repeated_never_ends() {
    let scenario = || {
        scenario("strict clean-up")
            .apply(widget(json!({"size": 1})))
            .quiet()
            .delete::<Widget>(&key())
    };
    let operator = |form| operator(move || StrictCleanUp(form));
    check(("crash-after-write", "wrong-state"), scenario, operator).await;
}
