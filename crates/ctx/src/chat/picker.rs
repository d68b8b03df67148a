//! A list to choose from, over the transcript: sessions, models, branches, search results, waiting
//! messages, earlier messages. Pure.

use ctx_engine::core::id::{MessageId, SessionId, TurnId};

/// The value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    NewSession,
    Session(SessionId),
    /// A place in a session.
    Hit {
        session: SessionId,
        turn: Option<TurnId>,
    },
    Model {
        provider: String,
        model: Option<String>,
    },
    /// A turn of the tree, and the label of a session whose head it is.
    Branch {
        turn: TurnId,
        head: Option<String>,
    },
    /// A turn that the head can be moved to, and the message after it.
    Rewind {
        to: Option<TurnId>,
        text: String,
    },
    Queued {
        id: MessageId,
        text: String,
    },
    Nothing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) text: String,
    pub(super) detail: String,
    pub(super) choice: Choice,
}

/// What the list is about; it decides what its keys do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PickerKind {
    Sessions,
    Models,
    Tree,
    Rewind,
    Search,
    Queue,
}

impl PickerKind {
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Sessions => "Conversations",
            Self::Models => "Model",
            Self::Tree => "Branches",
            Self::Rewind => "Go back to before",
            Self::Search => "Search results",
            Self::Queue => "Waiting messages",
        }
    }

    /// The keys, for the last line of the list.
    pub(super) const fn keys(self) -> &'static str {
        match self {
            Self::Sessions | Self::Search => "Enter opens · type to filter · Esc closes",
            Self::Models => "Enter selects · type to filter · Esc closes",
            Self::Tree => "Enter opens or forks · Ctrl-F forks · Ctrl-R rewinds · Esc closes",
            Self::Rewind => "Enter goes back · type to filter · Esc closes",
            Self::Queue => "Enter edits · Del withdraws · Alt-↑↓ moves · Esc closes",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Picker {
    pub(super) kind: PickerKind,
    rows: Vec<Row>,
    pub(super) filter: String,
    /// Index in the filtered rows.
    selected: usize,
    /// Whether the rows are being read.
    pub(super) is_loading: bool,
}

impl Picker {
    pub(super) fn loading(kind: PickerKind) -> Self {
        Self { kind, rows: Vec::new(), filter: String::new(), selected: 0, is_loading: true }
    }

    pub(super) fn with_rows(kind: PickerKind, rows: Vec<Row>) -> Self {
        Self { rows, is_loading: false, ..Self::loading(kind) }
    }

    pub(super) fn set_rows(&mut self, rows: Vec<Row>) {
        self.rows = rows;
        self.is_loading = false;
        self.clamp();
    }

    pub(super) fn select(&mut self, at: usize) {
        self.selected = at;
        self.clamp();
    }

    /// The rows that contain all words of the filter.
    pub(super) fn rows(&self) -> Vec<&Row> {
        let filter = self.filter.to_lowercase();
        let words: Vec<&str> = filter.split_whitespace().collect();
        let matches = |row: &&Row| {
            let text = format!("{} {}", row.text, row.detail).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.rows.iter().filter(matches).collect()
    }

    pub(super) const fn selected(&self) -> usize {
        self.selected
    }

    pub(super) fn choice(&self) -> Option<Choice> {
        self.rows().get(self.selected).map(|row| row.choice.clone())
    }

    pub(super) fn move_by(&mut self, rows: isize) {
        self.selected = self.selected.saturating_add_signed(rows);
        self.clamp();
    }

    pub(super) fn type_char(&mut self, c: char) {
        self.filter.push(c);
        self.selected = 0;
    }

    pub(super) fn backspace(&mut self) {
        self.filter.pop();
        self.clamp();
    }

    fn clamp(&mut self) {
        self.selected = self.selected.min(self.rows().len().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Row {
        Row { text: text.to_owned(), detail: "demo".to_owned(), choice: Choice::NewSession }
    }

    #[test]
    fn typing_filters_and_the_selection_stays_inside() {
        let rows = vec![row("Add retries"), row("Fix the build"), row("Add logging")];
        let mut picker = Picker::with_rows(PickerKind::Sessions, rows);
        picker.move_by(5);
        assert_eq!(picker.selected(), 2);
        "ADD demo".chars().for_each(|c| picker.type_char(c));
        assert_eq!(picker.rows().len(), 2);
        picker.move_by(-3);
        assert_eq!((picker.selected(), picker.rows()[0].text.as_str()), (0, "Add retries"));
        picker.type_char('x');
        assert_eq!((picker.rows().len(), picker.choice()), (0, None));
        picker.backspace();
        assert!(picker.choice().is_some());
    }
}
