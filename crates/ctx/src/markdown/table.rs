//! Tables, fitted to the width: the widest columns are narrowed, and their cells are wrapped.

use pulldown_cmark::Alignment;

use super::wrap::{line_width, wrap_words};
use super::{FAINT, Line, Span};

/// Columns between cells.
const GAP: &str = "  ";
const COLUMN_WIDTH_MIN: usize = 4;

pub(super) struct Table {
    alignments: Vec<Alignment>,
    /// The first row is the head.
    rows: Vec<Vec<Vec<Span>>>,
    row: Vec<Vec<Span>>,
}

impl Table {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new(), row: Vec::new() }
    }

    pub(super) fn push_cell(&mut self, cell: Vec<Span>) {
        self.row.push(cell);
    }

    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    pub(super) fn lines(&self, width: usize) -> Vec<Line> {
        let widths = self.widths(width);
        let mut lines = Vec::new();
        for (n, row) in self.rows.iter().enumerate() {
            lines.extend(self.row_lines(row, &widths, n == 0));
            if n == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(vec![Span::new(rule.join(GAP), FAINT)]);
            }
        }
        lines
    }

    /// Widths of the columns, which fit into `width` where it is wide enough.
    fn widths(&self, width: usize) -> Vec<usize> {
        let columns = self.alignments.len();
        let mut widths = vec![1; columns];
        for row in &self.rows {
            for (known, cell) in widths.iter_mut().zip(row) {
                *known = (*known).max(line_width(cell));
            }
        }
        let room = width.saturating_sub(GAP.len() * columns.saturating_sub(1));
        while widths.iter().sum::<usize>() > room {
            match widths.iter_mut().max() {
                Some(widest) if *widest > COLUMN_WIDTH_MIN => *widest -= 1,
                _ => break,
            }
        }
        widths
    }

    fn row_lines(&self, row: &[Vec<Span>], widths: &[usize], head: bool) -> Vec<Line> {
        let cells: Vec<Vec<Line>> =
            row.iter().zip(widths).map(|(cell, width)| wrap_words(cell, *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        (0..height).map(|n| self.row_line(&cells, widths, n, head)).collect()
    }

    /// Line `n` of a row.
    fn row_line(&self, cells: &[Vec<Line>], widths: &[usize], n: usize, head: bool) -> Line {
        let mut line = Line::new();
        for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
            if at > 0 {
                line.push(Span::plain(GAP));
            }
            let spans = cell.get(n).cloned().unwrap_or_default();
            let free = width.saturating_sub(line_width(&spans));
            let before = match self.alignments.get(at) {
                Some(Alignment::Right) => free,
                Some(Alignment::Center) => free / 2,
                _ => 0,
            };
            line.push(Span::plain(" ".repeat(before)));
            line.extend(spans.into_iter().map(|span| match head {
                true => Span { style: span.style.bold(), ..span },
                false => span,
            }));
            line.push(Span::plain(" ".repeat(free - before)));
        }
        line.retain(|span| !span.text.is_empty());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::super::{plain_line, render};

    fn plain(text: &str, width: usize) -> Vec<String> {
        render(text, width).iter().map(|line| plain_line(line).trim_end().to_owned()).collect()
    }

    #[test]
    fn columns_are_aligned_and_fitted() {
        let text = "| name | count |\n|---|--:|\n| retry | 5 |\n| 日本 | 12 |\n";
        let expected = ["name   count", "─────  ─────", "retry      5", "日本      12"];
        assert_eq!(plain(text, 60), expected);
        let text = "| a | b |\n|---|---|\n| x | one two three four |\n";
        assert_eq!(plain(text, 14), ["a  b", "─  ───────────", "x  one two", "   three four"]);
    }
}
