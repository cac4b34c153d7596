//! Words: formats values as text: with a `%` pattern, and numbers as Go does.

use steersman_text::go;

use super::times;
use super::{Key, Value};

/// Evaluates `pattern.format(arguments)`.
///
/// # Errors
/// Fails for an invalid clause, and for an argument that does not fit its clause.
pub(crate) fn format(pattern: &str, arguments: &[Value<'_>]) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = pattern.chars().peekable();
    let mut arguments = arguments.iter().enumerate();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut precision = None;
        if rest.peek() == Some(&'.') {
            rest.next();
            let mut digits = String::new();
            while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            let digits_read = digits
                .parse::<usize>()
                .ok()
                .filter(|digits_read| *digits_read <= 1000);
            precision = Some(digits_read.ok_or("could not parse formatting clause: error while parsing precision: invalid precision")?);
        }
        let clause = rest
            .next()
            .ok_or("could not parse formatting clause: unexpected end of format string")?;
        if clause == '%' {
            out.push('%');
            continue;
        }
        let (index, argument) = arguments.next().ok_or_else(|| {
            let given = pattern.matches('%').count();
            format!("index {} out of range", given.saturating_sub(1))
        })?;
        let _ = index;
        out.push_str(&clause_of(clause, precision, argument)?);
    }
    Ok(out)
}

fn clause_of(clause: char, precision: Option<usize>, value: &Value<'_>) -> Result<String, String> {
    let misfit = |wanted: &str| {
        Err(format!(
            "error during formatting: {wanted} clause can only be used on {}, was given {}",
            match wanted {
                "decimal" => "integers",
                "fixed-point" | "scientific" => "doubles",
                "binary" => "integers and bools",
                "hex" => "integers, byte buffers, and strings",
                _ => "integers",
            },
            value.type_name()
        ))
    };
    Ok(match (clause, value) {
        ('s', value) => print(value),
        ('d', Value::Int(_) | Value::Uint(_) | Value::Double(_)) => print(value),
        ('d', _) => return misfit("decimal"),
        ('f', Value::Double(number)) => std::format!("{number:.*}", precision.unwrap_or(6)),
        ('f', Value::Int(number)) => {
            std::format!("{number}.{}", "0".repeat(precision.unwrap_or(6)))
        }
        ('f', _) => return misfit("fixed-point"),
        ('e', Value::Double(number)) => exponential(*number, precision.unwrap_or(6)),
        ('e', _) => return misfit("scientific"),
        ('b', Value::Int(number)) => signed(*number, |number| std::format!("{number:b}")),
        ('b', Value::Uint(number)) => std::format!("{number:b}"),
        ('b', Value::Bool(flag)) => u8::from(*flag).to_string(),
        ('b', _) => return misfit("binary"),
        ('o', Value::Int(number)) => signed(*number, |number| std::format!("{number:o}")),
        ('o', Value::Uint(number)) => std::format!("{number:o}"),
        ('o', _) => return misfit("octal"),
        ('x', Value::Int(number)) => signed(*number, |number| std::format!("{number:x}")),
        ('x', Value::Uint(number)) => std::format!("{number:x}"),
        ('x', Value::Text(text)) => hex(text.as_bytes()),
        ('x', Value::Bytes(bytes)) => hex(bytes),
        ('X', value @ (Value::Int(_) | Value::Uint(_) | Value::Text(_) | Value::Bytes(_))) => {
            clause_of('x', precision, value)?.to_uppercase()
        }
        ('x' | 'X', _) => return misfit("hex"),
        (clause, _) => {
            return Err(std::format!(
                "could not parse formatting clause: unrecognized formatting clause {}",
                go::quote(&clause.to_string())
            ));
        }
    })
}

fn signed(number: i64, print: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    std::format!("{sign}{}", print(number.unsigned_abs()))
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| std::format!("{byte:02x}"))
        .collect()
}

fn exponential(number: f64, precision: usize) -> String {
    let text = std::format!("{number:.precision$e}");
    let Some((digits, exponent)) = text.split_once('e') else {
        return text;
    };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(rest) => ('-', rest),
        None => ('+', exponent),
    };
    std::format!("{digits}e{sign}{exponent:0>2}")
}

/// Returns a value in the form of `%s`.
pub(crate) fn print(value: &Value<'_>) -> String {
    match value {
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
            let items = list.items().unwrap_or_default();
            let printed: Vec<String> = items.iter().map(print).collect();
            std::format!("[{}]", printed.join(", "))
        }
        map if map.is_map() => {
            let mut printed: Vec<String> = map
                .keys()
                .iter()
                .filter_map(|key| {
                    let value = map.member(key)?.ok()?;
                    Some(std::format!("{}: {}", print_key(key), print(&value)))
                })
                .collect();
            printed.sort();
            std::format!("{{{}}}", printed.join(", "))
        }
        other => other.type_name().to_owned(),
    }
}

fn print_key(key: &Key) -> String {
    match key {
        Key::Bool(flag) => flag.to_string(),
        Key::Int(number) => number.to_string(),
        Key::Uint(number) => number.to_string(),
        Key::Text(text) => text.to_string(),
    }
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
            Ok("1.234500e+03".to_owned())
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
