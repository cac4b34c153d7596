//! Draws figures over numbers of objects, or over seconds, as SVG.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    BLACK, Cartesian2d, ChartBuilder, ChartContext, Circle, DrawingArea, IntoDrawingArea as _,
    IntoLogRange as _, LineSeries, PathElement, RGBColor, SVGBackend, SeriesLabelPosition, WHITE,
};
use plotters::style::Color as _;

use super::figure::{Figure, grouped, series};

/// Width and height in pixels; a viewer may scale the plot.
const SIZE: (u32, u32) = (760, 420);

/// Colours for readers with colour blindness (Okabe and Ito), and shades of grey.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(0, 0, 0),
    RGBColor(240, 228, 66),
    RGBColor(110, 110, 110),
    RGBColor(180, 180, 180),
];

pub(crate) struct Plot {
    pub(crate) file: &'static str,
    pub(crate) title: &'static str,
    /// The prefix of the ids of its figures.
    figures: &'static str,
    logarithmic: bool,
}

const PLOTS: [Plot; 4] = [
    Plot {
        file: "scaling-seconds.svg",
        title: "Cold start to synced, in seconds",
        figures: "scaling/seconds",
        logarithmic: false,
    },
    Plot {
        file: "scaling-resident.svg",
        title: "Resident memory after each object was read once, in MB",
        figures: "scaling/resident",
        logarithmic: false,
    },
    Plot {
        file: "steady-churn.svg",
        title: "Resident memory while all objects are replaced, in MB",
        figures: "steady/churn/resident",
        logarithmic: false,
    },
    Plot {
        file: "options-resident.svg",
        title: "Resident memory by option, in MB",
        figures: "options/resident/",
        logarithmic: true,
    },
];

struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Returns the plots of a table, which is the first part of the ids of its figures.
pub(crate) fn plots(table: &str) -> Vec<Plot> {
    let is_of_table = |plot: &Plot| plot.figures.split('/').next() == Some(table);
    PLOTS.into_iter().filter(is_of_table).collect()
}

impl Plot {
    /// Draws the plot as SVG. Returns `None` if there are no figures for it.
    pub(crate) fn draw(&self, figures: &[Figure]) -> Result<Option<String>, String> {
        let lines = self.lines(figures);
        let points = || lines.iter().flat_map(|line| &line.points);
        let wide = points().map(|point| point.0).fold(0.0, f64::max);
        let high = points().map(|point| point.1).fold(0.0, f64::max);
        // A plot needs two points, and one above zero.
        if points().count() < 2 || wide <= 0.0 || high <= 0.0 {
            return Ok(None);
        }
        let least = |low: f64, figure: f64| low.min(figure);
        let narrow = points().map(|point| point.0).fold(wide, least);
        let low = points().map(|point| point.1).fold(high, least);
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        let (across, up) = if self.logarithmic {
            let low = if low > 0.0 { low } else { high / 1e6 };
            (narrow..wide * 1.1, low * 0.8..high * 1.3)
        } else {
            (0.0..wide * 1.02, 0.0..high * 1.05)
        };
        let drawn = self.chart(&area, (across, up), &lines);
        drop(area);
        drawn.map_err(|problem| format!("{}: {problem}", self.file))?;
        Ok(Some(text.trim_end().to_owned() + "\n"))
    }

    fn lines(&self, figures: &[Figure]) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        let mut add = |name: String, objects: u64, figure: f64| {
            if !figure.is_finite() {
                return;
            }
            let point = (objects as f64, figure);
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(Line {
                    name,
                    points: vec![point],
                }),
            }
        };
        for figure in figures {
            let Some(objects) = figure.at.filter(|_| figure.id.starts_with(self.figures)) else {
                continue;
            };
            // Lines are named after the option, or after the peer. The title states the measurement.
            let own = if figure.peers.is_empty() && self.logarithmic {
                let option = figure.what.strip_prefix("resident memory, ");
                option.unwrap_or(&figure.what).to_owned()
            } else {
                "Steersman".to_owned()
            };
            add(own, objects, figure.own.median);
            for peer in &figure.peers {
                add(peer.name.clone(), objects, peer.figure.median);
            }
        }
        lines
    }

    fn chart(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        (across, up): (Range<f64>, Range<f64>),
        lines: &[Line],
    ) -> Result<(), String> {
        area.fill(&WHITE).map_err(text)?;
        let axis = series(self.figures);
        let mut builder = ChartBuilder::on(area);
        builder
            .caption(self.title, ("sans-serif", 18))
            .margin(14)
            .x_label_area_size(36)
            .y_label_area_size(64);
        if self.logarithmic {
            let chart = builder.build_cartesian_2d(across.log_scale(), up.log_scale());
            return fill(&mut chart.map_err(text)?, axis, lines);
        }
        let chart = builder.build_cartesian_2d(across, up);
        let mut chart: ChartContext<'_, _, Cartesian2d<RangedCoordf64, RangedCoordf64>> =
            chart.map_err(text)?;
        fill(&mut chart, axis, lines)
    }
}

fn fill<'a, X, Y>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    axis: &str,
    lines: &[Line],
) -> Result<(), String>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let whole = |figure: &f64| grouped(figure.round() as u64);
    let short = |figure: &f64| match *figure {
        large if large >= 100.0 => grouped(large.round() as u64),
        small => format!("{}", (small * 100.0).round() / 100.0),
    };
    chart
        .configure_mesh()
        .x_desc(axis)
        .x_label_formatter(&whole)
        .y_label_formatter(&short)
        .label_style(("sans-serif", 13))
        .light_line_style(BLACK.mix(0.04))
        .draw()
        .map_err(text)?;
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let style = colour.stroke_width(2);
        let points = line.points.iter().copied();
        chart
            .draw_series(LineSeries::new(points.clone(), style))
            .map_err(text)?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], style));
        let dots = points.map(|point| Circle::new(point, 3, colour.filled()));
        chart.draw_series(dots).map_err(text)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(("sans-serif", 13))
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .draw()
        .map_err(text)
}

fn text(problem: impl std::fmt::Display) -> String {
    problem.to_string()
}
