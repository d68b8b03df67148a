//! What is drawn over the transcript: the help, lists, and completions.

use ctx_engine::core::text_limits::one_line;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::completion::Completion;
use super::picker::Picker;
use super::slash_commands::COMMANDS;
use super::view::{BOLD, FAINT, SELECTED, put};
use crate::markdown::{text_width, visible};

/// Keys and what they do, for the help here and of the command line.
pub(crate) const KEYS: [(&str, &str); 16] = [
    ("Enter", "send; the last line says what that does now"),
    ("Tab", "queue: the message waits until the run ends"),
    ("Alt-Enter, Ctrl-J", "new line"),
    ("Esc", "stop the run"),
    ("Ctrl-C twice, Ctrl-D", "leave"),
    ("↑ ↓", "move between lines, then through earlier messages"),
    ("Alt-↑", "take the last waiting message back into the editor"),
    ("@", "complete a file name"),
    ("Ctrl-O", "unfold or fold tool calls"),
    ("Ctrl-T", "unfold or fold thoughts and summaries"),
    ("PageUp, PageDown", "scroll; Ctrl-Home and Ctrl-End go to the ends"),
    ("Ctrl-W, Ctrl-U, Ctrl-K", "delete a word, to the start, to the end of the line"),
    ("Ctrl-Y", "insert what was deleted"),
    ("F2, F3, F4", "conversations, branches, waiting messages"),
    ("Ctrl-L", "draw the screen again"),
    ("Ctrl-Z", "suspend the program; `fg` continues it"),
];

/// Clears an area and draws its frame.
fn draw_frame(buffer: &mut Buffer, area: Rect, title: &str, footer: &str) {
    for y in area.top()..area.bottom() {
        put(
            buffer,
            area.x,
            y,
            &" ".repeat(usize::from(area.width)),
            Style::reset(),
            usize::from(area.width),
        );
    }
    let width = usize::from(area.width);
    let rule = "─".repeat(width);
    put(buffer, area.x, area.y, &rule, FAINT, width);
    put(buffer, area.x + 2, area.y, &format!(" {title} "), BOLD, width.saturating_sub(2));
    let last = area.bottom().saturating_sub(1);
    put(buffer, area.x, last, &rule, FAINT, width);
    put(buffer, area.x + 2, last, &format!(" {footer} "), FAINT, width.saturating_sub(2));
}

/// An area in the middle; the whole screen if it is small.
fn middle(area: Rect, rows: usize) -> Rect {
    let width = if area.width > 104 { 100 } else { area.width };
    let height = (rows as u16).clamp(4.min(area.height), area.height);
    Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height)
}

pub(super) fn draw_help(buffer: &mut Buffer, area: Rect) {
    let mut rows: Vec<(String, String)> =
        KEYS.iter().map(|(key, about)| ((*key).to_owned(), (*about).to_owned())).collect();
    let fits = usize::from(area.height) >= KEYS.len() + COMMANDS.len() + 4;
    if fits {
        rows.push((String::new(), String::new()));
        let commands = COMMANDS.iter().filter(|(name, _)| *name != "/exit");
        rows.extend(commands.map(|(name, about)| ((*name).to_owned(), (*about).to_owned())));
    } else {
        let names: Vec<&str> = COMMANDS.iter().map(|(name, _)| *name).collect();
        for some in names.chunks(6) {
            rows.push((String::new(), some.join(" ")));
        }
    }
    let inner = middle(area, rows.len() + 2);
    draw_frame(buffer, inner, "Help", "any key closes");
    let width = usize::from(inner.width);
    for (n, (key, about)) in rows.iter().enumerate() {
        let y = inner.y + 1 + n as u16;
        if y + 1 >= inner.bottom() {
            break;
        }
        put(buffer, inner.x + 2, y, key, BOLD, 22);
        put(buffer, inner.x + 26, y, about, Style::new(), width.saturating_sub(27));
    }
}

pub(super) fn draw_picker(buffer: &mut Buffer, area: Rect, picker: &Picker) {
    let rows = picker.rows();
    let inner = middle(area, rows.len().max(1) + 3);
    draw_frame(buffer, inner, picker.kind.title(), picker.kind.keys());
    let width = usize::from(inner.width).saturating_sub(4);
    let filter = match picker.filter.as_str() {
        "" => String::new(),
        filter => format!("filter: {filter}"),
    };
    put(buffer, inner.x + 2, inner.y + 1, &visible(&filter), FAINT, width);
    let room = usize::from(inner.height).saturating_sub(3);
    if rows.is_empty() {
        let text = if picker.is_loading { "Reading …" } else { "Nothing found." };
        put(buffer, inner.x + 2, inner.y + 2, text, FAINT, width);
    }
    let first = (picker.selected() + 1).saturating_sub(room);
    for (n, row) in rows.iter().enumerate().skip(first).take(room) {
        let y = inner.y + 2 + (n - first) as u16;
        let style = if n == picker.selected() { SELECTED } else { Style::new() };
        let detail = visible(&one_line(&row.detail, width / 2)).into_owned();
        let detail_width = text_width(&detail);
        let text_room = width.saturating_sub(detail_width + 1);
        let text = visible(&row.text).replace('\n', " ");
        put(buffer, inner.x + 2, y, &" ".repeat(width), style, width);
        put(buffer, inner.x + 2, y, &text, style, text_room);
        let x = inner.x + 2 + (width - detail_width) as u16;
        put(buffer, x, y, &detail, style.patch(FAINT), detail_width);
    }
}

/// Draws the candidates above a row.
pub(super) fn draw_completion(buffer: &mut Buffer, above: u16, area: Rect, found: &Completion) {
    let room = usize::from(above.saturating_sub(1)).min(8);
    let first = (found.selected + 1).saturating_sub(room);
    let shown: Vec<_> = found.candidates.iter().enumerate().skip(first).take(room).collect();
    let top = above.saturating_sub(shown.len() as u16);
    let width = usize::from(area.width);
    for (row, (n, (text, about))) in shown.into_iter().enumerate() {
        let y = top + row as u16;
        // What is drawn below has styles of its own.
        put(buffer, 0, y, &" ".repeat(width), Style::reset(), width);
        let style = if n == found.selected { SELECTED } else { Style::new() };
        put(buffer, 2, y, &visible(text), style, width.saturating_sub(2));
        let at = (text_width(text) + 4).max(16);
        if at < width {
            put(buffer, at as u16, y, &visible(about), style.patch(FAINT), width - at);
        }
    }
}
