//! Words: the CEL function `format`: reads the clauses of its pattern, such as `%d`, and prints values as text.

use steersman_apimachinery::go;

use super::Value;
use super::times;
use crate::types::Type;

/// A placeholder in the pattern of the CEL function `format`, such as `%d`. cel-go calls it a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clause {
    /// `%s`: any value, as text.
    Text,
    /// `%d`: an integer in decimal digits.
    Decimal,
    /// `%f`: a number with this many digits after the point.
    Fixed(usize),
    /// `%e`: a number such as `1.5×10⁰³`, with this many digits after the point.
    Scientific(usize),
    /// `%b`: an integer or boolean in binary digits.
    Binary,
    /// `%o`: an integer in octal digits.
    Octal,
    /// `%x`: an integer, text or bytes in hexadecimal digits; `upper` is for `%X`.
    Hex { upper: bool },
}

/// A part of a `format` pattern: text to copy, or a clause (placeholder) with the index of the argument that it prints.
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Clause(usize, Clause),
}

/// The number of decimals that `%f` and `%e` print by default.
const DECIMALS: usize = 6;

const MOST_DECIMALS: usize = 1000;

/// Reads a `format` pattern for `given` arguments, and calls `each` with its parts. Returns the number of arguments
/// used. `early` is true at compile time: then a `%` at the end of the pattern is reported before a missing argument.
pub(crate) fn read<'a>(
    pattern: &'a str,
    given: usize,
    early: bool,
    mut each: impl FnMut(Piece<'a>) -> Result<(), String>,
) -> Result<usize, String> {
    let mut used = 0;
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        each(Piece::Text(&rest[..at]))?;
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            each(Piece::Text("%"))?;
            rest = after;
            continue;
        }
        let missing = || Err(std::format!("index {used} out of range"));
        if !early && used >= given {
            return missing();
        }
        if rest.is_empty() {
            return Err("unexpected end of string".to_owned());
        }
        if used >= given {
            return missing();
        }
        let (clause, length) =
            clause(rest).map_err(|why| std::format!("could not parse formatting clause: {why}"))?;
        each(Piece::Clause(used, clause))
            .map_err(|why| std::format!("error during formatting: {why}"))?;
        rest = &rest[length..];
        used += 1;
    }
    each(Piece::Text(rest))?;
    Ok(used)
}

/// Reads the clause after a percent sign, such as `.2f`. Returns the clause and its length in bytes.
fn clause(text: &str) -> Result<(Clause, usize), String> {
    let mut at = 0;
    let mut precision = DECIMALS;
    if let Some(after) = text.strip_prefix('.') {
        let end = after.find(|c: char| !c.is_ascii_digit());
        let wrong = |why: &str| std::format!("error while parsing precision: {why}");
        let end = end.ok_or_else(|| wrong("could not find end of precision specifier"))?;
        let number = after[..end].parse::<usize>().ok();
        let number = number.filter(|most| *most <= MOST_DECIMALS);
        precision = number.ok_or_else(|| {
            wrong(&std::format!(
                "error while converting precision to integer: strconv.Atoi: parsing {}: invalid syntax",
                go::quote(&after[..end])
            ))
        })?;
        at = 1 + end;
    }
    let letter = text[at..].chars().next().unwrap_or_default();
    let clause = match letter {
        's' => Clause::Text,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision),
        'e' => Clause::Scientific(precision),
        'b' => Clause::Binary,
        'o' => Clause::Octal,
        'x' | 'X' => Clause::Hex {
            upper: letter == 'X',
        },
        other => {
            return Err(std::format!("unrecognized formatting clause \"{other}\""));
        }
    };
    Ok((clause, at + letter.len_utf8()))
}

impl Clause {
    pub(crate) fn accepts(self, kind: &Type) -> bool {
        if *kind == Type::Dyn {
            return true;
        }
        let number = matches!(kind, Type::Int | Type::Uint);
        match self {
            Self::Text => !matches!(
                kind,
                Type::Object(_) | Type::Opaque(_) | Type::Optional(_) | Type::Error
            ),
            Self::Decimal | Self::Octal => number,
            Self::Fixed(_) | Self::Scientific(_) => matches!(kind, Type::Double | Type::String),
            Self::Binary => number || *kind == Type::Bool,
            Self::Hex { .. } => number || matches!(kind, Type::String | Type::Bytes),
        }
    }

    /// Returns the error message for a value of the type `found`, which this clause cannot print.
    pub(crate) fn misfit(self, found: &str) -> String {
        let accepts = match self {
            Self::Text => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Octal => "octal clause can only be used on integers",
            Self::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
        };
        std::format!("{accepts}, was given {found}")
    }

    fn print(self, value: &Value<'_>) -> Result<String, String> {
        let double = match value {
            Value::Double(number) => Some(*number),
            Value::Text(text) => match &**text {
                "NaN" => Some(f64::NAN),
                "Infinity" => Some(f64::INFINITY),
                "-Infinity" => Some(f64::NEG_INFINITY),
                _ => None,
            },
            _ => None,
        };
        let whole = match value {
            Value::Int(number) if *number < 0 => Some(("-", number.unsigned_abs())),
            Value::Int(number) => Some(("", number.unsigned_abs())),
            Value::Uint(number) => Some(("", *number)),
            _ => None,
        };
        Ok(match (self, value) {
            (Self::Text, _) => print(value)?,
            (Self::Binary, Value::Bool(flag)) => u8::from(*flag).to_string(),
            (Self::Hex { upper: true }, _) => {
                let lower = Self::Hex { upper: false };
                lower.print(value)?.to_uppercase()
            }
            (Self::Hex { .. }, Value::Text(text)) => hex(text.as_bytes()),
            (Self::Hex { .. }, Value::Bytes(bytes)) => hex(bytes),
            _ => match (self, whole, double) {
                (Self::Decimal, Some(_), _) => print(value)?,
                (Self::Binary, Some((sign, number)), _) => std::format!("{sign}{number:b}"),
                (Self::Octal, Some((sign, number)), _) => std::format!("{sign}{number:o}"),
                (Self::Hex { .. }, Some((sign, number)), _) => std::format!("{sign}{number:x}"),
                (Self::Fixed(decimals), _, Some(number)) => fixed(number, decimals),
                (Self::Scientific(decimals), _, Some(number)) => scientific(number, decimals),
                _ => return Err(self.misfit(value.type_name())),
            },
        })
    }
}

/// Evaluates `pattern.format(arguments)`: replaces each clause in the pattern, such as `%d`, by its argument.
pub(crate) fn format(pattern: &str, arguments: &[Value<'_>]) -> Result<String, String> {
    let mut out = String::new();
    read(pattern, arguments.len(), false, |piece| {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Clause(index, clause) => out.push_str(&clause.print(&arguments[index])?),
        }
        Ok(())
    })?;
    Ok(out)
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| std::format!("{byte:02x}"));
    digits.collect()
}

/// Returns infinity or NaN as the clauses `%f` and `%e` print it (in the locale `en-US`); `None` for finite numbers.
fn without_digits(number: f64) -> Option<String> {
    if number.is_nan() {
        return Some("NaN".to_owned());
    }
    let sign = if number < 0.0 { "-" } else { "" };
    number.is_infinite().then(|| std::format!("{sign}∞"))
}

/// Returns a number as `%f` prints it: with this number of decimals, and with commas between groups of three digits.
fn fixed(number: f64, decimals: usize) -> String {
    if let Some(text) = without_digits(number) {
        return text;
    }
    let text = std::format!("{number:.decimals$}");
    let negated = text.strip_prefix('-').map(|digits| ("-", digits));
    let (sign, digits) = negated.unwrap_or(("", &*text));
    let whole = digits.find('.').unwrap_or(digits.len());
    let mut out = sign.to_owned();
    for (index, digit) in digits[..whole].chars().enumerate() {
        if index > 0 && (whole - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(&digits[whole..]);
    out
}

fn scientific(number: f64, decimals: usize) -> String {
    if let Some(text) = without_digits(number) {
        return text;
    }
    let text = std::format!("{number:.decimals$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(rest) => ("⁻", rest),
        None => ("", exponent),
    };
    let raised = |digit: char| {
        let digits = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
        let value = digit.to_digit(10).unwrap_or_default();
        digits[value as usize]
    };
    let exponent: String = std::format!("{exponent:0>2}").chars().map(raised).collect();
    std::format!("{digits}×10{sign}{exponent}")
}

/// Returns a value as the clause `%s` prints it.
pub(crate) fn print(value: &Value<'_>) -> Result<String, String> {
    Ok(match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => go::print_double(*number),
        Value::Text(text) => text.to_string(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Duration(nanos) => times::print_duration(*nanos),
        Value::Timestamp(time) => time.to_string(),
        Value::Type(name) => name.to_string(),
        list if list.is_list() => {
            let items = list.items()?;
            let printed: Result<Vec<String>, String> = items.iter().map(literal).collect();
            std::format!("[{}]", printed?.join(", "))
        }
        map if map.is_map() => {
            let mut printed = Vec::new();
            for key in map.keys() {
                if let Some(value) = map.member(&key) {
                    printed.push((literal(&key.value())?, literal(&value?)?));
                }
            }
            printed.sort();
            let entry = |(key, value): (String, String)| std::format!("{key}:{value}");
            let entries: Vec<String> = printed.into_iter().map(entry).collect();
            std::format!("{{{}}}", entries.join(", "))
        }
        other => return Err(Clause::Text.misfit(other.type_name())),
    })
}

/// Returns a value inside a list or map as `%s` prints it: strings and bytes are quoted.
fn literal(value: &Value<'_>) -> Result<String, String> {
    let unprintable = || std::format!("no formatting function for {}", value.type_name());
    Ok(match value {
        Value::Text(text) => go::quote(text),
        Value::Bytes(bytes) => std::format!("b{}", go::quote(&String::from_utf8_lossy(bytes))),
        Value::Double(number) if number.is_finite() => std::format!("{number:.DECIMALS$}"),
        Value::Double(number) => go::quote(&go::print_double(*number)),
        Value::Duration(_) => std::format!("duration({})", go::quote(&print(value)?)),
        Value::Timestamp(_) => std::format!("timestamp({})", go::quote(&print(value)?)),
        Value::Optional(_) | Value::Message(_) => return Err(unprintable()),
        value => print(value).map_err(|_| unprintable())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_filled_in() {
        let formatted = |pattern: &str, values: &[Value<'_>]| format(pattern, values);
        let text = |text: &str| Value::text(text);
        assert_eq!(
            formatted("%s is %d%%", &[text("a"), Value::Int(5)]),
            Ok("a is 5%".to_owned())
        );
        assert_eq!(
            formatted(
                "%.2f %x %X",
                &[Value::Double(1.005), Value::Int(255), text("az")]
            ),
            Ok("1.00 ff 617A".to_owned())
        );
        assert_eq!(
            formatted("%e", &[Value::Double(1234.5)]),
            Ok("1.234500×10⁰³".to_owned())
        );
        for (pattern, values) in [
            ("%d", vec![text("a")]),
            ("%q", vec![text("a")]),
            ("%s", vec![]),
            ("%", vec![]),
            ("%.9999999f", vec![Value::Double(1.0)]),
        ] {
            assert!(format(pattern, &values).is_err(), "{pattern}");
        }
        assert_eq!(go::print_double(1e6), "1e+06");
        assert_eq!(go::print_double(1.5), "1.5");
        assert_eq!(go::print_double(0.000_01), "1e-05");
    }
}
