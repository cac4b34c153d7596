//! Handle: the figures of one table, each shown as soon as it is measured.

use crate::process::{BenchResult, print_result};
use crate::report::Figure;

type Show = Box<dyn FnMut(&Figure)>;

/// The figures of one table, in their order. A table takes minutes and may fail or be interrupted, so each figure is
/// shown on the terminal when it is added, before the next measurement starts.
pub(crate) struct Figures {
    show: Show,
    measured: Vec<Figure>,
}

impl Figures {
    pub(crate) fn shown() -> Self {
        Self::shown_by(|figure| print_result(figure))
    }

    fn shown_by(show: impl FnMut(&Figure) + 'static) -> Self {
        Self {
            show: Box::new(show),
            measured: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, figure: Figure) {
        (self.show)(&figure);
        self.measured.push(figure);
    }

    pub(crate) async fn measure(
        &mut self,
        part: impl Future<Output = BenchResult<Vec<Figure>>>,
    ) -> BenchResult<()> {
        for figure in part.await? {
            self.add(figure);
        }
        Ok(())
    }

    pub(crate) fn all(self) -> Vec<Figure> {
        self.measured
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::Figures;
    use crate::process::BenchResult;
    use crate::report::{Figure, Spread};

    fn figure(id: &str) -> Figure {
        Figure::new(id, "what", "s", Spread::one(1.0))
    }

    #[tokio::test]
    async fn a_figure_is_shown_before_the_next_measurement_starts() {
        let shown = Rc::new(RefCell::new(Vec::new()));
        let lines = Rc::clone(&shown);
        let show = move |figure: &Figure| lines.borrow_mut().push(figure.to_string());
        let mut figures = Figures::shown_by(show);
        let first = async { Ok(vec![figure("t/one"), figure("t/two")]) };
        figures.measure(first).await.unwrap();
        let second = async {
            let ids: Vec<String> = shown
                .borrow()
                .iter()
                .map(|line| line[..5].to_owned())
                .collect();
            assert_eq!(ids, ["t/one", "t/two"]);
            BenchResult::Err("the server is gone".into())
        };
        figures.measure(second).await.unwrap_err();
        assert_eq!(shown.borrow().len(), 2, "what was measured stays shown");
        figures.add(figure("t/three"));
        assert_eq!(shown.borrow().len(), 3);
        assert_eq!(figures.all().len(), 3);
    }
}
