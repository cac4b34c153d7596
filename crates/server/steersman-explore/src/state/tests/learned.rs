//! Tests of what the runs teach about parts that vary.

use super::*;

/// Each line has the `spec` of an object in two or three runs and in a world, then the number of differences of the
/// world, and what varies.
const VARYING: &str = r#"
A random value must be there, and may be any:
{"a":"x","b":1} | {"a":"y","b":1} => {"a":"z","b":1} = 0 spec.a
{"a":"x","b":1} | {"a":"y","b":1} => {"a":"x","b":2} = 1 spec.a
{"a":"x","b":1} | {"a":"y","b":1} => {"b":1} = 1 spec.a
{"a":"x"} | {"a":"x"} | {"a":1} => {"a":{"b":[]}} = 0 spec.a

A field that only some of the runs have:
{"a":"x","b":1} | {"b":1} => {"b":1} = 0 spec.a
{"a":"x","b":1} | {"b":1} => {"a":"z","b":1} = 0 spec.a
{"a":"x","b":1} | {"b":1} => {"a":"x","b":1,"c":1} = 1 spec.a

Random names of members:
{"a":1,"x":1} | {"a":1,"y":2} => {"a":1,"z":3,"w":4} = 0 spec.*
{"a":1,"x":1} | {"a":1,"y":2} => {"a":2,"x":1} = 1 spec.*

Items of lists, by their numbers:
[1,2] | [1,3] => [1,4] = 0 spec[1]
[1,2] | [1,3] => [2,3] = 1 spec[1]
[1,2] | [1,3] => [1] = 1 spec[1]
[1,2] | [1,3] => [1,2,3] = 1 spec[1]
[1,2] | [1] => [4] = 0 spec
[1,2] | [1] => "text" = 0 spec
[{"v":1,"w":1}] | [{"v":2,"w":1}] => [{"v":3,"w":1}] = 0 spec[0].v

The same items in another order:
[1,2,3] | [3,1,2] => [2,3,1] = 0 order of spec
[1,2,3] | [3,1,2] => [2,3,3] = 1 order of spec
[1,2,3] | [3,1,2] => [2,3] = 1 order of spec

Items of lists, by their keys:
[{"type":"A","x":1},{"type":"B"}] | [{"type":"A","x":2},{"type":"B"}] => [{"type":"B"},{"type":"A","x":3}] = 0 spec[0].x
[{"type":"A"},{"type":"B","x":1}] | [{"type":"B","x":1}] => [{"type":"B","x":1}] = 0 spec[0]
[{"type":"A"},{"type":"B","x":1}] | [{"type":"B","x":1}] => [{"type":"A"},{"type":"B","x":2}] = 1 spec[0]
[{"type":"A"}] | [] => [{"type":"B"}] = 1 spec[0]
[{"name":"a"},{"name":"x1"}] | [{"name":"a"},{"name":"x2"}] => [{"name":"a"},{"name":"x3"}] = 0 spec[*]
[{"type":"A","x":1}] | [{"type":"A","x":2}] => [{"type":"A","x":1},{"type":"A","x":1}] = 1 spec[0].x
[{"type":"A","x":1}] | [{"type":"A","x":2}] => [{"type":"A","x":1},3] = 1 spec[0].x
"#;

#[test]
fn what_differs_among_the_runs_is_not_compared() {
    let spec = |text: &str| -> Value {
        let spec: Value = serde_json::from_str(text).unwrap();
        site(json!({}), json!({"spec": spec}))
    };
    let mut count = 0;
    for line in VARYING.lines().filter(|line| line.contains(" => ")) {
        let (runs, rest) = line.split_once(" => ").unwrap();
        let (world, rest) = rest.split_once(" = ").unwrap();
        let (differences, varying) = rest.split_once(' ').unwrap();
        let runs: Vec<Value> = runs.split(" | ").map(spec).collect();
        let expected = expected(&runs);
        let found = lines(&expected, &spec(world));
        assert_eq!(found.len().to_string(), differences, "{line} {found:?}");
        assert_eq!(
            expected.varying(),
            [format!("Site shop/a: {varying}")],
            "{line}"
        );
        count += 1;
    }
    assert_eq!(count, 26);
}

#[test]
fn a_missing_item_does_not_show_the_parts_that_vary() {
    let status = |conditions: Value| site(json!({}), json!({"status": conditions}));
    let run = |x: i64| status(json!([{"type": "A"}, {"type": "B", "x": x}, {"type": "C"}]));
    let world = status(json!([{"type": "B", "x": 3}, {"type": "C"}]));
    let line = concat!(
        r#"Site shop/a: /status [{"type":"A"},{"type":"B","x":"<varies>"},{"type":"C"}] "#,
        r#"[{"type":"B","x":"<varies>"},{"type":"C"}]"#,
    );
    assert_eq!(lines(&expected(&[run(1), run(2)]), &world), [line]);
}

#[test]
fn objects_that_some_runs_do_not_have_are_not_compared() {
    let one = object("ConfigMap", "a", json!({}), json!({}));
    let other = |data: &str| object("Secret", "chance", json!({}), json!({"data": data}));
    let expected = expected(&[json!([one]), json!([one, other("x")]), json!([one])]);
    assert_eq!(expected.varying(), ["Secret shop/chance"]);
    assert_eq!(lines(&expected, &json!([one])), NONE);
    assert_eq!(lines(&expected, &json!([one, other("y")])), NONE);
    assert_eq!(
        lines(&expected, &json!([other("y")])),
        ["ConfigMap shop/a is missing"]
    );
}

#[test]
fn differences_are_in_the_order_of_the_objects() {
    let run = json!([
        object("Secret", "a", json!({}), json!({"data": 1})),
        object("ConfigMap", "b", json!({}), json!({})),
        object("ConfigMap", "d", json!({}), json!({})),
    ]);
    let world = json!([
        object("Secret", "a", json!({}), json!({"data": 2})),
        object("ConfigMap", "c", json!({}), json!({})),
        object("ConfigMap", "d", json!({}), json!({})),
    ]);
    let expected = [
        "ConfigMap shop/b is missing",
        "ConfigMap shop/c is additional",
        "Secret shop/a: /data 1 2",
    ];
    assert_eq!(compared(&run, &world), expected);
}
