//! Words: `Quantity`, an amount such as `500m` or `1Gi`, parsed, compared and printed as in Go's `apimachinery`.

use std::fmt;

/// The message for a text that is no quantity.
const FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NUMERIC: &str = "unable to parse numeric part of quantity";
const SUFFIX: &str = "unable to parse quantity's suffix";

const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// The decimal suffixes of quantities: from 10^-9 in steps of a thousand.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// The number of nanos in 1. A nano, 10^-9, is the smallest unit of an amount.
const NANOS: i128 = 1_000_000_000;
/// The greatest amount, in nanos. A text with a greater amount is read as this amount.
const MOST: i128 = i64::MAX as i128 * NANOS;

/// The format of the text from which an amount was parsed, in which it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

/// An amount. Amounts compare as numbers, whatever their formats are.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.nanos.cmp(&other.nanos))
    }
}

impl Quantity {
    /// Parses a quantity.
    ///
    /// # Errors
    /// Fails with kube-apiserver's message if the text is no quantity.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (negative, rest) = match text.as_bytes().first() {
            None => return Err(FORMAT),
            Some(sign @ (b'-' | b'+')) => (*sign == b'-', &text[1..]),
            Some(_) => (false, text),
        };
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = rest.split_at(digits(rest));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let power = letters.strip_prefix(['-', '+']).unwrap_or(letters);
        if !power.bytes().all(|b| b.is_ascii_digit()) {
            return Err(FORMAT);
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(NUMERIC);
        }
        let (format, factor, exponent) = scale(suffix).ok_or(SUFFIX)?;
        let nanos = amount(whole, fraction, factor, exponent);
        let nanos = if negative { -nanos } else { nanos };
        Ok(Self { nanos, format })
    }

    /// Returns the amount as a multiple of one thousandth, rounded away from zero.
    #[must_use]
    pub fn in_thousandths(self) -> Self {
        let unit = NANOS / 1000;
        let rest = self.nanos % unit;
        let nanos = self.nanos - rest + rest.signum() * unit;
        Self { nanos, ..self }
    }

    /// Returns the sign: -1, 0 or 1.
    pub fn sign(self) -> i128 {
        self.nanos.signum()
    }

    /// Returns the sum of this amount and another, limited to the greatest amount.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let nanos = self.nanos.saturating_add(other.nanos).clamp(-MOST, MOST);
        // If this amount is zero, the sum has the format of the other amount.
        let format = if self.nanos == 0 {
            other.format
        } else {
            self.format
        };
        Self { nanos, format }
    }

    /// Returns the amount rounded up to an integer.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        let rest = self.nanos.rem_euclid(NANOS);
        let missing = if rest == 0 { 0 } else { NANOS - rest };
        let nanos = self.nanos.saturating_add(missing).min(MOST);
        Self { nanos, ..self }
    }

    /// Returns the amount with the opposite sign.
    #[must_use]
    pub fn negated(self) -> Self {
        let nanos = -self.nanos;
        Self { nanos, ..self }
    }

    /// Returns the amount that equals an integer.
    pub fn of(number: i64) -> Self {
        let format = Format::Decimal;
        let nanos = i128::from(number) * NANOS;
        Self { nanos, format }
    }

    /// Returns the amount as an integer; `None` if it has a fraction.
    pub fn whole(self) -> Option<i64> {
        let whole = i64::try_from(self.nanos / NANOS).ok();
        whole.filter(|_| self.is_whole())
    }

    /// Returns the float nearest to the amount.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "the function returns an approximation"
    )]
    pub fn approximate(self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }

    /// Returns whether the amount has no fraction.
    pub fn is_whole(self) -> bool {
        self.nanos % NANOS == 0
    }

    /// Returns whether the amount is a multiple of `unit`, which is an integer above zero.
    pub fn is_multiple_of(self, unit: Self) -> bool {
        unit.nanos > 0 && self.nanos % unit.nanos == 0
    }
}

/// Returns the format of a suffix, with its factor and its power of ten; `None` for an unknown suffix.
fn scale(suffix: &str) -> Option<(Format, i128, i32)> {
    if let Some(at) = BINARY.iter().position(|one| *one == suffix) {
        let shift = 10 * (u32::try_from(at).ok()? + 1);
        return Some((Format::Binary, 1 << shift, 0));
    }
    if let Some(at) = DECIMAL.iter().position(|one| *one == suffix) {
        let power = 3 * i32::try_from(at).ok()? - 9;
        return Some((Format::Decimal, 1, power));
    }
    let power = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Format::Exponent, 1, power))
}

/// Returns a decimal number with a factor and an exponent in nanos, rounded up, at most the greatest amount.
fn amount(whole: &str, fraction: &str, factor: i128, exponent: i32) -> i128 {
    let all: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    let all: Vec<u8> = all.into_iter().skip_while(|b| *b == b'0').collect();
    if all.is_empty() {
        return 0;
    }
    // The power of ten, in nanos, of the last digit.
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let power = exponent.saturating_add(9).saturating_sub(places);
    let length = i32::try_from(all.len()).unwrap_or(i32::MAX);
    if length.saturating_add(power) > 30 {
        return MOST;
    }
    // Digits below this precision affect only the rounding.
    let kept = usize::try_from(length.saturating_add(power.min(0)).clamp(0, length));
    let (kept, rest) = all.split_at(kept.unwrap_or_default());
    let digit = |sum: i128, b: &u8| sum.saturating_mul(10).saturating_add(i128::from(b - b'0'));
    let mut nanos = kept.iter().fold(0, digit);
    for _ in 0..power.clamp(0, 30) {
        nanos = nanos.saturating_mul(10);
    }
    let mut nanos = nanos.saturating_mul(factor);
    if factor > 1 {
        // The digits that are cut off count after they are multiplied by the factor.
        let lost = rest.iter().take(18).fold(0, digit).saturating_mul(factor);
        let places = u32::try_from(rest.len().min(18)).unwrap_or_default();
        let unit = 10_i128.pow(places);
        nanos = nanos.saturating_add((lost + unit - 1) / unit);
    } else if rest.iter().any(|b| *b != b'0') {
        nanos = nanos.saturating_add(1);
    }
    nanos.min(MOST)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos / NANOS;
        if self.format == Format::Binary && self.is_whole() && whole.abs() >= 1024 {
            let (mut number, mut steps) = (whole, 0);
            while number % 1024 == 0 && steps < BINARY.len() {
                number /= 1024;
                steps += 1;
            }
            let suffix = steps.checked_sub(1).map_or("", |at| BINARY[at]);
            return write!(f, "{number}{suffix}");
        }
        let (mut number, mut steps) = (self.nanos, 0);
        while number % 1000 == 0 && steps < DECIMAL.len() - 1 {
            number /= 1000;
            steps += 1;
        }
        match (self.format, steps) {
            (Format::Exponent, 3) => write!(f, "{number}"),
            (Format::Exponent, _) => {
                let power = 3 * i32::try_from(steps).unwrap_or_default() - 9;
                write!(f, "{number}e{power}")
            }
            _ => write!(f, "{number}{}", DECIMAL[steps]),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_are_written_in_their_shortest_form() {
        for (text, shown) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1500", "1500"),
            ("2000", "2k"),
            ("100000", "100k"),
            ("0", "0"),
            ("-0", "0"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("512", "512"),
            ("0.5Ki", "512"),
            ("-1", "-1"),
            ("+5", "5"),
            (".5", "500m"),
            ("1.", "1"),
            ("1n", "1n"),
            ("0.0000000001", "1n"),
            ("100Ei", "9223372036854775807"),
            ("1e100", "9223372036854775807"),
        ] {
            assert_eq!(Quantity::parse(text).unwrap().to_string(), shown, "{text}");
        }
    }

    #[test]
    fn invalid_quantities_are_refused_and_valid_ones_compare_as_numbers() {
        for (text, why) in [
            ("", FORMAT),
            ("one", FORMAT),
            ("1 Gi", FORMAT),
            ("true", FORMAT),
            ("Ki", NUMERIC),
            ("1Kii", SUFFIX),
            ("1mm", SUFFIX),
        ] {
            assert_eq!(Quantity::parse(text).unwrap_err(), why, "{text}");
        }
        let read = |text| Quantity::parse(text).unwrap();
        assert!(read("1") > read("999m") && read("1Gi") > read("1G") && read("-1").sign() < 0);
        assert_eq!(read("100u").in_thousandths().to_string(), "1m");
        assert!(
            read("4Mi").is_multiple_of(read("2Mi")) && !read("3Mi").is_multiple_of(read("2Mi"))
        );
    }

    proptest! {
        #[test]
        fn a_written_quantity_parses_back(text in "[+-]?[0-9]{0,30}\\.?[0-9]{0,30}(e[0-9]{1,12}|[numkMGTPE]|[KMGTPE]i)?") {
            if let Ok(read) = Quantity::parse(&text) {
                let again = Quantity::parse(&read.to_string()).unwrap();
                prop_assert_eq!(read, again);
                prop_assert_eq!(read.to_string(), again.to_string());
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = Quantity::parse(&text);
        }
    }
}
