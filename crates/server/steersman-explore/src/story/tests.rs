//! Tests of stories.

mod samples;

use serde_json::json;

use super::*;
use crate::finding::{Problem, StateDifference};
use crate::perturbation::Perturbation;
use crate::request::RequestVerb;
use crate::world_event::WorldEventKind;

pub(crate) use samples::*;

fn told(finding: &Finding) -> String {
    let story = tell(finding, "steersman-apiserver explore --only X");
    for line in story.lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert_eq!(line, line.trim_end());
    }
    story
}

#[test]
fn a_story_tells_what_was_asked_what_happened_and_what_is_wrong() {
    let command = "steersman-apiserver explore --scenario test/exploration/site.yaml --only lost-answer@2 -- ./operator --verbose";
    let story = tell(&lost_answer(), command);
    assert_eq!(
        story,
        "\
lost-answer@2: the final state differs from the undisturbed run: ConfigMap shop/pages differs;
  Service shop/pages is missing

What the user asked
  1. applies site.yaml: Site shop/pages
  2. waits until the operator is quiet

What happened
  0.000s  start     process 1 of the operator starts
  0.120s  read      list sites.example.com in shop
  0.121s  read      watch sites.example.com in shop
  0.400s  user      applies site.yaml: Site shop/pages
  0.410s  read      get configmaps shop/pages → 404
  0.420s  write 1   create configmaps shop/pages → 201
                    + apiVersion: v1
                    + data:
                    +   index: <h1>
                    +   pages: \"1\"
                    +   theme: plain
                    +   title: Shop
                    + kind: ConfigMap
                    + metadata:
                    +   name: pages
                    +   namespace: shop
  0.430s  read      get sites.example.com shop/pages, 3 times
  1.204s  write 2   update configmaps shop/pages → 200 (the operator is told 504)
                      data:
                        index: <h1>
                    -   pages: \"1\"
                    +   pages: \"2\"
                        theme: plain
                        title: Shop

  1.204s  >>> write 2 is carried out, and the operator is told 504

  1.310s  write 3   update configmaps shop/pages → 200
                      data:
                        index: <h1>
                    -   pages: \"2\"
                    +   pages: \"1\"
                        theme: plain
                        title: Shop
  1.400s  exit      process 1 of the operator ends by itself: exit code 1
                    | ERROR cannot update
                    | goodbye
  1.500s  start     process 2 of the operator starts
  4.000s  quiet     the operator is quiet

What the operator believed, and what was so
  • believed: write 2 (update configmaps shop/pages) failed with 504
  • was so: write 2 was carried out

What is wrong
  ConfigMap shop/pages differs (- as in the undisturbed run, + as in this world):
      data:
        index: <h1>
    -   pages: \"2\"
    +   pages: \"1\"
        theme: plain
        title: Shop
  Service shop/pages is missing; the undisturbed run has:
    - apiVersion: v1
    - kind: Service
    - spec:
    -   ports:
    -   - port: 80

Does it repeat?
  seen again in 3 of 3 tries

The same problem appears with
  crash-after-write@2, refuse@3:500

Repeat it with
  steersman-apiserver explore --scenario test/exploration/site.yaml --only lost-answer@2 -- \\
    ./operator --verbose
"
    );
}

#[test]
fn no_story_has_a_value_of_a_secret() {
    let story = told(&secret_finding());
    for value in [SECRET_VALUE, SECRET_BASE64, "b3RoZXJ", "s3cr"] {
        assert!(!story.contains(value), "{value}: {story}");
    }
    let asked = "2. patches Secret shop/db with {\"stringData\":{\"password\":\"<14 bytes, ";
    assert!(story.contains(asked), "{story}");
    // Two different values look different.
    let hidden: Vec<&str> = story
        .lines()
        .filter(|line| line.contains(" <1") && line.starts_with("    "))
        .collect();
    let [.., before, after] = hidden.as_slice() else {
        panic!("{hidden:?}");
    };
    assert!(
        before.starts_with("    - <14 bytes, ") && after.starts_with("    + <15 bytes, "),
        "{story}"
    );
    let objects = StateDifference {
        object: id("Secret", "db"),
        expected: Some(json!({"data": {"a": SECRET_BASE64}})),
        found: Some(json!({"data": {"a": "aHVudGVyMmh1bnRlcjM="}})),
    };
    let story = told(&with_problem(wrong_state(vec![objects])));
    assert!(
        story.contains("    -   a: <14 bytes, ") && story.contains("    +   a: <14 bytes, "),
        "{story}"
    );
    assert!(!story.contains("aHVudGVyMm"), "{story}");
}

#[test]
fn a_story_says_how_often_the_problem_was_seen_again() {
    for (tries, repeated, text) in [
        (0, 0, "  it was not tried again\n"),
        (1, 1, "  seen again in 1 of 1 try\n"),
        (
            3,
            1,
            "  it does not always repeat: seen again in 1 of 3 tries\n",
        ),
        (
            3,
            0,
            "  it does not always repeat: seen again in 0 of 3 tries\n",
        ),
    ] {
        let finding = Finding {
            tries,
            repeated,
            ..lost_answer()
        };
        assert!(told(&finding).contains(text), "{text}");
    }
}

#[test]
fn each_problem_is_told_in_full() {
    let broken = |after_write| Problem::BrokenRule {
        name: "one".to_owned(),
        why: "it fails: no such key\n | objects[0].b\n | ..........^".to_owned(),
        after_write,
    };
    for (problem, expected) in [
        (
            Problem::NotQuiet {
                last_writes: vec![
                    "update sites a → 200".to_owned(),
                    "update sites b → 200".to_owned(),
                ],
            },
            "  the operator does not become quiet; its last writes, the oldest first:\n  • update sites a → 200\n  • update sites b → 200\n",
        ),
        (
            Problem::SettledWrites(vec!["update sites a".to_owned()]),
            "  all was settled, and the restarted operator wrote:\n  • update sites a\n",
        ),
        (
            broken(Some(2)),
            "  the rule \"one\" does not hold after write 2 (update configmaps shop/pages):\n    | it fails: no such key\n    |  | objects[0].b\n    |  | ..........^\n",
        ),
        (
            broken(None),
            "  the rule \"one\" does not hold at the end:\n    | it fails",
        ),
        (
            Problem::Exit {
                how: "a panic".to_owned(),
                output: vec!["panicked at a.rs".to_owned()],
            },
            "  a process of the operator ended by itself: a panic\n  the last lines that it printed:\n    | panicked at a.rs\n",
        ),
        (
            Problem::Forbidden("create secrets shop/a".to_owned()),
            "  the server refused a request, because no role of the operator allows it: create secrets shop/a\n",
        ),
        (
            Problem::Leftovers(vec![id("ConfigMap", "a")]),
            "  a namespace was deleted, and these objects remain:\n  • ConfigMap shop/a\n",
        ),
        (
            Problem::ChangedConstant {
                object: id("Site", "a"),
                field: "status.token".to_owned(),
                before: json!({"a": 1}),
                after: json!("b"),
            },
            "  status.token of Site shop/a must not change (- as first set, + as changed):\n    - a: 1\n    + b\n",
        ),
    ] {
        let story = told(&with_problem(problem));
        assert!(
            story.contains(&format!("What is wrong\n{expected}")),
            "{story}"
        );
    }
}

#[test]
fn what_the_operator_believed_is_told_for_each_perturbation() {
    for (name, expected) in [
        (
            "refuse@2:409",
            "  • believed: write 2 (update configmaps shop/pages) failed with 409\n  • was so: write 2 was not carried out\n",
        ),
        (
            "stale-restart@2:3",
            "  • believed: the new process was first shown the state as it was 3 versions before the crash\n  • was so: all writes up to write 2 (update configmaps shop/pages) were carried out\n",
        ),
        (
            "namespace-deleted@1",
            "  • believed: the namespace shop stays\n  • was so: a user deleted the namespace shop after write 1 (create configmaps shop/pages)\n",
        ),
        (
            "late-watch@9",
            "  • believed: no watch of the resource showed write 9 or later changes\n",
        ),
        (
            "lost-answer@1+interfere@3",
            "  At interfere@3:\n  • believed: write 3 (update configmaps shop/pages) still stands\n",
        ),
    ] {
        let perturbations = Perturbation::parse_all(name).unwrap();
        let story = told(&Finding {
            perturbations,
            ..lost_answer()
        });
        assert!(story.contains(expected), "{story}");
    }
    for kind in crate::PerturbationKind::all() {
        let perturbations = vec![Perturbation::at(kind, 1).with_detail(1)];
        told(&Finding {
            perturbations,
            ..lost_answer()
        });
    }
    let quiet = Finding {
        perturbations: Vec::new(),
        ..lost_answer()
    };
    assert!(told(&quiet).starts_with("reference: the final state differs"));
}

#[test]
fn a_long_world_keeps_its_start_its_end_and_its_perturbations() {
    let mut finding = lost_answer();
    let start = finding.events.clone();
    for at in 0..1000_u64 {
        finding
            .events
            .push(read(5000 + at, RequestVerb::Get, "pods", Some("a"), 200));
        let number = 100 + usize::try_from(at).unwrap();
        finding.events.push(write(
            5000 + at,
            number,
            (RequestVerb::Update, "pods", "a"),
            Some(200),
            None,
        ));
    }
    finding.events.insert(
        1000,
        event(
            5300,
            WorldEventKind::Perturbed("a user deletes a pod".to_owned()),
        ),
    );
    finding.events.extend(start);
    let story = told(&finding);
    assert!(story.lines().count() < 400, "{}", story.lines().count());
    assert!(
        story.contains("  5.300s  >>> a user deletes a pod\n"),
        "{story}"
    );
    assert!(story.contains("          …         "), "{story}");
    assert_eq!(story.matches(" writes and ").count(), 2, "{story}");
    assert_eq!(story.matches("process 2 of the operator starts").count(), 2);
}

#[test]
fn leases_are_told_when_another_process_leads() {
    let lease = |holder: &str, time: &str| {
        Some(json!({"kind": "Lease", "spec": {"holderIdentity": holder, "renewTime": time}}))
    };
    let renewed = |millis, before: &str, after: &str, time: &str| {
        let request = request(
            RequestVerb::Update,
            "leases.coordination.k8s.io",
            Some("lead"),
        );
        let change = change("Lease", "lead", lease(before, "0"), lease(after, time));
        event(
            millis,
            WorldEventKind::Wrote {
                request,
                number: None,
                code: Some(200),
                change,
            },
        )
    };
    let events = vec![
        renewed(1, "a", "a", "1"),
        renewed(2, "a", "a", "2"),
        renewed(3, "a", "b", "3"),
    ];
    let story = told(&Finding {
        events,
        ..lost_answer()
    });
    assert!(
        story.contains(
            "  0.001s  write     update leases.coordination.k8s.io shop/lead, 2 times → 200\n"
        ),
        "{story}"
    );
    assert!(
        story.contains("                    +   holderIdentity: b\n"),
        "{story}"
    );
}

#[test]
fn writes_say_when_they_change_nothing_or_remove_an_object() {
    let metadata =
        |version: &str| Some(json!({"kind": "Pod", "metadata": {"resourceVersion": version}}));
    let events = vec![
        write(1, 1, (RequestVerb::Patch, "pods", "a"), Some(200), None),
        write(
            2,
            2,
            (RequestVerb::Delete, "pods", "a"),
            Some(200),
            change("Pod", "a", metadata("1"), None),
        ),
        write(3, 3, (RequestVerb::Create, "pods", "a"), None, None),
        write(4, 4, (RequestVerb::Update, "pods", "a"), Some(409), None),
        write(
            5,
            5,
            (RequestVerb::Update, "pods", "a"),
            Some(200),
            change("Pod", "a", metadata("1"), metadata("2")),
        ),
    ];
    let story = told(&Finding {
        events,
        perturbations: Vec::new(),
        ..lost_answer()
    });
    for line in [
        "write 1   patch pods shop/a → 200, which changes nothing\n",
        "write 2   delete pods shop/a → 200, Pod shop/a is gone\n",
        "write 3   create pods shop/a → not carried out\n",
        "write 4   update pods shop/a → 409\n",
        "write 5   update pods shop/a → 200\n                    … only fields of the server change\n",
    ] {
        assert!(story.contains(line), "{story}");
    }
}
