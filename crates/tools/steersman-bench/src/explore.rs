//! Driver: measures explorations: worlds in this process, and worlds of the program with an operator as a process.

mod program;
mod worlds;

use std::path::Path;

use crate::figures::Figures;
use crate::process::BenchResult;
use crate::report::Figure;

/// Measures all; without the path of the program `steersman-apiserver`, the worlds in this process alone.
pub(crate) async fn measure(is_quick: bool, program: Option<&Path>) -> BenchResult<Vec<Figure>> {
    let mut figures = Figures::shown();
    figures.measure(worlds::website(is_quick)).await?;
    figures.measure(worlds::idle(is_quick)).await?;
    if let Some(program) = program {
        figures
            .measure(program::one_at_a_time(program, is_quick))
            .await?;
        figures.measure(program::many(program, is_quick)).await?;
    }
    Ok(figures.all())
}
