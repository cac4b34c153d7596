//! Machine: compares quantities, such as `500m` and `0.5`.

/// The number of billionths in 1; a billionth is the smallest unit of a quantity.
const BILLION: i128 = 1_000_000_000;

/// Returns the amount of a quantity of Kubernetes (`resource.Quantity` of apimachinery) in billionths. `None` if the
/// text is no quantity, or its amount is too large or not a whole number of billionths.
pub(crate) fn amount(text: &str) -> Option<i128> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    let places = u32::try_from(fraction.len()).ok()?;
    let billionths = digits.parse::<i128>().ok()?.checked_mul(unit(suffix)?)?;
    let divisor = 10_i128.checked_pow(places)?;
    let amount = (billionths % divisor == 0).then(|| billionths / divisor)?;
    let sign = if text.starts_with('-') { -1 } else { 1 };
    Some(sign * amount)
}

fn unit(suffix: &str) -> Option<i128> {
    let power = |base: i128, power: u32| base.pow(power).checked_mul(BILLION);
    match suffix {
        "n" => Some(1),
        "u" => Some(BILLION / 1_000_000),
        "m" => Some(BILLION / 1000),
        "" => Some(BILLION),
        "k" => power(1000, 1),
        "M" => power(1000, 2),
        "G" => power(1000, 3),
        "T" => power(1000, 4),
        "P" => power(1000, 5),
        "E" => power(1000, 6),
        "Ki" => power(1024, 1),
        "Mi" => power(1024, 2),
        "Gi" => power(1024, 3),
        "Ti" => power(1024, 4),
        "Pi" => power(1024, 5),
        "Ei" => power(1024, 6),
        exponent => {
            let exponent: u32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            10_i128.checked_pow(exponent)?.checked_mul(BILLION)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_of_one_amount_are_equal() {
        for [one, other] in [
            ["1000m", "1"],
            ["0.5", "500m"],
            ["1024Mi", "1Gi"],
            ["1e3", "1k"],
            ["+1.50", "1500m"],
            ["-1", "-1000m"],
            [".5", "500m"],
            ["0", "0Gi"],
        ] {
            assert!(amount(one).is_some(), "{one}");
            assert_eq!(amount(one), amount(other), "{one} {other}");
        }
        assert_ne!(amount("1"), amount("1m"));
        assert_ne!(amount("1M"), amount("1Mi"));
    }

    #[test]
    fn other_texts_have_no_amount() {
        for text in [
            "", "m", ".", "1.2.3", "1x", "1e", "1e99", "0.1n", "1 Gi", "--1", "\u{661}",
        ] {
            assert_eq!(amount(text), None, "{text}");
        }
        let digits = "9".repeat(60);
        assert_eq!(amount(&digits), None);
    }
}
