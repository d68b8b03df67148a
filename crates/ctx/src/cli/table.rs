//! Tables for a person: columns aligned, fitted to the width of the terminal, one line per row.
//!
//! A column that is empty in every row is left out, and a column can need a minimum width of the
//! terminal. Texts of others pass [`visible`] here, so that a cell cannot change the terminal.

use anstyle::{AnsiColor, Color as AnyColor, Effects, Style};
use comfy_table::{
    Attribute, Cell as ComfyCell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Row,
    Table as ComfyTable, TableStyle, Width,
};
use ctx_engine::core::text_limits::one_line;

use crate::markdown::visible;

/// Spaces between two columns.
const GAP: u16 = 2;
/// Longest text of a cell where the output has no width, in characters.
const TEXT_MAX_CHARS: usize = 500;

/// How a column takes part in the width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// As wide as its longest text.
    Content,
    /// Shares what the other columns leave.
    Rest,
    /// As wide as its longest text, up to a width.
    AtMost(u16),
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    fit: Fit,
    is_number: bool,
    /// The narrowest output that shows the column.
    from_width: usize,
}

impl Column {
    /// A column as wide as its longest text.
    pub(crate) const fn new(title: &'static str) -> Self {
        Self { title, fit: Fit::Content, is_number: false, from_width: 0 }
    }

    /// A column that shares what the others leave.
    pub(crate) const fn text(title: &'static str) -> Self {
        Self { fit: Fit::Rest, ..Self::new(title) }
    }

    /// A column of numbers.
    pub(crate) const fn number(title: &'static str) -> Self {
        Self { is_number: true, ..Self::new(title) }
    }

    /// At most this wide.
    pub(crate) const fn at_most(self, width: u16) -> Self {
        Self { fit: Fit::AtMost(width), ..self }
    }

    /// Shown only if the output has at least this width.
    pub(crate) const fn if_width(self, width: usize) -> Self {
        Self { from_width: width, ..self }
    }
}

/// A cell: one line of text with one style.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A text of any origin; its first line is shown.
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        let line = one_line(text.as_ref(), TEXT_MAX_CHARS);
        Self { text: visible(&line).replace('\n', " "), style: Style::new() }
    }

    pub(crate) fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self { style, ..Self::new(text) }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

/// Rows under columns.
#[derive(Debug, Default)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row with one cell per column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// The lines of the table, at most `width` columns wide. Without a width nothing is cut.
    pub(crate) fn lines(&self, width: Option<usize>) -> Vec<String> {
        let shown: Vec<usize> = (0..self.columns.len())
            .filter(|n| width.is_none_or(|width| width >= self.columns[*n].from_width))
            .filter(|n| self.rows.iter().any(|row| !row[*n].text.is_empty()))
            .collect();
        let mut table = ComfyTable::new();
        table.load_style(TableStyle::new()).set_truncation_indicator("…");
        table.enforce_styling().style_text_only();
        match width {
            Some(width) => {
                table.set_content_arrangement(ContentArrangement::Dynamic);
                table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
            }
            None => {
                table.set_content_arrangement(ContentArrangement::Disabled);
            }
        }
        let heading = shown
            .iter()
            .map(|n| ComfyCell::new(self.columns[*n].title).add_attribute(Attribute::Dim));
        table.set_header(heading.collect::<Vec<_>>());
        for cells in &self.rows {
            let mut row: Row =
                shown.iter().map(|n| comfy_cell(&cells[*n])).collect::<Vec<_>>().into();
            row.max_height(1);
            table.add_row(row);
        }
        for (position, n) in shown.iter().enumerate() {
            let Some(column) = table.column_mut(position) else { continue };
            let is_last = position + 1 == shown.len();
            column.set_padding((0, if is_last { 0 } else { GAP }));
            if self.columns[*n].is_number {
                column.set_cell_alignment(CellAlignment::Right);
            }
            match self.columns[*n].fit {
                Fit::Content => {
                    column.set_constraint(ColumnConstraint::ContentWidth);
                }
                Fit::AtMost(most) if width.is_some() => {
                    let most = Width::Fixed(most + if is_last { 0 } else { GAP });
                    column.set_constraint(ColumnConstraint::UpperBoundary(most));
                }
                Fit::AtMost(_) | Fit::Rest => {}
            }
        }
        table.lines().map(|line| line.trim_end().to_owned()).collect()
    }
}

fn comfy_cell(cell: &Cell) -> ComfyCell {
    let mut comfy = ComfyCell::new(&cell.text);
    if let Some(AnyColor::Ansi(colour)) = cell.style.get_fg_color() {
        comfy = comfy.fg(comfy_colour(colour));
    }
    let effects = cell.style.get_effects();
    for (effect, attribute) in [(Effects::BOLD, Attribute::Bold), (Effects::DIMMED, Attribute::Dim)]
    {
        if effects.contains(effect) {
            comfy = comfy.add_attribute(attribute);
        }
    }
    comfy
}

const fn comfy_colour(colour: AnsiColor) -> Color {
    match colour {
        AnsiColor::Red => Color::DarkRed,
        AnsiColor::Green => Color::DarkGreen,
        AnsiColor::Yellow => Color::DarkYellow,
        AnsiColor::Blue => Color::DarkBlue,
        AnsiColor::Magenta => Color::DarkMagenta,
        AnsiColor::Cyan => Color::DarkCyan,
        _ => Color::Reset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markdown::text_width;

    fn plain(lines: &[String]) -> String {
        anstream::adapter::strip_str(&lines.join("\n")).to_string()
    }

    fn sample() -> Table {
        let columns = [
            Column::new("ID"),
            Column::text("TITLE"),
            Column::new("STATE"),
            Column::number("TURNS").if_width(50),
        ];
        let mut table = Table::new(columns);
        table.row(["K7Q2".into(), "A short title".into(), Cell::default(), "1".into()]);
        let long = "日本語の長い題名 with \u{1b}]52;c;aGk=\u{7} and 👩‍👩‍👧 inside it\nsecond line";
        table.row(["M0".into(), long.into(), Cell::default(), "120".into()]);
        table
    }

    #[test]
    fn rows_fit_the_width_and_empty_columns_are_left_out() {
        for width in [20, 40, 60, 100] {
            let lines = sample().lines(Some(width));
            assert_eq!(lines.len(), 3, "one line per row: {lines:?}");
            let text = plain(&lines);
            assert!(!text.contains("STATE"), "{text}");
            assert_eq!(text.contains("TURNS"), width >= 50, "{text}");
            for line in text.lines() {
                assert!(text_width(line) <= width, "{width}: {line}");
                assert!(!line.chars().any(char::is_control), "{line:?}");
            }
        }
    }

    #[test]
    fn nothing_is_cut_without_a_width() {
        let text = plain(&sample().lines(None));
        assert!(text.contains("␛]52;c;aGk=␇ and 👩‍👩‍👧 inside it"), "{text}");
    }
}
