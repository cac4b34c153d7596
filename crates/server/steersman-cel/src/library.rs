//! Machine: the table of all functions and operators of expressions.
//!
//! The type checker, the cost estimate and the evaluation use the rows of the table.
//! Sources: cel-go's standard library and its extensions for strings, lists, sets, optional values
//! and two-variable comprehensions; `apiserver/pkg/cel/library`.

/// Makes the implementation of a function from a pattern of its argument values and an expression, which may also use
/// the run: `accepts!(|run, [a, b]| equals(run, a, b))`. If the values do not match the pattern, the call fails,
/// because no overload accepts them.
macro_rules! accepts {
    (|[$($value:pat),+]| $outcome:expr) => {
        accepts!(|_run, [$($value),+]| $outcome)
    };
    (|$run:ident, [$($value:pat),+]| $outcome:expr) => {
        |$run, values| match values {
            [$($value),+] => Some($outcome),
            _ => None,
        }
    };
}

pub(crate) mod signatures;
pub(crate) mod equality;
pub(crate) mod operators;
mod conversions;
mod string_functions;
mod list_functions;
mod optional_functions;
mod time_functions;
mod address_functions;
mod quantity_functions;
mod format_functions;
mod authorizer_functions;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::cost_range::{PER_CHARACTER, Range};
use crate::run::{EvalFailure, EvalOutcome, Run};
use crate::value::Value;
use signatures::{Overload, overloads};

/// A row of the table: the name of a function, its overloads in the notation of [`overloads`], its cost, and its
/// implementation. A function that is also a method has two rows. rustfmt skips the table, so that rows stay short.
type Row = (&'static str, &'static str, Cost, Implementation);

/// Evaluates a call; the target of a method is the first value. Returns `None` if no overload accepts the values.
type Implementation = for<'a> fn(&mut Run<'_>, &[Value<'a>]) -> Option<EvalOutcome<'a>>;

/// Computes a cost from the sizes of the values: index 0 is the target of a method or the first argument of a function.
type SizeRule = fn(&mut dyn FnMut(usize) -> Range) -> Range;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Cost {
    /// Each call costs 1, whatever its arguments.
    PerCall,
    /// The rule computes the cost of a call from the sizes of its values, and its estimate from the estimated sizes.
    Sizes(SizeRule),
    /// The function computes the cost of a call from its values; `cost::call_cost` has the estimate for each overload.
    Values(fn(&[Value<'_>]) -> u64),
    /// The implementation itself charges the cost. The estimate for each overload is in `cost::call_cost`.
    Own,
}

/// The cost of a call that reads its first value once, character by character.
const CHARACTERS: Cost = Cost::Sizes(|size| size(0).scaled(PER_CHARACTER));
/// The cost of a call that reads its first value twice, character by character.
const CHARACTERS_TWICE: Cost = Cost::Sizes(|size| size(0).scaled(2.0 * PER_CHARACTER));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// An ordinary function: `eval` evaluates all arguments and then calls the implementation.
    Values,
    Add,
    And,
    Conditional,
    In,
    Index,
    MapInsert,
    NotStrictlyFalse,
    OptionalField,
    OptionalIndex,
    OptionalOr,
    OptionalOrValue,
    Or,
}

const FORMS: &[(&str, Form)] = &[
    ("_+_", Form::Add),
    ("_&&_", Form::And),
    ("_?_:_", Form::Conditional),
    ("@in", Form::In),
    ("_[_]", Form::Index),
    ("cel.@mapInsert", Form::MapInsert),
    ("@not_strictly_false", Form::NotStrictlyFalse),
    ("_?._", Form::OptionalField),
    ("_[?_]", Form::OptionalIndex),
    ("or", Form::OptionalOr),
    ("orValue", Form::OptionalOrValue),
    ("_||_", Form::Or),
];

#[derive(Debug)]
pub(crate) struct Function {
    pub name: &'static str,
    is_method: bool,
    pub overloads: Vec<Overload>,
    pub cost: Cost,
    pub form: Form,
    implementation: Implementation,
}

fn rows() -> impl Iterator<Item = &'static Row> {
    let tables = [
        operators::FUNCTIONS,
        conversions::FUNCTIONS,
        string_functions::FUNCTIONS,
        list_functions::FUNCTIONS,
        optional_functions::FUNCTIONS,
        time_functions::FUNCTIONS,
        address_functions::FUNCTIONS,
        quantity_functions::FUNCTIONS,
        format_functions::FUNCTIONS,
        authorizer_functions::FUNCTIONS,
    ];
    tables.into_iter().flatten()
}

/// The functions by name. A name with a function and a method has two entries.
static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Function>>> = LazyLock::new(|| {
    let mut functions: HashMap<_, Vec<Function>> = HashMap::new();
    for &(name, signatures, cost, implementation) in rows() {
        let special = FORMS.iter().find(|(special, _)| *special == name);
        functions.entry(name).or_default().push(Function {
            name,
            is_method: signatures.contains('.'),
            overloads: overloads(signatures),
            cost,
            form: special.map_or(Form::Values, |(_, form)| *form),
            implementation,
        });
    }
    functions
});

pub(crate) fn function(name: &str, is_method: bool) -> Option<&'static Function> {
    let mut known = FUNCTIONS.get(name)?.iter();
    known.find(|function| function.is_method == is_method)
}

/// Returns the names of all functions and operators.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    rows().map(|(name, ..)| *name)
}

impl Function {
    /// Charges the cost of a call and evaluates it. `values` starts with the target of a method.
    pub(crate) fn call<'a>(&self, run: &mut Run<'_>, values: &[Value<'a>]) -> EvalOutcome<'a> {
        let size = |index: usize| Range::exactly(values.get(index).map_or(0, Value::size));
        run.charge(match self.cost {
            Cost::PerCall => 1,
            Cost::Sizes(rule) => rule(&mut { size }).max,
            Cost::Values(rule) => rule(values),
            Cost::Own => 0,
        })?;
        let outcome = (self.implementation)(run, values);
        outcome.unwrap_or_else(|| Err(EvalFailure::missing(self.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Type;

    #[test]
    fn the_table_of_overloads_is_parsed_completely() {
        let printed = |name: &str, is_method: bool, id: &str| {
            let overloads = &function(name, is_method).unwrap().overloads;
            let found = overloads.iter().find(|one| one.id == id).unwrap();
            let args: Vec<String> = found.args.iter().map(Type::to_string).collect();
            format!("({}) {}", args.join(", "), found.result)
        };
        assert_eq!(
            printed("@in", false, "in_map"),
            "(_var0, map(_var0, _var1)) bool"
        );
        assert_eq!(printed("size", true, "string_size"), "(string) int");
        assert_eq!(
            printed("join", true, "list_join_string"),
            "(list(string), string) string"
        );
        assert_eq!(
            printed("optional.none", false, "optional_none"),
            "() optional_type(_var0)"
        );
        assert_eq!(
            printed("getQuery", true, "url_get_query"),
            "(kubernetes.URL) map(string, list(string))"
        );
        for (name, signatures, ..) in rows() {
            let is_complete = signatures.is_empty() || signatures.split(' ').count() % 2 == 0;
            assert!(is_complete, "{name}");
        }
    }

    #[test]
    fn the_guide_lists_every_function_with_its_version() {
        let page = include_str!("../guide/expressions.md");
        for name in names() {
            let is_operator = name.starts_with(['_', '@', '!', '-']) || name.starts_with("cel.@");
            let listed = [format!("`{name}`"), format!("`.{name}`")];
            let found = listed.iter().any(|name| page.contains(name));
            assert!(is_operator || found, "{name}");
        }
    }
}
