//! Machine: the straight line through points, and how well it fits.

/// A number of objects, and what it took.
pub(crate) type Point = (f64, f64);

/// A line, by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fit {
    pub(crate) slope: f64,
    /// Where it begins, at zero.
    pub(crate) base: f64,
    /// The share of the differences that it explains, R²: 1 where all points are on it.
    pub(crate) explained: f64,
}

impl Fit {
    /// Through at least two points; of fewer nothing is a number.
    pub(crate) fn of(points: &[Point]) -> Self {
        let many = points.len() as f64;
        let mean = |of: fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / many;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let sum = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>();
        let across = sum(&|point| (point.0 - x).powi(2));
        let slope = sum(&|point| (point.0 - x) * (point.1 - y)) / across;
        let base = y - slope * x;
        let all = sum(&|point| (point.1 - y).powi(2));
        let off = sum(&|point| (point.1 - base - slope * point.0).powi(2));
        Self {
            slope,
            base,
            explained: 1.0 - off / all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Fit;

    #[test]
    fn a_line_explains_what_lies_on_it() {
        let fit = Fit::of(&[(0.0, 1.0), (1.0, 3.0), (10.0, 21.0)]);
        assert!(
            (fit.slope - 2.0).abs() < 1e-9 && (fit.base - 1.0).abs() < 1e-9,
            "{fit:?}"
        );
        assert!((fit.explained - 1.0).abs() < 1e-9, "{fit:?}");
    }

    #[test]
    fn a_line_explains_little_of_what_bends() {
        let bent = Fit::of(&[(1.0, 1.0), (2.0, 4.0), (10.0, 100.0), (20.0, 400.0)]);
        assert!(bent.explained < 0.96, "{bent:?}");
        assert!(Fit::of(&[(1.0, 1.0)]).slope.is_nan());
    }
}
