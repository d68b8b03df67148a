//! Ten dialogues, and the state of the task and the commits after each message.

use super::Message::{Choice, Command, Held, To};
use super::Reply::{Fails, Nothing, Says, Works};
use super::{Dialogue, row};

const RUNNING: Option<&str> = Some("running");
const AWAITING: Option<&str> = Some("awaiting_user");
const PENDING: Option<&str> = Some("pending_complete");
const NO_TASK: Option<&str> = None;

const STILL: &str = "I am still looking at the timeouts.";

pub(super) fn dialogues() -> Vec<Dialogue> {
    vec![
        Dialogue {
            name: "an offer is accepted",
            rows: vec![
                row(
                    To("Rename the flag --old to --new"),
                    Works("I found four uses.\n\nSay the word and I will go ahead."),
                    AWAITING,
                    &[],
                ),
                row(To("yes"), Works("Done. I renamed the flag in four files."), PENDING, &[]),
                row(To("thanks"), Says("You are welcome."), NO_TASK, &["normal"]),
                row(To("hmm"), Says("Take your time."), NO_TASK, &[]),
            ],
        },
        Dialogue {
            name: "unclear messages change nothing",
            rows: vec![
                row(To("Add a retry to the client"), Works(STILL), RUNNING, &[]),
                row(To("hmm"), Says("Take your time."), RUNNING, &[]),
                row(To("}"), Says("That is a brace."), RUNNING, &[]),
                row(To("🤔"), Says("Indeed."), RUNNING, &[]),
                row(To("👍"), Says("I go on."), RUNNING, &[]),
                row(To("Vergiss es"), Says("Verstanden."), NO_TASK, &["abandoned"]),
            ],
        },
        Dialogue {
            name: "other languages",
            rows: vec![
                row(
                    To("Schreibe einen Parser"),
                    Works("Done. The parser is written."),
                    PENDING,
                    &[],
                ),
                row(To("Danke, das passt"), Says("Gern geschehen."), NO_TASK, &["normal"]),
                row(To("Laisse tomber"), Says("D'accord."), NO_TASK, &[]),
                row(To("Escribe un parser"), Works(STILL), RUNNING, &[]),
                row(To("¿Qué significa eso?"), Says("Un analizador."), RUNNING, &[]),
                row(To("Laisse tomber"), Says("D'accord."), NO_TASK, &["abandoned"]),
            ],
        },
        Dialogue {
            name: "the agent works on after a confirmation",
            rows: vec![
                row(
                    To("Add a cache to the client"),
                    Works("Done. I added the cache."),
                    PENDING,
                    &[],
                ),
                row(To("ok"), Works("I ran the formatter, too."), RUNNING, &[]),
                row(To("why?"), Says("The file was not formatted."), RUNNING, &[]),
                row(Command("/done"), Nothing, NO_TASK, &["normal"]),
                row(Command("/help"), Nothing, NO_TASK, &[]),
            ],
        },
        Dialogue {
            name: "praise is followed by other work",
            rows: vec![
                row(
                    To("Build the login page"),
                    Works("Done. The login page is built."),
                    PENDING,
                    &[],
                ),
                row(
                    To("Great. Next, write a parser"),
                    Says("Which format does it read?"),
                    AWAITING,
                    &["interrupted_by_new_task"],
                ),
                row(To("JSON"), Works("Done. The parser reads JSON."), PENDING, &[]),
                row(To("👍"), Says("Glad to hear that."), NO_TASK, &["normal"]),
                row(To("👍"), Says("Still glad."), NO_TASK, &[]),
            ],
        },
        Dialogue {
            name: "a change is requested",
            rows: vec![
                row(
                    To("Write a parser for the config"),
                    Works("Done. I wrote the parser."),
                    PENDING,
                    &[],
                ),
                row(
                    To("Looks good but also add logging"),
                    Works("Done. I added logging."),
                    PENDING,
                    &[],
                ),
                row(To("What does that mean?"), Says("It writes a log."), PENDING, &[]),
                row(To("🤔"), Says("Take your time."), PENDING, &[]),
                row(To("Make it 5 not 3"), Works(STILL), RUNNING, &[]),
                row(To("ok"), Says("Done. It is 5 now."), RUNNING, &[]),
                row(To("Also add logging"), Works("Done. I added it."), PENDING, &[]),
                row(To("Perfect, thanks!"), Says("You are welcome."), NO_TASK, &["normal"]),
            ],
        },
        Dialogue {
            name: "a question is withdrawn",
            rows: vec![
                row(
                    To("Add a retry to the client"),
                    Works("Which backoff do you want?"),
                    AWAITING,
                    &[],
                ),
                row(To("why?"), Says("Done. I explained it."), AWAITING, &[]),
                row(To("hmm"), Says("Take your time."), AWAITING, &[]),
                row(To("never mind"), Says("All right."), NO_TASK, &["abandoned"]),
                row(To("stop"), Says("Nothing runs."), NO_TASK, &[]),
                row(Command("/done"), Nothing, NO_TASK, &[]),
            ],
        },
        Dialogue {
            name: "a new task is chosen",
            rows: vec![
                row(To("Add a retry to the client"), Works(STILL), RUNNING, &[]),
                row(Held("New task: write a parser"), Nothing, RUNNING, &[]),
                row(
                    Choice("A"),
                    Works("Done. I wrote the parser."),
                    PENDING,
                    &["interrupted_by_new_task"],
                ),
                row(To("looks good"), Says("Thank you."), NO_TASK, &["normal"]),
            ],
        },
        Dialogue {
            name: "the old task is continued",
            rows: vec![
                row(To("Add a retry to the client"), Works(STILL), RUNNING, &[]),
                row(Held("New task: write a linter"), Nothing, RUNNING, &[]),
                row(Choice("B"), Says("I continue with the retry."), RUNNING, &[]),
                row(To("stop"), Says("I stopped."), NO_TASK, &["abandoned"]),
                row(To("Write a linter"), Works(STILL), RUNNING, &[]),
                row(Command("/abandon wrong approach"), Nothing, NO_TASK, &["abandoned"]),
            ],
        },
        Dialogue {
            name: "runs fail",
            rows: vec![
                row(To("Add a cache to the client"), Works(STILL), RUNNING, &[]),
                row(To("Also add logging"), Fails, RUNNING, &[]),
                row(To("hmm"), Says("Done. I added logging."), RUNNING, &[]),
                row(To("Also add tests"), Works("Done. I added the tests."), PENDING, &[]),
                row(To("thanks"), Fails, PENDING, &[]),
                row(To("LGTM!!"), Says("Thank you."), NO_TASK, &["normal"]),
            ],
        },
    ]
}
