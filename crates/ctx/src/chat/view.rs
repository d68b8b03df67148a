//! Draws the state: header, transcript, what the session waits for, waiting messages, a notice, the
//! editor and the footer, and lists over them. It works from 20 columns and 6 rows on.

use anstyle::{AnsiColor, Color as AnsiStyleColor, Effects, Style as AnsiStyle};
use ctx_engine::core::session::{Activity, Status};
use ctx_engine::core::task;
use ctx_engine::core::text_limits::one_line;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};

use super::overlays;
use super::state::{NoticeKind, Pending, State};
use super::viewport::Viewport;
use crate::markdown::{Line, Span, text_width, visible, wrap_words};
use crate::waiting_prompt;

/// Rows of the editor, at most; a third of the screen if that is less.
const EDITOR_ROWS_MAX: usize = 10;
/// Waiting messages that are shown above the editor.
const QUEUE_ROWS_MAX: usize = 3;
/// Columns of the mark before the editor's text.
pub(super) const EDITOR_MARGIN: u16 = 2;

pub(super) const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const ACCENT: Style = Style::new().fg(Color::Cyan);
const WARN: Style = Style::new().fg(Color::Yellow);
const BAD: Style = Style::new().fg(Color::Red);
pub(super) const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);

pub(super) fn draw(frame: &mut Frame<'_>, state: &State, viewport: &mut Viewport) {
    let area = frame.area();
    if area.width < 4 || area.height < 3 {
        return;
    }
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let editor_width = usize::from(area.width.saturating_sub(EDITOR_MARGIN + 1));
    let lines = state.editor.lines(editor_width);
    let editor_rows = lines.len().clamp(1, EDITOR_ROWS_MAX.min(height / 3).max(1));
    // From the bottom: footer, editor, rule, notice, queue, question.
    let mut bottom = area.height;
    let mut take = |rows: usize| {
        let rows = (rows as u16).min(bottom.saturating_sub(2));
        bottom -= rows;
        Rect::new(0, bottom, area.width, rows)
    };
    let footer = take(1);
    let editor = take(editor_rows);
    let rule = take(1);
    let notice_lines = notice_lines(state, width);
    let notice = take(notice_lines.len().min(4));
    let queue_rows = state.info.as_ref().map_or(0, |info| info.inbox.len().min(QUEUE_ROWS_MAX));
    let queue = take(queue_rows);
    let question_lines = question_lines(state, width);
    let question = take(question_lines.len().min(height / 2));
    let transcript = Rect::new(0, 1, area.width, bottom.saturating_sub(1));

    let buffer = frame.buffer_mut();
    draw_header(buffer, Rect::new(0, 0, area.width, 1), state);
    draw_transcript(buffer, transcript, state, viewport);
    draw_lines(buffer, question, &question_lines);
    draw_queue(buffer, queue, state);
    draw_lines(buffer, notice, &notice_lines);
    draw_rule(buffer, rule, viewport.below());
    let (row, column) = state.editor.position(&lines);
    // The row of the cursor is always visible.
    let first = (row + 1).saturating_sub(usize::from(editor.height));
    put(buffer, 0, editor.y, "❯", ACCENT, 2);
    for (n, line) in lines.iter().skip(first).take(usize::from(editor.height)).enumerate() {
        let y = editor.y + n as u16;
        put(buffer, EDITOR_MARGIN, y, &line.shown, Style::new(), editor_width);
    }
    if state.editor.is_empty() {
        put(buffer, EDITOR_MARGIN, editor.y, placeholder(state), FAINT, editor_width);
    }
    draw_footer(buffer, footer, state);
    let cursor = Position::new(
        EDITOR_MARGIN + column.min(editor_width) as u16,
        editor.y + (row - first) as u16,
    );
    if let Some(completion) = &state.completion {
        overlays::draw_completion(buffer, rule.y, area, completion);
    }
    if state.shows_help {
        overlays::draw_help(buffer, area);
    } else if let Some(picker) = &state.picker {
        overlays::draw_picker(buffer, area, picker);
    } else {
        frame.set_cursor_position(cursor);
    }
}

/// Writes text that has no control characters.
pub(super) fn put(buffer: &mut Buffer, x: u16, y: u16, text: &str, style: Style, width: usize) {
    if x < buffer.area.width && y < buffer.area.height {
        let room = width.min(usize::from(buffer.area.width - x));
        buffer.set_stringn(x, y, text, room, style);
    }
}

fn draw_lines(buffer: &mut Buffer, area: Rect, lines: &[Line]) {
    for (n, line) in lines.iter().take(usize::from(area.height)).enumerate() {
        draw_line(buffer, 0, area.y + n as u16, line);
    }
}

fn draw_line(buffer: &mut Buffer, x: u16, y: u16, line: &[Span]) {
    let mut x = x;
    for span in line {
        put(buffer, x, y, &span.text, converted(span.style), usize::from(buffer.area.width));
        x = x.saturating_add(text_width(&span.text) as u16);
    }
}

fn draw_transcript(buffer: &mut Buffer, area: Rect, state: &State, viewport: &mut Viewport) {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let lines = viewport.layout(state, width.saturating_sub(1), height);
    if lines.is_empty() {
        return draw_welcome(buffer, area, state);
    }
    // A short conversation begins at the top.
    for (n, (indent, line)) in lines.into_iter().enumerate() {
        draw_line(buffer, indent as u16, area.y + n as u16, line);
    }
}

fn draw_welcome(buffer: &mut Buffer, area: Rect, state: &State) {
    let (provider, model) = state.provider_and_model();
    let model = model.map_or_else(String::new, |model| format!("/{model}"));
    let text = match (state.is_opening, state.info.is_some()) {
        (true, _) => vec!["Opening …".to_owned()],
        (false, true) => vec!["The conversation has no messages yet.".to_owned()],
        (false, false) => vec![
            format!("A new conversation in {}", state.dir),
            format!("with {provider}{model}. It is stored with its first message."),
            String::new(),
            "/help shows keys and commands, /sessions earlier conversations.".to_owned(),
        ],
    };
    for (n, line) in text.iter().enumerate() {
        let y = area.y + 1 + n as u16;
        if y < area.bottom() {
            put(buffer, 2, y, &visible(line), FAINT, usize::from(area.width).saturating_sub(2));
        }
    }
}

fn draw_header(buffer: &mut Buffer, area: Rect, state: &State) {
    let (provider, model) = state.provider_and_model();
    let model = model.map_or_else(String::new, |model| format!("/{model}"));
    let (word, style) = state_word(state);
    let right = one_line(&visible(&format!("{provider}{model}")), 40);
    let right_width = text_width(&right) + text_width(&word) + 3;
    let title = match &state.info {
        Some(info) => info.session.title.clone().unwrap_or_else(|| info.session.label.clone()),
        None => "New conversation".to_owned(),
    };
    let width = usize::from(area.width);
    let title_width = width.saturating_sub(right_width + 1);
    put(buffer, 0, area.y, &visible(&one_line(&title, title_width.max(4))), BOLD, title_width);
    let x = width.saturating_sub(right_width) as u16;
    put(buffer, x, area.y, &right, FAINT, right_width);
    let x = x + text_width(&right) as u16;
    put(buffer, x, area.y, " · ", FAINT, 3);
    put(buffer, x + 3, area.y, &word, style, right_width);
}

/// What the session does, in one or two words.
fn state_word(state: &State) -> (String, Style) {
    let Some(info) = &state.info else { return ("new".to_owned(), FAINT) };
    if info.session.status == Status::Archived {
        return ("archived".to_owned(), FAINT);
    }
    if info.session.status == Status::Error {
        let word = if info.session.is_damaged() { "damaged" } else { "error" };
        return (word.to_owned(), BAD);
    }
    match info.session.state {
        Activity::Running => {
            let started = info.run.as_ref().map(|run| run.started_at);
            let seconds = started.map_or(0, |at| state.now().since(at).seconds());
            (format!("running {seconds}s"), Style::new().fg(Color::Green))
        }
        Activity::Suspended => ("waiting for you".to_owned(), WARN),
        Activity::Idle if info.prompt.is_some() => ("waiting for you".to_owned(), WARN),
        Activity::Idle => match info.task.as_ref().map(|task| &task.state) {
            Some(task::State::AwaitingUser { .. }) => ("task: your answer".to_owned(), WARN),
            Some(task::State::PendingComplete { .. }) => ("task: done?".to_owned(), WARN),
            Some(task::State::Running | task::State::Interrupted { .. }) => {
                ("task open".to_owned(), FAINT)
            }
            _ => ("idle".to_owned(), FAINT),
        },
    }
}

fn question_lines(state: &State, width: usize) -> Vec<Line> {
    let faint = AnsiStyle::new().dimmed();
    let warn = AnsiColor::Yellow.on_default();
    let mut lines: Vec<Line> = Vec::new();
    let mut text = |text: &str, style: AnsiStyle, indent: &str| {
        let spans = [Span::new(visible(text).into_owned(), style)];
        for mut line in wrap_words(&spans, width.saturating_sub(indent.len() + 1)) {
            line.insert(0, Span::plain(indent));
            lines.push(line);
        }
    };
    match state.pending() {
        None => {
            if state.offers_retry() {
                text("The last answer is incomplete. /retry runs its message again.", warn, "");
            }
            return lines;
        }
        Some(Pending::Suspension(suspension)) => {
            let awaited = &suspension.awaited;
            text(awaited.question.as_deref().unwrap_or("The agent waits for you"), warn, "");
            for call in &awaited.tool_calls {
                let params = one_line(&call.params.to_string(), 300);
                text(&format!("{} {params}", call.name), faint, "  ");
            }
        }
        Some(Pending::Prompt(prompt)) => {
            let task = state.info.as_ref().and_then(|info| info.task.as_ref());
            text(waiting_prompt::question_lines(prompt, task).join("\n").trim_end(), warn, "");
        }
    }
    let options = state.options();
    for (n, label) in options.iter().enumerate() {
        let is_selected = state.option == Some(n);
        let style =
            if is_selected { AnsiStyle::new().bold().invert() } else { AnsiStyle::new().bold() };
        text(&format!("{} {label}", n + 1), style, "  ");
    }
    let help = match (options.is_empty(), state.editor.is_empty()) {
        (true, _) => "Type the answer · Esc stops the run",
        (false, true) => "A digit answers, or ↑↓ and Enter · Esc stops · leaving keeps it open",
        (false, false) => "Send or clear the text to answer with a digit",
    };
    text(help, faint, "  ");
    lines
}

fn draw_queue(buffer: &mut Buffer, area: Rect, state: &State) {
    let Some(info) = &state.info else { return };
    let count = info.inbox.len();
    for (n, item) in info.inbox.iter().take(usize::from(area.height)).enumerate() {
        let last = n + 1 == usize::from(area.height);
        let more = match count - n - 1 {
            rest if last && rest > 0 => format!(" (+{rest})"),
            _ => String::new(),
        };
        let keys = if n == 0 { " · F4 edits" } else { "" };
        let room = usize::from(area.width).saturating_sub(12 + more.len() + keys.len());
        let text = one_line(&item.text(), room.max(8));
        let line = format!("  waits: {}{more}{keys}", visible(&text));
        put(buffer, 0, area.y + n as u16, &line, FAINT, usize::from(area.width));
    }
}

fn notice_lines(state: &State, width: usize) -> Vec<Line> {
    let Some(notice) = &state.notice else { return Vec::new() };
    let style = match notice.kind {
        NoticeKind::Info => AnsiColor::Cyan.on_default(),
        NoticeKind::Problem => AnsiColor::Red.on_default(),
    };
    let text = visible(&notice.text).into_owned();
    wrap_words(&[Span::new(text, style)], width.saturating_sub(1))
}

fn draw_rule(buffer: &mut Buffer, area: Rect, below: usize) {
    let width = usize::from(area.width);
    put(buffer, 0, area.y, &"─".repeat(width), FAINT, width);
    if below > 0 {
        let text = format!(" {below} more lines below · Ctrl-End ");
        let x = width.saturating_sub(text_width(&text) + 2) as u16;
        put(buffer, x, area.y, &text, WARN, width);
    }
}

fn placeholder(state: &State) -> &'static str {
    match state.pending() {
        Some(Pending::Suspension(it)) if it.awaited.options.is_empty() => "Your answer",
        _ => "Message, /command or @file",
    }
}

fn draw_footer(buffer: &mut Buffer, area: Rect, state: &State) {
    let enter = state.enter_hint();
    let esc = match (state.editing.is_some(), state.is_running()) {
        (true, _) => " · Esc keeps it",
        (false, true) => " · Esc stops",
        (false, false) => "",
    };
    let tab = if enter == "Enter queues" { "" } else { " · Tab queues" };
    let all = format!("{enter}{tab} · Alt-Enter new line{esc} · F1 help · Ctrl-D leaves");
    let short = format!("{enter}{tab}{esc} · F1 help");
    let width = usize::from(area.width);
    let text = if text_width(&all) <= width { all } else { short };
    put(buffer, 0, area.y, &text, FAINT, width);
}

/// The style for ratatui.
fn converted(style: AnsiStyle) -> Style {
    let mut out = Style::new();
    if let Some(AnsiStyleColor::Ansi(color)) = style.get_fg_color() {
        out = out.fg(match color {
            AnsiColor::Black => Color::Black,
            AnsiColor::Red => Color::Red,
            AnsiColor::Green => Color::Green,
            AnsiColor::Yellow => Color::Yellow,
            AnsiColor::Blue => Color::Blue,
            AnsiColor::Magenta => Color::Magenta,
            AnsiColor::Cyan => Color::Cyan,
            AnsiColor::White => Color::Gray,
            AnsiColor::BrightBlack => Color::DarkGray,
            _ => Color::White,
        });
    }
    let table = [
        (Effects::BOLD, Modifier::BOLD),
        (Effects::DIMMED, Modifier::DIM),
        (Effects::ITALIC, Modifier::ITALIC),
        (Effects::UNDERLINE, Modifier::UNDERLINED),
        (Effects::STRIKETHROUGH, Modifier::CROSSED_OUT),
        (Effects::INVERT, Modifier::REVERSED),
    ];
    for (effect, modifier) in table {
        if style.get_effects().contains(effect) {
            out = out.add_modifier(modifier);
        }
    }
    out
}
