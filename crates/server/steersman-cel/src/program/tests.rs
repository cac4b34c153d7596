//! Tests of the values, costs and errors of expressions.

use serde_json::{Value as Json, json};

use super::*;
use crate::library;
use crate::run::{Patterns, Run};
use crate::structural::Structural;

fn decl() -> Arc<Decl> {
    let schema = Structural::compile(&json!({"type": "object", "properties": {
        "i": {"type": "integer"}, "d": {"type": "number"}, "s": {"type": "string"},
        "b": {"type": "boolean"}, "y": {"type": "string", "format": "byte"},
        "t": {"type": "string", "format": "date-time"}, "D": {"type": "string", "format": "duration"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "ls": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {
                "k": {"type": "string"}, "v": {"type": "integer"}}}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "o": {"type": "object", "properties": {"a-b": {"type": "string"}, "n": {"type": "integer"}}},
        "namespace": {"type": "string"}, "x": {"x-kubernetes-int-or-string": true},
        "null": {"type": "string", "nullable": true},
    }}));
    Arc::new(Decl::of(&schema, true, "selfType").unwrap())
}

fn compile(source: &str) -> Result<Program, String> {
    let kind = decl().kind.clone();
    let compiled = Program::compile(source, &[("self", kind.clone()), ("oldSelf", kind)]);
    compiled.map_err(|wrong| match wrong {
        CompileError::Invalid(why) => why,
        constant @ CompileError::Constant(_) => constant.to_string(),
    })
}

fn object() -> Json {
    json!({"apiVersion": "e.com/v1", "kind": "K", "metadata": {"name": "n", "labels": {}},
        "i": 3, "d": 1.5, "s": "héllo", "b": true, "y": "aGk=", "t": "2024-01-02T03:04:05Z",
        "D": "1h30m", "l": [3, 1, 2], "ls": ["b", "a"], "set": ["x", "y"],
        "keyed": [{"k": "a", "v": 1}, {"k": "b", "v": 2}], "m": {"one": 1, "two": 2},
        "o": {"a-b": "dash", "n": 7}, "namespace": "ns", "x": "50%", "null": null})
}

fn eval(source: &str) -> String {
    let program = match compile(source) {
        Ok(program) => program,
        Err(wrong) => return wrong,
    };
    let (decl, object) = (decl(), object());
    let this = Value::of(&object, Some(&decl)).unwrap();
    match program
        .run(&[("self", this.clone()), ("oldSelf", this)], CALL_LIMIT)
        .0
    {
        Ok(value) => format!("{value:?}"),
        Err(EvalFailure::Error(why)) => format!("error: {why}"),
        Err(EvalFailure::Limit) => "limit".to_owned(),
    }
}

#[test]
fn common_rules_evaluate_to_true() {
    for source in [
        "self.i == 3 && self.d == 1.5 && self.i < 4.5 && self.b",
        "self.s.startsWith('h') && self.s.size() == 5 && size(self.s) == 5",
        "self.s.matches('^h.llo$') && !self.s.matches('x')",
        "self.y == b'hi' && size(self.y) == 2",
        "self.t < timestamp('2025-01-01T00:00:00Z') && self.t.getFullYear() == 2024",
        "self.t + duration('1h') > self.t && self.t - self.t == duration('0s')",
        "self.D == duration('90m') && self.D.getMinutes() == 90",
        "self.l.all(x, x > 0) && self.l.exists(x, x == 2) && self.l.exists_one(x, x == 3)",
        "self.l.map(x, x * 2) == [6, 2, 4] && self.l.filter(x, x > 1).size() == 2",
        "self.l.map(x, x > 1, x + 1) == [4, 3]",
        "self.l.sum() == 6 && self.l.min() == 1 && self.l.max() == 3 && !self.l.isSorted()",
        "self.l.indexOf(1) == 1 && self.ls.join(',') == 'b,a' && self.l[0] == 3",
        "self.m.all(k, self.m[k] > 0) && 'one' in self.m && !('three' in self.m)",
        "self.m == {'two': 2, 'one': 1} && size(self.m) == 2 && self.m.one == 1",
        "self.o.a__dash__b == 'dash' && self.__namespace__ == 'ns' && has(self.o.n)",
        "!has(self.m.three) && has(self.m.one) && !has(self.metadata.generateName)",
        "self.metadata.name == 'n' && self.kind == 'K' && self.apiVersion.endsWith('v1')",
        "type(self.x) == string && self.x.endsWith('%') && type(self.x) != int",
        "self.x == 5 || self.x == '50%'",
        "self.set == ['x', 'y'] && self.set.all(x, x in self.set)",
        "self.keyed.filter(e, e.k == 'a')[0].v == 1",
        "self.?o.?n.orValue(0) == 7 && self.m[?'three'].orValue(9) == 9 && self.l[?9].hasValue() == false",
        "optional.of(1).value() == 1 && !optional.none().hasValue()",
        "self.m[?'one'].optMap(v, v + 1).value() == 2",
        "self.m[?'one'].or(optional.of(5)) == optional.of(1)",
        "[1, ?self.m[?'three'], ?self.m[?'two']] == [1, 2]",
        "{'a': 1, ?'b': self.m[?'three']} == {'a': 1}",
        "self.m.all(k, v, v > 0) && self.l.exists(i, v, i == 0 && v == 3)",
        "self.m.transformMap(k, v, v + 1) == {'one': 2, 'two': 3}",
        "self.l.transformList(i, v, i + v) == [3, 2, 4]",
        "self.l.transformList(i, v, v > 1, v) == [3, 2]",
        "self.s.lowerAscii().replace('l', 'L') == 'héLLo' && self.s.indexOf('l') == 2",
        "self.s.lastIndexOf('l') == 3 && self.s.charAt(1) == 'é' && self.s.substring(1, 3) == 'él'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "'  x '.trim() == 'x' && 'abc'.find('[b-c]+') == 'bc' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
        "'%s=%d'.format([dyn('a'), dyn(1)]) == 'a=1' && strings.quote('a').size() == 3",
        "quantity('1Gi').isGreaterThan(quantity('500Mi')) && quantity('1.5').add(1).sub(quantity('500m')).asInteger() == 2",
        "isQuantity('1k') && !isQuantity('x') && quantity('50k').compareTo(quantity('0.05M')) == 0",
        "url('https://e.com:8/p?q=1').getHostname() == 'e.com' && url('/a').getQuery() == {} && isURL('http://x')",
        "ip('10.0.0.1').family() == 4 && isIP('::1') && ip('::1').isLoopback() && ip.isCanonical('::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.1.1') && cidr('10.0.0.0/8').prefixLength() == 8 && string(cidr('10.1.0.0/8').masked()) == '10.0.0.0/8'",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && isSemver('v1.0', true) && semver('1.2.3').minor() == 2",
        "!format.dns1123Label().validate('ok').hasValue() && format.named('uuid').value().validate('x').hasValue()",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 3])",
        "int('7') == 7 && string(7) == '7' && double('1.5') == 1.5 && uint(3) == 3u && bool('true') && int(2.9) == 2",
        "string(self.D) == '5400s' && string(self.t) == '2024-01-02T03:04:05Z' && string(true) == 'true'",
        "[[1], [2]].all(l, l.all(x, x > 0)) && (self.i > 2 ? 'big' : 'small') == 'big'",
        "self.i / 2 == 1 && self.i % 2 == 1 && -self.i == -3 && self.i - 4 == -1",
        "[1, 2].exists(x, 1 / (x - 1) == 1) && (true || 1 / 0 == 1)",
        "dyn(1) == 1 && self == oldSelf && 'b' in self.ls",
        "self.keyed + [] == self.keyed && (self.l + [4]).size() == 4",
    ] {
        assert_eq!(eval(source), "Bool(true)", "{source}");
    }
}

#[test]
fn failures_have_the_messages_of_upstream() {
    for (source, expected) in [
        ("self.l[7] == 1", "index out of bounds: 7"),
        ("self.m['x'] == 1", "no such key: x"),
        (
            "self.metadata.generateName == ''",
            "no such key: generateName",
        ),
        ("1 / (self.i - 3) == 1", "division by zero"),
        ("1 % (self.i - 3) == 1", "modulus by zero"),
        ("self.i + 9223372036854775807 > 0", "integer overflow"),
        ("self.x > 1", "no such overload"),
        (
            "int(self.s) == 1",
            "type conversion error from 'string' to 'int'",
        ),
        (
            "dyn(self.l)['a'] == 1",
            "unsupported index type 'string' in list",
        ),
        ("dyn(self.s)[0] == 1", "no such key: 0"),
        (
            "optional.none().value() == 1", "optional.none() dereference",
        ),
        ("self.s.substring(9) == ''", "index out of range: 9"),
        (
            "self.s.matches(self.s + '(')",
            "error parsing regexp: missing closing ): `héllo(`",
        ),
        (
            "quantity(self.s).isInteger()",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ] {
        assert_eq!(eval(source), format!("error: {expected}"), "{source}");
    }
}

/// CEL-2: type errors are reported when the rule is compiled.
#[test]
fn type_errors_are_reported_at_compile_time() {
    for (source, column, expected) in [
        ("self.zz > 0", 5, "undefined field 'zz'"),
        ("has(self.zz)", 4, "undefined field 'zz'"),
        (
            "foo == 1",
            1,
            "undeclared reference to 'foo' (in container '')",
        ),
        (
            "foo(1)",
            4,
            "undeclared reference to 'foo' (in container '')",
        ),
        (
            "self.s.foo()",
            11,
            "undeclared reference to 'foo' (in container '')",
        ),
        (
            "self.i == 'a'",
            8,
            "found no matching overload for '_==_' applied to '(int, string)'",
        ),
        (
            "self.s.size() > 'a'",
            15,
            "found no matching overload for '_>_' applied to '(int, string)'",
        ),
        (
            "self.s.startsWith(1)",
            18,
            "found no matching overload for 'startsWith' applied to 'string.(int)'",
        ),
        (
            "size(self.i) == 1",
            5,
            "found no matching overload for 'size' applied to '(int)'",
        ),
        (
            "self.i.n == 1",
            7,
            "type 'int' does not support field selection",
        ),
        (
            "self.i.all(x, x)",
            5,
            "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        (
            "[1, 'a'].size() == 2",
            5,
            "expected type 'int' but found 'string'",
        ),
        (
            "self.l.all(x, x)",
            11,
            "found no matching overload for '_&&_' applied to '(bool, int)'",
        ),
        (
            "self.s && true",
            8,
            "found no matching overload for '_&&_' applied to '(string, bool)'",
        ),
        ("self.s.matches('(')", 16, "invalid matches argument"),
        ("self.D > duration('x')", 19, "invalid duration argument"),
        (
            "self.s == null",
            8,
            "found no matching overload for '_==_' applied to '(string, null)'",
        ),
    ] {
        let wrong = compile(source).unwrap_err();
        let expected = format!(
            "ERROR: <input>:1:{column}: {expected}\n | {source}\n | {}^",
            ".".repeat(column - 1)
        );
        assert_eq!(wrong, expected, "{source}");
    }
    let two = compile("self.q > 0 && self.r > 0").unwrap_err();
    assert_eq!(two.matches("undefined field").count(), 2);
}

/// CEL-1: a run ends at its cost limit, whatever the expression is.
#[test]
fn no_run_goes_beyond_its_limit() {
    let schema = Structural::compile(&json!({"type": "array", "items": {"type": "string"}}));
    let decl = Decl::of(&schema, false, "selfType").unwrap();
    let list = Json::from((0..3000).map(|i| format!("item{i}")).collect::<Vec<_>>());
    for source in [
        "self.all(x, self.all(y, x == y || x.contains(y) || true))",
        "self.all(x, self.all(y, 'x'.matches(x + y) || true))",
        "self.all(x, size(self + self) > 0 && size(self + self) > 0 && self == self)",
        "self.map(x, self.map(y, x + y)).size() > 0",
        "self.all(x, self.map(y, y + 'z') != self.map(y, y + 'w'))",
        "self.all(x, self.join(x).replace('i', self.join('-')).size() > 0)",
        "self.transformMap(i, v, self.transformMap(j, w, w)).size() > 0",
    ] {
        let program = Program::compile(source, &[("self", decl.kind.clone())]).unwrap();
        let this = Value::of(&list, Some(&decl)).unwrap();
        let (outcome, _) = program.run(&[("self", this)], CALL_LIMIT);
        assert!(
            matches!(outcome, Err(EvalFailure::Limit)),
            "{source}: {outcome:?}"
        );
    }
}

/// A type that grows with each call of `map` becomes `dyn`, so that it cannot fill the memory.
#[test]
fn types_do_not_grow_without_bound() {
    let steps = ".map(x, {x: x})".repeat(60);
    let _ = compile(&format!("[1]{steps}.size() > 0"));
    let steps = ".map(x, [x, x])".repeat(60);
    let _ = compile(&format!("[1]{steps}.size() > 0"));
}

#[test]
fn the_worst_cost_is_estimated_as_upstream_does() {
    let cost = |schema: Json, rule: &str| {
        let decl = Decl::of(&Structural::compile(&schema), false, "selfType").unwrap();
        let variables = [("self", decl.kind.clone())];
        let program = Program::compile(rule, &variables).unwrap();
        program.worst_cost(&Arc::new(decl))
    };
    let ints = json!({"type": "array", "items": {"type": "integer"}});
    assert_eq!(cost(ints, "self.all(x, true)"), 4_718_591);
    let texts =
        json!({"type": "array", "items": {"type": "string", "maxLength": 500_000}, "maxItems": 10});
    assert_eq!(cost(texts, "self.all(x, x.contains(\"a\"))"), 2_000_042);
}

mod recorded;

mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// SRV-3: neither a rule nor an object makes the server panic.
        #[test]
        fn no_expression_makes_the_evaluation_panic(source in "[-a-z0-9 '.,()+*/%<>=!&|?:{}\\[\\]]{0,40}", text in ".{0,20}", number in any::<i64>()) {
            let kind = decl().kind.clone();
            if let Ok(program) = Program::compile(&source, &[("self", kind), ("a", Type::Dyn), ("b", Type::Dyn)]) {
                let decl = decl();
                let object = object();
                let this = Value::of(&object, Some(&decl)).unwrap();
                let variables = [("self", this), ("a", Value::text(text.as_str())), ("b", Value::Int(number))];
                let _ = program.run(&variables, CALL_LIMIT);
            }
        }

        #[test]
        fn no_arguments_make_a_function_panic(name in proptest::sample::select(vec!["substring", "charAt", "indexOf", "lastIndexOf", "split", "replace", "format", "find", "findAll", "add", "sub", "containsIP", "semver", "url", "ip", "cidr", "quantity", "duration", "timestamp", "getHours", "int", "uint", "double"]), text in ".{0,20}", part in ".{0,6}", a in any::<i64>(), b in -5_i64..30, c in any::<f64>()) {
            let values = [Value::text(text.as_str()), Value::text(part.as_str()), Value::Int(a), Value::Int(b), Value::Double(c)];
            let patterns = Patterns::default();
            for is_method in [false, true] {
                let Some(function) = library::function(name, is_method) else {
                    continue;
                };
                for x in &values {
                    let mut run = Run::new(&patterns, CALL_LIMIT);
                    let _ = function.call(&mut run, std::slice::from_ref(x));
                    for y in &values {
                        let _ = function.call(&mut run, &[x.clone(), y.clone()]);
                        for z in &values {
                            let _ = function.call(&mut run, &[x.clone(), y.clone(), z.clone()]);
                        }
                    }
                }
            }
        }
    }
}
