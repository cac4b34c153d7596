//! Flags, reports, and what the program says about mistakes.

use super::world::{Operator, World, skip};

/// Checks the page in a browser.
const IN_CHROMIUM: &str = include_str!("page.py");

const SITE: &str = "steps: [{apply: site.yaml}]\n";

/// Fails unless the first file is well-formed XML and each element of the second is closed.
const CHECK: &str = "
import sys
from html.parser import HTMLParser
from xml.dom import minidom
suites = minidom.parse(sys.argv[1])
assert suites.getElementsByTagName('failure'), 'no failure'
VOID = {'meta', 'br', 'hr', 'img', 'input', 'link', 'rect', 'line', 'path', 'circle'}
class Balance(HTMLParser):
    open = []
    def handle_starttag(self, tag, attributes):
        if tag not in VOID: self.open.append(tag)
    def handle_endtag(self, tag):
        if tag not in VOID: assert self.open.pop() == tag, tag
balance = Balance()
balance.feed(open(sys.argv[2], encoding='utf-8').read())
assert balance.open == [], balance.open
";

#[tokio::test]
async fn only_repeats_a_finding_and_a_report_tells_it() {
    let Some(world) = World::new() else {
        return;
    };
    let world = world.with_scenario(SITE);
    let operator = Operator::Python("status_first.py");
    let flags = ["--only", "crash-after-write@1", "--report", "report"];
    let bug = world.explore(operator, "bug", &flags).await.unwrap();
    bug.assert_code(1);
    bug.assert_found("crash-after-write@1", "ConfigMap default/a is missing");
    bug.assert_found("--only crash-after-write@1", "seen again in 3 of 3 tries");
    let report = world.folder.path().join("report");
    let (junit, html) = (report.join("junit.xml"), report.join("report.html"));
    world.check_with_python(CHECK, &[&junit, &html]);
    if std::env::var_os("STEERSMAN_CHROMEDRIVER").is_some_and(|path| !path.is_empty()) {
        world.check_with_python(IN_CHROMIUM, &[&html]);
    } else {
        skip("STEERSMAN_CHROMEDRIVER names no chromedriver; `.ci/run test` installs one");
    }
    let mended = world.explore(operator, "mended", &["--only", "crash-after-write@1"]);
    mended.await.unwrap().assert_code(0);
    world.assert_nothing_is_left();
}

#[tokio::test]
async fn a_point_that_is_not_reached_is_no_success() {
    let Some(world) = World::new() else {
        return;
    };
    let world = world.with_scenario(SITE);
    let flags = ["--only", "refuse@99:409"];
    let explored = world.explore(Operator::Python("status_first.py"), "mended", &flags);
    explored
        .await
        .unwrap()
        .assert_complains(&["refuse@99:409 was not reached", "writes 2 times"]);
}

#[tokio::test]
async fn a_permission_that_the_service_account_lacks_is_found() {
    let Some(world) = World::new() else {
        return;
    };
    let account = "serviceAccount: {namespace: default, name: operator}\n";
    let world = world.with_scenario(&format!("{SITE}{account}"));
    let explored = world.explore(Operator::Python("status_first.py"), "mended", &[]);
    let explored = explored.await.unwrap();
    explored.assert_code(1);
    explored.assert_found("reference", "the operator lacks the permission for list");
}

#[tokio::test]
async fn a_budget_ends_the_exploration_and_names_what_is_left() {
    let Some(world) = World::new() else {
        return;
    };
    let world = world.with_scenario(SITE);
    let flags = ["--budget", "1ms"];
    let explored = world.explore(Operator::Python("status_first.py"), "mended", &flags);
    let explored = explored.await.unwrap();
    explored.assert_code(0);
    assert!(
        explored.flat().contains("because the budget ended"),
        "{}",
        explored.stdout
    );
}

#[tokio::test]
async fn a_mistake_in_the_scenario_is_named_with_its_place_and_remedy() {
    let Some(world) = World::new() else {
        return;
    };
    for (text, complaint) in [
        (
            "step: []",
            "the file: there is no member step; the members are initial, steps",
        ),
        (
            "steps: [{aply: a.yaml}]",
            "steps[0]: there is no member aply; the members are apply",
        ),
        ("steps: [{apply: gone.yaml}]", "gone.yaml"),
        (
            "steps: [{apply: site.yaml}]\nperturbations: [crash]",
            "the kinds are crash-before-write",
        ),
        (
            "steps: [{apply: site.yaml}]\nfinally: [{name: a, rule: 'x('}]",
            "finally[0].rule",
        ),
        ("steps: [", "the file: line 1"),
    ] {
        world.write("scenario.yaml", text);
        let explored = world.run(&[], &["true"]).await;
        explored.assert_complains(&[complaint]);
        assert_eq!(explored.stdout, "");
    }
    // The definition of Sites is missing.
    world.write("scenario.yaml", SITE);
    let words = world
        .command_of(Operator::Python("status_first.py"))
        .unwrap();
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    words.push("mended");
    let explored = world.run(&[], &words).await;
    explored.assert_complains(&[
        "step 1: the user applies site.yaml",
        "is its definition missing in `initial`?",
    ]);
}

#[tokio::test]
async fn an_operator_that_does_not_run_is_shown_with_its_output() {
    let Some(world) = World::new() else {
        return;
    };
    let world = world.with_scenario(SITE);
    let gone = world.run(&[], &["/gone/operator"]).await;
    gone.assert_complains(&["the operator does not start: /gone/operator: No such file"]);
    let ended = world.run(&[], &["sh", "-c", "echo no settings; exit 3"]);
    ended
        .await
        .assert_complains(&["ended before its first request: exit code 3", "no settings"]);
    let idle = world.run(&[], &["sh", "-c", "echo idle; sleep 1000"]).await;
    idle.assert_complains(&["has sent no request within 30s", "KUBECONFIG", "idle"]);
    world.assert_nothing_is_left();
}
