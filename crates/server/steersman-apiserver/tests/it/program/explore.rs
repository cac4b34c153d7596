//! Tests of `steersman-apiserver explore` with operators in Python and Node: each planted bug is found, and its mended twin
//! passes.

mod world;
mod doors;
mod signals;

use self::world::{Explored, Operator, World};

/// Explores both variants of an operator, and returns what was found in that with the bug.
async fn explore_twins(operator: Operator, scenario: &str) -> Option<Explored> {
    let world = World::new()?;
    let world = world.with_scenario(scenario);
    let mended = world.explore(operator, "mended", &[]).await?;
    mended.assert_code(0);
    let bug = world.explore(operator, "bug", &[]).await?;
    bug.assert_code(1);
    Some(bug)
}

#[tokio::test]
async fn a_status_before_the_child_is_found() {
    let scenario = "
steps: [{apply: site.yaml}]
perturbations: [crash-after-write, refuse]
";
    let Some(found) = explore_twins(Operator::Python("status_first.py"), scenario).await else {
        return;
    };
    found.assert_found("crash-after-write@1", "ConfigMap default/a is missing");
}

#[tokio::test]
async fn a_generated_name_for_each_retry_is_found() {
    let scenario = "
steps: [{apply: site.yaml}]
perturbations: [lost-answer, late-watch]
";
    let Some(found) = explore_twins(Operator::Python("generated_name.py"), scenario).await else {
        return;
    };
    found.assert_found("lost-answer@1", "should not exist");
}

#[tokio::test]
async fn a_password_that_a_crash_replaces_is_found() {
    let scenario = "
steps: [{apply: site.yaml}]
perturbations: [crash-after-write, missed]
constant: [{kind: Secret, path: data.password}]
";
    let Some(found) = explore_twins(Operator::Python("password.py"), scenario).await else {
        return;
    };
    found.assert_found(
        "crash-after-write@1",
        "data.password of Secret default/a has changed",
    );
}

#[tokio::test]
async fn a_decision_on_an_old_list_is_found() {
    let scenario = "
steps:
- apply: site.yaml
- quiet: {}
- merge: {apiVersion: example.com/v1, kind: Site, namespace: default, name: a, patch: {spec: {size: 2}}}
perturbations: [stale-restart]
";
    let Some(found) = explore_twins(Operator::Python("stale_list.py"), scenario).await else {
        return;
    };
    found.assert_found("stale-restart@6:2", "ConfigMap default/a-1 differs");
}

#[tokio::test]
async fn two_leaders_that_both_create_are_found() {
    let scenario = "
steps: [{apply: site.yaml}]
replicas: 2
perturbations: [two-leaders]
";
    let Some(found) = explore_twins(Operator::Python("leaders.py"), scenario).await else {
        return;
    };
    found.assert_found("two-leaders@1", "should not exist");
}

#[tokio::test]
async fn an_operator_in_node_is_explored() {
    let scenario = "
steps: [{apply: site.yaml}]
perturbations: [crash-before-write, expired-watch]
";
    let Some(found) = explore_twins(Operator::Node("status_first.mjs"), scenario).await else {
        return;
    };
    found.assert_found("crash-before-write@2", "ConfigMap default/a is missing");
}

#[tokio::test]
async fn an_operator_with_kopf_is_explored() {
    // kopf reads the definitions and the namespaces before it watches a kind, and is slow on a busy machine.
    let scenario = "
steps: [{apply: site.yaml}]
quiet: 3s
patience: 20s
perturbations: [crash-after-write]
";
    let Some(found) = explore_twins(Operator::PythonClient("kopf_site.py"), scenario).await else {
        return;
    };
    found.assert_found("crash-after-write@1", "does not become quiet");
}

#[tokio::test]
async fn an_operator_with_the_python_client_is_explored() {
    let scenario = "
steps: [{apply: site.yaml}]
perturbations: [refuse, throttled]
";
    let Some(found) = explore_twins(Operator::PythonClient("client.py"), scenario).await else {
        return;
    };
    found.assert_found("refuse@1:409", "ConfigMap default/a is missing");
}

/// Refused writes and crashes at reads, which have the most points, are those of other tests.
#[tokio::test]
async fn a_correct_operator_passes_each_perturbation() {
    let scenario = "
steps:
- apply: site.yaml
- quiet: {}
- merge: {apiVersion: example.com/v1, kind: Site, namespace: default, name: a, patch: {spec: {page: bye}}}
perturbations:
- crash-before-write
- crash-after-write
- lost-answer
- stale-restart
- late-watch
- missed
- expired-watch
- server-restart
- throttled
- interfere
- settled-restart
finally:
- {name: published, rule: \"objects.exists(o, o.kind == 'ConfigMap' && o.metadata.name == 'a' && o.data.page == 'bye')\"}
";
    let Some(world) = World::new() else {
        return;
    };
    let world = world.with_scenario(scenario);
    let operator = Operator::Python("status_first.py");
    if let Some(explored) = world.explore(operator, "mended", &[]).await {
        explored.assert_code(0);
        assert!(
            explored.stdout.contains("nothing found in "),
            "{}",
            explored.stdout
        );
    }
}
