//! Bugs of decisions on an old state.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use serde_json::json;
use steersman_api::Paging;
use steersman_client::{Client, ReadConsistency};
use steersman_controller::{Context, Controller, Error};
use steersman_harness::OperatorTest;
use steersman_manager::{Group, Manager, runnable};
use steersman_object::{ListOptions, Object as _, ObjectKey, ResourceVersion};
use tokio::time::{Duration, sleep};

use super::support::{
    Form, Outcome, Widget, WidgetOperator, all_but, check, config_map, create_once, data,
    delete_if_there, existing, key, operator, scenario, widget,
};
use crate::BoxError;

/// Creates one claim for each widget.
struct Claims;

impl WidgetOperator for Claims {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        let key = widget.key();
        let found = client.get_opt::<PersistentVolumeClaim>(&key).await?;
        if found.is_some() {
            return Ok(());
        }
        let claim: PersistentVolumeClaim = serde_json::from_value(json!({
            "metadata": {"name": key.name(), "namespace": key.namespace()},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }))
        .map_err(Error::from)?;
        match client.create(&claim).await {
            Err(error) if error.is_already_exists() => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }
}

/// Deletes each claim without a widget. Planted: it lists the widgets in any version, such as an old one.
async fn sweep(client: &Client, form: Form) -> Result<(), Error> {
    let all = ListOptions::new();
    let claims = client.live().list::<PersistentVolumeClaim>(&all).await?;
    let version = match form {
        Form::Planted => ResourceVersion::any(),
        Form::Mended => ResourceVersion::unset(),
    };
    let paging = Paging::new().resource_version(version);
    let mut pages = client.live().pages::<Widget>(&all, &paging);
    let mut widgets: Vec<ObjectKey> = Vec::new();
    while let Some(page) = pages.next_page().await? {
        widgets.extend(page.items.iter().map(|widget| widget.key()));
    }
    for claim in claims {
        if !widgets.contains(&claim.key()) {
            client.delete(&claim).await?;
        }
    }
    Ok(())
}

/// Declares an operator that sweeps when it starts.
fn sweeping(form: Form) -> OperatorTest {
    let declare = move |manager: &Manager| -> Result<(), BoxError> {
        let client = manager.client().clone();
        let sweeper = runnable::from_fn("sweeper", Group::Others, async move |context| {
            while sweep(&client, form).await.is_err() {
                sleep(Duration::from_millis(100)).await;
            }
            context.cancelled().await;
            Ok(())
        });
        manager.add(sweeper)?;
        let controller = Controller::builder::<Widget>()
            .owns::<PersistentVolumeClaim>()
            .build(existing(Claims))?;
        Ok(manager.add_controller(controller)?)
    };
    OperatorTest::declared(declare).crd_of::<Widget>()
}

#[tokio::test]
async fn a_sweep_with_an_old_view_deletes_the_claim_of_a_widget() {
    let scenario = || {
        // No owner reference leads from a claim to its widget, so the operator does not notice a user's deletion.
        // The sweeper starts after the caches, which wait 8 s for a first sync that a silent watch does not bring.
        scenario("sweep")
            .quiet_for(Duration::from_secs(10))
            .patience(Duration::from_secs(60))
            .apply(widget(json!({"size": 1})))
            .constant("PersistentVolumeClaim", "metadata.uid")
            .perturbations(all_but(&["interfere", "missed"]))
    };
    check(("stale-restart", "changed-constant"), scenario, sweeping).await;
}

/// Keeps as many children as the size of its widget, with ordinals. Planted: it counts the children in a cache that may
/// lack its own deletions, and deletes the last children on the server.
struct Ordinals(Form);

impl WidgetOperator for Ordinals {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = match self.0 {
            Form::Planted => ctx.client().read_consistency(ReadConsistency::None),
            Form::Mended => ctx.client().clone(),
        };
        let all = ListOptions::new().namespace("default");
        let widget = match self.0 {
            Form::Planted => widget,
            Form::Mended => Arc::new(client.live().get::<Widget>(&widget.key()).await?),
        };
        let size = usize::try_from(widget.spec.size).unwrap_or_default();
        for ordinal in 0..size {
            let child = widget.key().sibling(format!("a-{ordinal}"));
            if client.get_opt::<ConfigMap>(&child).await?.is_none() {
                create_once(&client, &config_map(&child, "color", "red")).await?;
            }
        }
        let count = async || match self.0 {
            Form::Planted => client.list::<ConfigMap>(&all).await.map(|all| all.len()),
            Form::Mended => client
                .live()
                .list::<ConfigMap>(&all)
                .await
                .map(|all| all.len()),
        };
        while count().await? > size {
            let mut children = client.live().list::<ConfigMap>(&all).await?;
            children.sort_by_key(|child| child.key());
            if let Some(last) = children.pop() {
                delete_if_there(&client, &last.key()).await?;
            }
            // The time that a Pod takes to end.
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_count_of_a_stale_list_deletes_an_ordinal_that_is_wanted() {
    let scenario = || {
        scenario("ordinals")
            .apply(widget(json!({"size": 3})))
            .quiet()
            .merge::<Widget>(&key(), json!({"spec": {"size": 2}}))
            .constant("ConfigMap", "metadata.uid")
    };
    let operator = |form| operator(move || Ordinals(form));
    check(("late-watch", "changed-constant"), scenario, operator).await;
}

/// Gives each widget a port of its own. Planted: the next port follows from a cache, without a claim.
struct Ports(Form);

impl Ports {
    async fn next(client: &Client, own: &ObjectKey) -> Result<usize, Error> {
        let all = ListOptions::new().namespace("default");
        let ports = client.list::<ConfigMap>(&all).await?;
        let own = ports.iter().position(|port| port.key() == *own);
        Ok(own.unwrap_or(ports.len()) + 1)
    }

    /// Claims a port by its name, which only one create can take.
    async fn claim(client: &Client, widget: &ObjectKey) -> Outcome {
        for port in 1.. {
            let claim = widget.sibling(format!("port-{port}"));
            let mut wanted = config_map(&claim, "port", port);
            wanted
                .data
                .get_or_insert_default()
                .extend(data("of", widget.name()));
            match client.live().get_opt::<ConfigMap>(&claim).await? {
                Some(found) if found.data == wanted.data => return Ok(()),
                Some(_) => {}
                None => return Ok(client.create(&wanted).await.map(drop)?),
            }
        }
        Ok(())
    }
}

impl WidgetOperator for Ports {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        if self.0.is_mended() {
            return Self::claim(client, &widget.key()).await;
        }
        let port = widget
            .key()
            .sibling(format!("{}-port", widget.key().name()));
        if client.get_opt::<ConfigMap>(&port).await?.is_none() {
            let number = Self::next(client, &port).await?;
            create_once(client, &config_map(&port, "port", number)).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_number_from_a_stale_list_is_given_twice() {
    let scenario = || {
        let mut other = widget(json!({"size": 1}));
        other["metadata"]["name"] = json!("b");
        // The order in which widgets get their ports is free.
        scenario("ports")
            .apply(widget(json!({"size": 1})))
            .pass(Duration::from_millis(100))
            .apply(other)
            .always(
                "each port is given once",
                "objects.filter(o, o.kind == 'ConfigMap').all(one, objects.filter(o, \
                 o.kind == 'ConfigMap' && o.data.port == one.data.port).size() == 1)",
            )
            .ignore("ConfigMap", "data")
            .perturbations(all_but(&["interfere", "missed"]))
    };
    let operator = |form| operator(move || Ports(form));
    check(("late-watch", "broken-rule"), scenario, operator).await;
}
