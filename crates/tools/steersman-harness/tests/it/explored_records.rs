//! An exploration compares the records of an external system like objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
use steersman_harness::{ExploreReport, External, HarnessError, OperatorTest, Scenario};
use steersman_manager::Manager;
use steersman_object::Object as _;

use crate::BoxError;

/// A cloud with machines, each with a name.
#[derive(Default)]
struct Cloud {
    machines: Mutex<Vec<String>>,
    named: AtomicUsize,
}

/// Creates a machine for each ConfigMap, and writes its name into the ConfigMap.
struct Machines {
    cloud: Arc<Cloud>,
    /// Whether the name follows from the ConfigMap, so that a machine is found again after a crash.
    is_named_by_object: bool,
}

impl Reconciler for Machines {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let Some(config) = ctx.client().get_opt::<ConfigMap>(&request.key).await? else {
            return Ok(Action::done());
        };
        let is_known = config
            .data
            .as_ref()
            .is_some_and(|data| data.contains_key("machine"));
        // The server creates other ConfigMaps in each namespace.
        if is_known || config.key().name() != "a" {
            return Ok(Action::done());
        }
        let name = match self.is_named_by_object {
            true => "machine-of-a".to_owned(),
            false => format!(
                "machine-{}",
                self.cloud.named.fetch_add(1, Ordering::SeqCst)
            ),
        };
        {
            let mut machines = self.cloud.machines.lock();
            if !machines.contains(&name) {
                machines.push(name.clone());
            }
        }
        let note = |config: &mut ConfigMap| {
            let data = config.data.get_or_insert_default();
            data.insert("machine".to_owned(), name.clone());
        };
        ctx.client().modify(&*config, note).await?;
        Ok(Action::done())
    }
}

async fn explored(is_named_by_object: bool) -> Result<ExploreReport, HarnessError> {
    let cloud = External::new(|| Arc::new(Cloud::default())).records("Machine", |cloud| {
        let machines = cloud.machines.lock().clone();
        machines.into_iter().map(|name| (name, Value::Null))
    });
    let declare = move |manager: &Manager, cloud: &Arc<Cloud>| -> Result<(), BoxError> {
        let cloud = Arc::clone(cloud);
        let machines = Machines {
            cloud,
            is_named_by_object,
        };
        let controller = Controller::builder::<ConfigMap>().build(machines)?;
        Ok(manager.add_controller(controller)?)
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default"},
    });
    let scenario = Scenario::new("machines")
        .apply(config)
        .quiet()
        // A user who deletes the ConfigMap leaves the machine of either operator.
        .only("crash-before-write@1");
    let operator = OperatorTest::declared_with(cloud, declare);
    operator.explore(scenario).await
}

#[tokio::test]
async fn a_record_that_a_crash_leaves_behind_is_found() {
    let Err(HarnessError::Explored(failure)) = explored(false).await else {
        panic!("nothing was found");
    };
    let told = failure.to_string();
    assert!(
        told.contains("Machine machine-1 should not exist"),
        "{told}"
    );
    let report = explored(true).await.unwrap();
    assert!(report.findings.is_empty());
}

/// Each world begins without records: the third reference would otherwise see those of the others.
#[tokio::test]
async fn each_world_has_an_external_system_of_its_own() {
    let Err(HarnessError::Explored(failure)) = explored(false).await else {
        panic!("nothing was found");
    };
    let told = failure.to_string();
    assert!(!told.contains("machine-2"), "{told}");
}
