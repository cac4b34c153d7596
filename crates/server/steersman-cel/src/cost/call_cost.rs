//! Machine: estimates the cost of a function call and the size of its result.

use super::{Coster, ResolvedCall, joined};
use crate::cost_range::{PER_CHARACTER, PER_PATTERN_CHARACTER, Range};
use crate::library::Cost;
use crate::syntax::ast::{ExprNode, NodeKind};
use crate::types::Type;
use crate::value::Value;

/// The length, in characters, that Kubernetes' estimates assume for the regular expression of any named format.
const LONGEST_FORMAT: f64 = 128.0;

/// The size, in characters, that Kubernetes' estimates assume for a named format, such as `dns1123Label`, in `==`.
const MOST_FORMAT: u64 = 64;

impl Coster<'_> {
    /// Returns the estimated cost of a call including its arguments, and the size of its result, if known.
    pub(super) fn function(&mut self, call: &ResolvedCall<'_>) -> (Range, Option<Range>) {
        let costs = call.costs;
        let given = costs.iter().copied().fold(Range::exactly(0), Range::plus);
        match call.overload {
            "logical_and" | "logical_or" if costs.len() == 2 => {
                let (min, max) = (costs[0].min, given.max);
                return (Range { min, max }, None);
            }
            "conditional" if costs.len() == 3 => return self.choice(call),
            "add_string" | "add_bytes" | "add_list" if call.args.len() == 2 => {
                return self.concatenation(call, given);
            }
            _ => {}
        }
        let (own, size) = match self.of_lists(call).or_else(|| self.of_texts(call)) {
            Some((own, size)) => (own, Some(size)),
            None => {
                let own = self.of_overload(call);
                (own.unwrap_or_else(|| self.of_row(call)), self.result(call))
            }
        };
        (own.plus(given), size)
    }

    fn of_row(&mut self, call: &ResolvedCall<'_>) -> Range {
        match call.function.cost {
            Cost::Sizes(rule) => rule(&mut |index| self.value(call, index)),
            Cost::PerCall | Cost::Values(_) | Cost::Own => Range::exactly(1),
        }
    }

    /// Returns the estimated cost of a call without its arguments if the overload has its own estimate. `None` means
    /// that the cost rule in the function's row of the library (`Function::cost`) is also the estimate.
    fn of_overload(&mut self, call: &ResolvedCall<'_>) -> Option<Range> {
        let one = Range::exactly(1);
        let name = call.function.name;
        Some(match call.overload {
            "starts_with_string" | "ends_with_string" => self.value(call, 1).scaled(PER_CHARACTER),
            "in_list" => self.value(call, 1),
            "equals" => match self.library_type(call.args) {
                Some(name) => self.library_equality(name, call.args),
                None => self.comparison(call.args),
            },
            "not_equals" => self.comparison(call.args),
            id if name.starts_with('_') && (id.ends_with("_string") || id.ends_with("_bytes")) => {
                self.comparison(call.args)
            }
            "format_validate" => {
                let pattern = LONGEST_FORMAT * PER_PATTERN_CHARACTER;
                self.value(call, 1).scaled(PER_CHARACTER).scaled(pattern)
            }
            _ => match name {
                "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                    self.traversal(call)?
                }
                "containsIP" | "containsCIDR" => {
                    let bytes = Range { min: 4, max: 16 };
                    let mut cost = bytes.plus(bytes).scaled(PER_CHARACTER);
                    if name == "containsCIDR" {
                        cost = cost.plus(bytes.scaled(PER_CHARACTER)).plus(one);
                    }
                    if call.overload.ends_with("_string") {
                        cost = cost.plus(self.value(call, 1).scaled(PER_CHARACTER));
                    }
                    cost
                }
                _ => return None,
            },
        })
    }

    fn traversal(&mut self, call: &ResolvedCall<'_>) -> Option<Range> {
        let target = call.target?;
        let size = self.size_or_unknown(target);
        let Type::List(items) = &self.checked.types[target.id] else {
            return Some(size.scaled(PER_CHARACTER));
        };
        let mut each = Range::exactly(1);
        if matches!(**items, Type::String | Type::Bytes) {
            each = each.plus(self.item_size(target).scaled(PER_CHARACTER));
        }
        Some(size.times(each))
    }

    /// Returns the estimated size of a string function's result, in characters or items; `None` if unknown.
    fn result(&mut self, call: &ResolvedCall<'_>) -> Option<Range> {
        let text = |coster: &mut Self| coster.value(call, 0);
        Some(match call.function.name {
            "url" | "jsonpatch.escapeKey" | "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                text(self)
            }
            "find" | "findAll" => Range::up_to(text(self).max),
            "replace" => {
                let (from, to) = (self.value(call, 1), self.value(call, 2));
                after_replace(text(self), from, to)
            }
            "split" => {
                // A negative limit means no limit: as an unsigned number, it is larger than every size.
                let max = match call.args.get(1).map(|limit| &limit.kind) {
                    Some(NodeKind::Literal(Value::Int(limit))) => limit.cast_unsigned(),
                    _ => text(self).max,
                };
                Range::up_to(max)
            }
            "strings.quote" => {
                let size = text(self);
                Range {
                    min: size.min + 2,
                    max: size.max.wrapping_mul(2).wrapping_add(2),
                }
            }
            _ => return None,
        })
    }

    /// Returns the estimated cost of comparing two values: the comparison reads at most the length of the shorter one.
    fn comparison(&mut self, args: &[ExprNode]) -> Range {
        let sizes = args.iter().map(|arg| self.size_or_unknown(arg).max);
        let max = sizes.min().unwrap_or_default();
        let min = max.min(1);
        Range { min, max }.scaled(PER_CHARACTER)
    }

    /// Returns the opaque type of both arguments, such as `kubernetes.URL`; `None` if they have no common opaque type.
    fn library_type(&self, args: &[ExprNode]) -> Option<&'static str> {
        let of = |arg: &ExprNode| match self.checked.types[arg.id] {
            Type::Opaque(name) => Some(name),
            _ => None,
        };
        match args {
            [left, right] => of(left).filter(|name| of(right) == Some(*name)),
            _ => None,
        }
    }

    /// Returns the estimated cost of `==` for two values of an opaque type, such as URLs. Kubernetes has these rules
    /// for `==`, but not for `!=`.
    fn library_equality(&self, name: &str, args: &[ExprNode]) -> Range {
        let up_to = |max: u64| Range { min: 1, max }.scaled(PER_CHARACTER);
        match name {
            "kubernetes.NamedFormat" => up_to(MOST_FORMAT),
            "kubernetes.URL" => {
                let size = args.last().and_then(|right| self.sizes[right.id]);
                up_to(size.map_or(1, |size| size.max))
            }
            _ => Range::exactly(1),
        }
    }

    /// Returns the estimated cost and the size of the result of a call that makes a list, such as `sort` (cel-go:
    /// `ext/lists.go`); `None` for other calls.
    fn of_lists(&mut self, call: &ResolvedCall<'_>) -> Option<(Range, Range)> {
        let on = call.target.map(|target| self.size_or_unknown(target));
        let whole = |index: usize, unknown: u64| match call.args.get(index).map(|arg| &arg.kind) {
            Some(NodeKind::Literal(Value::Int(number))) => {
                u64::try_from(*number).unwrap_or_default()
            }
            _ => unknown,
        };
        let squared = |size: Range| size.times(size);
        let (size, factor) = match call.overload {
            "list_slice" => {
                let length = whole(1, on?.max).wrapping_sub(whole(0, 0));
                (Range::exactly(length), 1.0)
            }
            "lists_range" => (Range::exactly(whole(0, u64::MAX)), 1.0),
            "list_reverse" | "list_flatten" => (on?, 1.0),
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            "list_flatten_int" => (on?, whole(0, u64::MAX) as f64),
            "list_distinct" => (squared(on?), 2.0),
            id if id.ends_with("_sort") => (squared(on?), sorting(id)),
            id if id.ends_with("_sortByAssociatedKeys") => {
                let keys = self.value(call, 1);
                (squared(keys), sorting(id))
            }
            _ => return None,
        };
        let cost = size.scaled(factor).plus(Range::exactly(11));
        Some((cost, size))
    }

    /// Returns the estimated cost and the size of the result of a call that joins or converts strings, or `None`.
    fn of_texts(&mut self, call: &ResolvedCall<'_>) -> Option<(Range, Range)> {
        let (read, result) = match call.overload {
            "list_join" | "list_join_string" => {
                let target = call.target?;
                let count = self.size_or_unknown(target);
                let mut size = count.times(self.item_size(target));
                if !call.args.is_empty() {
                    let between = Range {
                        min: count.min.saturating_sub(1),
                        max: count.max.saturating_sub(1),
                    };
                    size = size.plus(self.value(call, 1).times(between));
                }
                (size, size)
            }
            "string_to_bytes" => {
                let size = self.value(call, 0);
                let max = size.max.wrapping_mul(4);
                (size, Range { max, ..size })
            }
            "bytes_to_string" => {
                let size = self.value(call, 0);
                let min = size.min / 4;
                (size, Range { min, ..size })
            }
            _ => return None,
        };
        Some((read.scaled(PER_CHARACTER), result))
    }

    /// Returns the estimated size of an argument of a call; index 0 is the target of a method.
    fn value(&mut self, call: &ResolvedCall<'_>, index: usize) -> Range {
        let value = call.target.into_iter().chain(call.args).nth(index);
        value.map_or(Range::UNKNOWN, |value| self.size_or_unknown(value))
    }

    /// Returns the estimated cost and size of `a ? b : c`. The maximum cost is that of `a` and the dearer branch.
    fn choice(&mut self, call: &ResolvedCall<'_>) -> (Range, Option<Range>) {
        let (args, costs) = (call.args, call.costs);
        let size = self.value(call, 1).or(self.value(call, 2));
        let (yes, no) = (self.entry_sizes(&args[1]), self.entry_sizes(&args[2]));
        self.entries[call.node.id] = joined(yes, no);
        (costs[0].plus(costs[1].or(costs[2])), Some(size))
    }

    fn concatenation(&mut self, call: &ResolvedCall<'_>, given: Range) -> (Range, Option<Range>) {
        let size = self.value(call, 0).plus(self.value(call, 1));
        let left = self.entry_sizes(&call.args[0]);
        let right = self.entry_sizes(&call.args[1]);
        if let Some(entries) = joined(left, right) {
            self.entries[call.node.id] = Some(entries);
        }
        let own = if call.overload == "add_list" {
            Range::exactly(1)
        } else {
            size.scaled(PER_CHARACTER)
        };
        (own.plus(given), Some(size))
    }
}

/// Returns the estimated cost of one comparison in a sort; the name of the overload has the type of the sort keys.
fn sorting(overload: &str) -> f64 {
    let texts = ["list_string_", "list_bytes_"];
    if texts.iter().any(|texts| overload.starts_with(texts)) {
        2.0 + PER_CHARACTER
    } else {
        2.0
    }
}

/// Returns the size of a text after replacements of `from` by `to`. The minimum assumes no replacement if replacements
/// lengthen the text, and the maximum assumes none if replacements shorten the text.
fn after_replace(text: Range, from: Range, to: Range) -> Range {
    // Returns the number of replacements and the number of characters that stay. With `stays`, the bound assumes that
    // `from` never occurs. An empty `from` is replaced before each character and at the end.
    let bound = |size: u64, from: u64, stays: bool| match from {
        0 => (size.saturating_add(1), size),
        _ if stays => (0, size),
        from => (size.div_ceil(from), 0),
    };
    let (least, kept_least) = bound(text.min, from.max, from.max <= to.min);
    let (most, kept_most) = bound(text.max, from.min, to.max <= from.min);
    let count = Range {
        min: least,
        max: most,
    };
    count.times(to).plus(Range {
        min: kept_least,
        max: kept_most,
    })
}
