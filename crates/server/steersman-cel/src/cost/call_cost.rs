//! Machine: estimates the cost of one call and the size of its result.

use super::cost_range::{PER_CHARACTER, PER_PATTERN_CHARACTER, Range};
use super::{Call, Coster, joined};
use crate::syntax::ast::{Kind, Literal, Node};
use crate::types::Type;

/// The cost of one authorization check, which permits two checks per expression.
pub(crate) const ACCESS_CHECK: u64 = 350_000;

/// The length of the longest pattern among the named formats, in characters.
const LONGEST_FORMAT: f64 = 128.0;

/// The assumed size of a named format.
const MOST_FORMAT: u64 = 64;

impl Coster<'_> {
    /// Returns the cost of a call including its arguments, and the size of its result if it is
    /// known.
    pub(super) fn function(&mut self, call: &Call<'_>) -> (Range, Option<Range>) {
        let (args, costs) = (call.args, call.costs);
        let given = costs
            .iter()
            .fold(Range::exactly(0), |sum, one| sum.plus(*one));
        let arg = |coster: &mut Self, index: usize| coster.arg(call, index);
        let own = self.of_lists(call);
        let own = own.or_else(|| self.of_kubernetes(call));
        if let Some((own, size)) = own.or_else(|| self.of_texts(call)) {
            return (own.plus(given), size);
        }
        let (name, overload) = (call.name, call.overload);
        let on = call.target.map(|target| self.size_or_unknown(target));
        match (overload, on) {
            ("string_format", Some(on)) => (on.scaled(PER_CHARACTER).plus(given), None),
            ("starts_with_string" | "ends_with_string", _) => {
                (arg(self, 0).scaled(PER_CHARACTER).plus(given), None)
            }
            ("in_list", _) => (arg(self, 1).plus(given), None),
            ("matches_string", Some(on)) => {
                let pattern = arg(self, 0).scaled(PER_PATTERN_CHARACTER);
                let text = on.plus(Range::exactly(1)).scaled(PER_CHARACTER);
                (text.times(pattern).plus(given), None)
            }
            ("contains_string", Some(on)) => {
                let part = arg(self, 0).scaled(PER_CHARACTER);
                (on.scaled(PER_CHARACTER).times(part).plus(given), None)
            }
            ("logical_and" | "logical_or", _) if costs.len() == 2 => {
                let max = given.max;
                let min = costs[0].min;
                (Range { min, max }, None)
            }
            ("conditional", _) if costs.len() == 3 => self.choice(call),
            ("add_string" | "add_bytes" | "add_list", _) if args.len() == 2 => {
                self.concatenation(call, given)
            }
            ("equals", _) if self.library_type(args).is_some() => {
                let name = self.library_type(args).unwrap_or_default();
                (self.library_equality(name, args).plus(given), None)
            }
            ("equals" | "not_equals", _) => (self.comparison(args).plus(given), None),
            (id, _)
                if id.ends_with("_string") && name.starts_with('_')
                    || id.ends_with("_bytes") && name.starts_with('_') =>
            {
                (self.comparison(args).plus(given), None)
            }
            (
                "list_sets_contains_list"
                | "list_sets_intersects_list"
                | "list_sets_equivalent_list",
                _,
            ) => {
                let factor = if overload == "list_sets_equivalent_list" {
                    2.0
                } else {
                    1.0
                };
                let own = arg(self, 0).times(arg(self, 1)).scaled(factor);
                (own.plus(Range::exactly(1)).plus(given), None)
            }
            _ => (given.plus(Range::exactly(1)), None),
        }
    }

    /// Returns the cost of a comparison, which ends with the shorter of both values.
    fn comparison(&mut self, args: &[Node]) -> Range {
        let sizes = args.iter().map(|arg| self.size_or_unknown(arg).max);
        let max = sizes.min().unwrap_or_default();
        let min = max.min(1);
        Range { min, max }.scaled(PER_CHARACTER)
    }

    /// Returns the common opaque type of two values, or `None` if they have different types.
    fn library_type(&self, args: &[Node]) -> Option<&'static str> {
        let of = |arg: &Node| match self.checked.types[arg.id] {
            Type::Opaque(name) => Some(name),
            _ => None,
        };
        match args {
            [left, right] => of(left).filter(|name| of(right) == Some(*name)),
            _ => None,
        }
    }

    /// Returns the cost of `==` on values of an opaque type, which have no size. Upstream assumes the
    /// largest size for `==`, but not for `!=`.
    fn library_equality(&self, name: &str, args: &[Node]) -> Range {
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

    /// Returns the cost of a function that Kubernetes adds. Returns `None` for functions with the
    /// default cost.
    fn of_kubernetes(&mut self, call: &Call<'_>) -> Option<(Range, Option<Range>)> {
        let target = call.target;
        let on = target.map(|target| self.size_or_unknown(target));
        let arg = |coster: &mut Self, index: usize| coster.arg(call, index);
        let one = Range::exactly(1);
        Some(match call.name {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let (target, on) = (target?, on?);
                match &self.checked.types[target.id] {
                    Type::List(items) => {
                        let mut each = one;
                        if matches!(**items, Type::String | Type::Bytes) {
                            each = each.plus(self.item_size(target).scaled(PER_CHARACTER));
                        }
                        (on.times(each), None)
                    }
                    _ => (on.scaled(PER_CHARACTER), None),
                }
            }
            "check" => (Range::exactly(ACCESS_CHECK), None),
            "fieldSelector" | "labelSelector" => (selector(arg(self, 0)), None),
            "url" | "jsonpatch.escapeKey" => {
                let size = arg(self, 0);
                (size.scaled(PER_CHARACTER), Some(size))
            }
            "ip" if call.overload == "cidr_ip" => (one, None),
            "cidr" | "ip" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver"
            | "isSemver" => (arg(self, 0).scaled(PER_CHARACTER), None),
            "ip.isCanonical" => (arg(self, 0).scaled(2.0 * PER_CHARACTER), None),
            "validate" => {
                let pattern = LONGEST_FORMAT * PER_PATTERN_CHARACTER;
                (arg(self, 0).scaled(PER_CHARACTER).scaled(pattern), None)
            }
            "find" | "findAll" => {
                let text = on?.plus(one).scaled(PER_CHARACTER);
                let pattern = arg(self, 0).scaled(PER_PATTERN_CHARACTER);
                let size = Range { min: 0, ..on? };
                (text.times(pattern), Some(size))
            }
            "containsIP" | "containsCIDR" => {
                let bytes = Range { min: 4, max: 16 };
                let mut cost = bytes.plus(bytes).scaled(PER_CHARACTER);
                if call.name == "containsCIDR" {
                    cost = cost.plus(bytes.scaled(PER_CHARACTER)).plus(one);
                }
                if call.overload.ends_with("_string") {
                    cost = cost.plus(arg(self, 0).scaled(PER_CHARACTER));
                }
                (cost, None)
            }
            _ => return None,
        })
    }

    /// Returns the cost of a function that creates a list from a list. Returns `None` for other
    /// functions.
    ///
    /// Source: cel-go's `ext/lists.go`.
    fn of_lists(&mut self, call: &Call<'_>) -> Option<(Range, Option<Range>)> {
        let on = call.target.map(|target| self.size_or_unknown(target));
        let whole = |index: usize, unknown: u64| match call.args.get(index).map(|arg| &arg.kind) {
            Some(Kind::Literal(Literal::Int(number))) => u64::try_from(*number).unwrap_or_default(),
            _ => unknown,
        };
        let squared = |size: Range| size.times(size);
        let (size, factor) = match call.overload {
            "list_slice" => {
                let length = whole(1, on?.max).wrapping_sub(whole(0, 0));
                (Range::exactly(length), 1.0)
            }
            "lists_range" => (Range::exactly(whole(0, u64::MAX)), 1.0),
            "list_reverse" => (on?, 1.0),
            "list_flatten" => (on?, 1.0),
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            "list_flatten_int" => (on?, whole(0, u64::MAX) as f64),
            "list_distinct" => (squared(on?), 2.0),
            id if id.ends_with("_sort") => (squared(on?), sorting(id)),
            id if id.ends_with("_sortByAssociatedKeys") => {
                let keys = self.arg(call, 0);
                (squared(keys), sorting(id))
            }
            _ => return None,
        };
        let cost = size.scaled(factor).plus(Range::exactly(11));
        Some((cost, Some(size)))
    }

    /// Returns the cost of a function that creates strings from strings. Returns `None` for other
    /// functions.
    fn of_texts(&mut self, call: &Call<'_>) -> Option<(Range, Option<Range>)> {
        let on = call.target.map(|target| self.size_or_unknown(target));
        let arg = |coster: &mut Self, index: usize| coster.arg(call, index);
        let size = |coster: &mut Self| coster.arg(call, 0);
        Some(match call.name {
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                (on?.scaled(PER_CHARACTER), Some(on?))
            }
            "replace" => {
                let (from, to) = (arg(self, 0), arg(self, 1));
                (
                    on?.scaled(2.0 * PER_CHARACTER),
                    Some(after_replace(on?, from, to)),
                )
            }
            "split" => {
                // A negative limit is no limit.
                let max = match call.args.get(1).map(|limit| &limit.kind) {
                    Some(Kind::Literal(Literal::Int(limit))) => limit.cast_unsigned(),
                    _ => on?.max,
                };
                (on?.scaled(2.0 * PER_CHARACTER), Some(Range { min: 0, max }))
            }
            "join" => {
                let count = on?;
                let mut size = count.times(self.item_size(call.target?));
                if !call.args.is_empty() {
                    let between = Range {
                        min: count.min.saturating_sub(1),
                        max: count.max.saturating_sub(1),
                    };
                    size = size.plus(arg(self, 0).times(between));
                }
                (size.scaled(PER_CHARACTER), Some(size))
            }
            "bytes" if call.overload == "string_to_bytes" => {
                let size = size(self);
                let max = size.max.wrapping_mul(4);
                (size.scaled(PER_CHARACTER), Some(Range { max, ..size }))
            }
            "string" if call.overload == "bytes_to_string" => {
                let size = size(self);
                let min = size.min / 4;
                (size.scaled(PER_CHARACTER), Some(Range { min, ..size }))
            }
            "strings.quote" => {
                let size = size(self);
                let grown = Range {
                    min: size.min + 2,
                    max: size.max.wrapping_mul(2).wrapping_add(2),
                };
                (size.scaled(PER_CHARACTER), Some(grown))
            }
            _ => return None,
        })
    }

    fn arg(&mut self, call: &Call<'_>, index: usize) -> Range {
        let arg = call.args.get(index);
        arg.map_or(Range::UNKNOWN, |arg| self.size_or_unknown(arg))
    }

    /// Returns the cost of `a ? b : c`, which is that of the more expensive branch.
    fn choice(&mut self, call: &Call<'_>) -> (Range, Option<Range>) {
        let (args, costs) = (call.args, call.costs);
        let size = self.arg(call, 1).or(self.arg(call, 2));
        let (yes, no) = (self.entry_sizes(&args[1]), self.entry_sizes(&args[2]));
        self.entries[call.node.id] = joined(yes, no);
        (costs[0].plus(costs[1].or(costs[2])), Some(size))
    }

    fn concatenation(&mut self, call: &Call<'_>, given: Range) -> (Range, Option<Range>) {
        let size = self.arg(call, 0).plus(self.arg(call, 1));
        let (left, right) = (
            self.entry_sizes(&call.args[0]),
            self.entry_sizes(&call.args[1]),
        );
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

/// Returns the cost of one comparison of a sort, by the overload's name.
fn sorting(overload: &str) -> f64 {
    let texts = ["list_string_", "list_bytes_"];
    if texts.iter().any(|texts| overload.starts_with(texts)) {
        2.0 + PER_CHARACTER
    } else {
        2.0
    }
}

/// Returns the cost of parsing a selector of fields or labels: at least two characters per
/// requirement, and a list and a struct for each.
pub(crate) fn selector(length: Range) -> Range {
    let requirements = length.scaled(0.5).scaled(50.0);
    Range::exactly(10)
        .plus(length.scaled(PER_CHARACTER))
        .plus(requirements)
}

/// Returns the length of a string after replacements.
fn after_replace(text: Range, from: Range, to: Range) -> Range {
    let ceiling = |size: u64, by: u64| size.div_ceil(by.max(1));
    let (most, kept_most) = if from.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if to.max <= from.min {
        (0, text.max)
    } else {
        (ceiling(text.max, from.min), 0)
    };
    let (least, kept_least) = if from.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if from.max <= to.min {
        (0, text.min)
    } else {
        (ceiling(text.min, from.max), 0)
    };
    let count = Range {
        min: least,
        max: most,
    };
    count.times(to).plus(Range {
        min: kept_least,
        max: kept_most,
    })
}
