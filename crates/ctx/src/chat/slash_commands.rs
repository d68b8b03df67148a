//! Slash commands of the chat: the table, and how a line is read as one. Every other line that
//! begins with a slash is a message: ctx answers `/done` and `/abandon` itself, and the agent gets
//! the rest.

/// A command that the chat carries out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlashCommand {
    Help,
    New,
    Sessions(String),
    Model(String),
    Fork(String),
    Tree,
    Rewind(String),
    Compact(String),
    Search(String),
    Queue,
    Retry,
    Rename(String),
    Stop,
    Quit,
}

/// Names and descriptions, for the help and the completion.
pub(super) const COMMANDS: [(&str, &str); 17] = [
    ("/help", "show keys and commands"),
    ("/new", "begin another conversation"),
    ("/sessions", "switch to another conversation"),
    ("/model", "choose the provider and the model"),
    ("/fork", "continue in a copy of this conversation"),
    ("/tree", "show the branches of this conversation"),
    ("/rewind", "go back to before an earlier message"),
    ("/retry", "run the last message again"),
    ("/compact", "shorten the context; nothing is deleted"),
    ("/search", "search all conversations"),
    ("/queue", "edit the messages that wait"),
    ("/rename", "change the title"),
    ("/stop", "stop the run"),
    ("/done", "seal the open task as complete"),
    ("/abandon", "seal the open task as abandoned"),
    ("/quit", "leave"),
    ("/exit", "leave"),
];

/// Reads a line as a command; `None` if it is a message.
pub(super) fn parse(text: &str) -> Option<SlashCommand> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let argument = rest.trim().to_owned();
    let is_plain = argument.is_empty();
    Some(match word {
        "/help" if is_plain => SlashCommand::Help,
        "/new" if is_plain => SlashCommand::New,
        "/sessions" => SlashCommand::Sessions(argument),
        "/model" => SlashCommand::Model(argument),
        "/fork" => SlashCommand::Fork(argument),
        "/tree" if is_plain => SlashCommand::Tree,
        "/rewind" => SlashCommand::Rewind(argument),
        "/compact" => SlashCommand::Compact(argument),
        "/search" => SlashCommand::Search(argument),
        "/queue" if is_plain => SlashCommand::Queue,
        "/retry" if is_plain => SlashCommand::Retry,
        "/rename" => SlashCommand::Rename(argument),
        "/stop" if is_plain => SlashCommand::Stop,
        "/quit" | "/exit" if is_plain => SlashCommand::Quit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_the_chat_are_recognised_and_others_are_messages() {
        let table = [
            ("/help", Some(SlashCommand::Help)),
            (" /model  local/m ", Some(SlashCommand::Model("local/m".to_owned()))),
            ("/search two words", Some(SlashCommand::Search("two words".to_owned()))),
            ("/compact", Some(SlashCommand::Compact(String::new()))),
            ("/exit", Some(SlashCommand::Quit)),
            ("/done shipped", None),
            ("/abandon", None),
            ("/review the code", None),
            ("/helpful", None),
            ("/help me", None),
            ("see /help", None),
            ("/", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn every_listed_command_does_something() {
        for (name, _) in COMMANDS {
            let of_ctx = ctx_engine::core::command::Command::of(name).is_some();
            assert!(parse(name).is_some() || of_ctx, "{name}");
        }
    }
}
