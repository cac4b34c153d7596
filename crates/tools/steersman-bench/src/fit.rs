//! Machine: fits a straight line to points.

/// A number of objects, and its cost.
pub(crate) type Point = (f64, f64);

/// A straight line by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fit {
    pub(crate) slope: f64,
    /// The value at zero objects.
    pub(crate) base: f64,
    /// The coefficient of determination R²: 1 if all points are on the line.
    pub(crate) explained: f64,
}

impl Fit {
    /// Fits a line to at least two points; with fewer, the figures are not numbers.
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

/// Returns the cost per object at the last point, as a multiple of that at the point of `from` objects.
pub(crate) fn of_each(points: &[Point], from: f64) -> Option<f64> {
    let first = points.iter().find(|point| point.0 >= from)?;
    let each = |(objects, cost): Point| cost / objects;
    times(each(*points.last()?), each(*first))
}

/// Returns the cost per additional object up to the last point, as a multiple of that from the
/// point of `from` objects on. The cost at zero objects cancels out.
pub(crate) fn of_one_more(points: &[Point], from: f64) -> Option<f64> {
    let mut steps = points.iter().zip(points.iter().skip(1));
    let last = steps.clone().next_back()?;
    let first = steps.find(|(point, _)| point.0 >= from)?;
    let more = |(few, many): (&Point, &Point)| (many.1 - few.1) / (many.0 - few.0);
    times(more(last), more(first))
}

/// Returns the ratio of two costs; `None` if the first is too small to measure.
fn times(last: f64, first: f64) -> Option<f64> {
    (first > 0.0).then_some(last / first)
}

#[cfg(test)]
mod tests {
    use super::{Fit, Point, of_each, of_one_more};

    #[test]
    fn a_slight_curve_shows_in_the_cost_at_its_end() {
        let points = |cost: &dyn Fn(f64) -> f64| -> Vec<Point> {
            let objects = [1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5];
            objects.map(|many| (many, cost(many))).to_vec()
        };
        let straight = points(&|many| 2.0 * many);
        let base = points(&|many| 9e4 + 2.0 * many);
        let near = |ratio: Option<f64>, wanted: f64| (ratio.unwrap() - wanted).abs() < 0.01;
        assert!(near(of_each(&straight, 1e4), 1.0) && near(of_one_more(&straight, 1e4), 1.0));
        assert!(near(of_one_more(&base, 1e4), 1.0));
        // A line fits well, but at its end an object costs almost twice as much.
        let bent = points(&|many| many.powf(1.2));
        assert!(Fit::of(&bent).explained > 0.99);
        assert!(near(of_each(&bent, 1e4), 1.82));
        assert!(of_one_more(&bent, 1e4).unwrap() > 1.3);
        // There is no point to compare with.
        assert_eq!(of_each(&straight, 1e6), None);
        assert_eq!(of_one_more(&straight, 2e5), None);
        assert_eq!(of_one_more(&[(1.0, 4.0), (2.0, 4.0)], 1.0), None);
    }

    #[test]
    fn a_line_fits_points_on_it() {
        let fit = Fit::of(&[(0.0, 1.0), (1.0, 3.0), (10.0, 21.0)]);
        assert!(
            (fit.slope - 2.0).abs() < 1e-9 && (fit.base - 1.0).abs() < 1e-9,
            "{fit:?}"
        );
        assert!((fit.explained - 1.0).abs() < 1e-9, "{fit:?}");
    }

    #[test]
    fn a_line_fits_a_curve_badly() {
        let bent = Fit::of(&[(1.0, 1.0), (2.0, 4.0), (10.0, 100.0), (20.0, 400.0)]);
        assert!(bent.explained < 0.96, "{bent:?}");
        assert!(Fit::of(&[(1.0, 1.0)]).slope.is_nan());
    }
}
