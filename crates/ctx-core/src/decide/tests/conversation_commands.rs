//! Random commands for the test of conversations.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::sample::select;

use crate::decide::TerminationCause;
use crate::inbox::Mode;
use crate::message::Source;
use crate::prompt::Choice;
use crate::run::Outcome;
use crate::session::Delivery;
use crate::suspension::Kind;
use crate::time::Span;

/// One command of a sequence. Numbers select among what exists at that time.
#[derive(Debug, Clone)]
pub(super) enum Command {
    Submit {
        mode: Option<Mode>,
        source: Source,
        text: &'static str,
        later: bool,
    },
    Deliver,
    Checkpoint {
        inject: bool,
        observe: bool,
    },
    /// During a run, by the run that is open or by the one before it.
    Compact {
        late: bool,
    },
    EndRun(Outcome),
    /// By the run before the open one.
    LateEnd,
    Suspend(Vec<Kind>),
    Resume(usize),
    Cancel,
    CutOff(TerminationCause),
    Edit(usize),
    Move(usize, usize),
    Withdraw(usize),
    Delivery(Delivery),
    Choose(Choice),
    Archive,
    Wait(Span),
}

pub(super) fn command() -> impl Strategy<Value = Command> {
    use Command as C;
    let texts = [
        "Add a parser for dates",
        "also add logging",
        "looks good",
        "stop",
        "why?",
        "new task: write docs",
        "A",
        "allow",
        "5",
        "/compact",
    ];
    let modes: Vec<Option<Mode>> =
        Mode::ALL.into_iter().map(Some).chain([None, None, None]).collect();
    let sources = vec![Source::Human, Source::Human, Source::Human, Source::Timer, Source::Webhook];
    let submit = (select(modes), select(sources), select(texts.to_vec()), any::<bool>());
    let outcomes = vec![
        Outcome::Completed,
        Outcome::Completed,
        Outcome::Failed,
        Outcome::Cancelled,
        Outcome::Interrupted,
    ];
    let kinds =
        vec(select(vec![Kind::ToolResult, Kind::Permission, Kind::Question, Kind::Event]), 1..=2);
    let spans = vec![Span(1), Span(2000), Span::hours(25), Span::days(8)];
    let causes = vec![TerminationCause::ProcessLost, TerminationCause::Cancelled];
    let deliveries = vec![Delivery::Open, Delivery::Open, Delivery::Hold, Delivery::Refuse];
    proptest::prop_oneof![
        12 => submit.prop_map(|(mode, source, text, later)| {
            let later = later && source == Source::Human;
            C::Submit { mode, source, text, later }
        }),
        8 => Just(C::Deliver),
        4 => (any::<bool>(), any::<bool>())
            .prop_map(|(inject, observe)| C::Checkpoint { inject, observe }),
        2 => any::<bool>().prop_map(|late| C::Compact { late }),
        6 => select(outcomes).prop_map(C::EndRun),
        1 => Just(C::LateEnd),
        3 => kinds.prop_map(C::Suspend),
        3 => (0_usize..2).prop_map(C::Resume),
        2 => Just(C::Cancel),
        1 => select(causes).prop_map(C::CutOff),
        1 => (0_usize..4).prop_map(C::Edit),
        1 => (0_usize..4, 0_usize..4).prop_map(|(item, place)| C::Move(item, place)),
        1 => (0_usize..4).prop_map(C::Withdraw),
        1 => select(deliveries).prop_map(C::Delivery),
        1 => select(vec![Choice::Continue, Choice::StartFresh]).prop_map(C::Choose),
        1 => Just(C::Archive),
        2 => select(spans).prop_map(C::Wait),
    ]
}
