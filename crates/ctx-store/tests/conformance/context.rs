//! Context: the turns back to the first one that the newest compaction keeps, and the pinned turns
//! before it.

use ctx_core::compaction::{By, Compaction};
use ctx_core::decide::Change;
use ctx_core::id::TurnId;
use ctx_core::refusal::Refusal;
use ctx_store::{Context, Error};

use crate::Backend;
use crate::harness::{SessionWriter, compaction, summary_turn, verify};

/// Adds a compaction under the head.
async fn compact(writer: &SessionWriter, row: Compaction, ms: i64) -> TurnId {
    let (ready, body) = summary_turn(ms);
    let head = writer.view().await.session.head;
    let record = ready.with_parent(head);
    let id = record.id;
    let changes = vec![Change::AppendTurn(Box::new(record)), Change::PutCompaction(Box::new(row))];
    writer.write_changes(changes, vec![body], ms).await.expect("stored");
    id
}

async fn looks_at(writer: &SessionWriter, max_bytes: usize) -> Context {
    let session = writer.view().await.session;
    writer
        .store
        .context(session.id, session.head.expect("a head"), max_bytes)
        .await
        .expect("a context")
}

fn ids(context: &Context) -> (Vec<TurnId>, Vec<TurnId>) {
    (
        context.turns.iter().map(|turn| turn.id).collect(),
        context.pinned.iter().map(|turn| turn.id).collect(),
    )
}

async fn talk(writer: &SessionWriter, count: i64) -> Vec<TurnId> {
    let mut turns = Vec::new();
    for n in 0..count {
        turns.push(writer.say(&format!("turn {n}"), n).await);
    }
    turns
}

pub(crate) async fn a_compaction_reads_back_and_ends_the_context(backend: &impl Backend) {
    // R173, R176
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let turns = talk(&writer, 5).await;
    assert_eq!(
        ids(&looks_at(&writer, usize::MAX).await).0,
        turns.iter().rev().copied().collect::<Vec<_>>(),
        "to the root"
    );
    let written = compaction(Some(turns[2]), Some(turns[3]), By::Ctx);
    let summary = compact(&writer, written.clone(), 10).await;
    let later = writer.say("later", 11).await;
    let found = looks_at(&writer, usize::MAX).await;
    assert_eq!(ids(&found), (vec![later, summary, turns[4], turns[3]], vec![]));
    assert_eq!(found.turns[1].compaction, Some(written));
    assert!(
        found.turns.iter().filter(|turn| turn.id != summary).all(|turn| turn.compaction.is_none())
    );
    // Only the newest compaction counts.
    let newest = compact(&writer, compaction(Some(turns[3]), Some(turns[4]), By::Ctx), 12).await;
    assert_eq!(ids(&looks_at(&writer, usize::MAX).await).0, [newest, later, summary, turns[4]]);
    let alone = compact(&writer, compaction(Some(later), None, By::Ctx), 13).await;
    assert_eq!(ids(&looks_at(&writer, usize::MAX).await).0, [alone], "nothing is kept");
    let agents = compact(&writer, compaction(Some(later), None, By::Agent), 14).await;
    assert_eq!(
        ids(&looks_at(&writer, usize::MAX).await).0,
        [agents, alone],
        "an agent's own compaction does not end the context"
    );
    assert_eq!(ids(&looks_at(&writer, 0).await).0, [], "bounded");
    assert_eq!(store.turns(agents, 100).await.expect("turns").len(), 10, "nothing is deleted");
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn pinned_turns_are_in_the_context_from_anywhere(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let other = SessionWriter::create(&store, "other", 0).await;
    let turns = talk(&writer, 6).await;
    let elsewhere = other.say("elsewhere", 1).await;
    for turn in [turns[1], turns[4], turns[1]] {
        writer.pin(turn, 7, 99).await.expect("pinned");
    }
    let refused = writer.pin(elsewhere, 7, 99).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::NotAnAncestor { .. }))), "{refused:?}");
    compact(&writer, compaction(Some(turns[2]), Some(turns[3]), By::Ctx), 10).await;
    let found = looks_at(&writer, usize::MAX).await;
    assert_eq!(ids(&found).1, [turns[1]], "only those before the other turns");
    assert_eq!(
        found.pins.iter().map(|pin| (pin.turn, pin.depth, pin.tokens)).collect::<Vec<_>>(),
        [(turns[1], 2, 7), (turns[4], 5, 7)]
    );
    writer.unpin(turns[1], 99).await.expect("unpinned");
    assert!(ids(&looks_at(&writer, usize::MAX).await).1.is_empty());
    writer.rewind(turns[3], 99).await.expect("rewound");
    assert!(
        looks_at(&writer, usize::MAX).await.pins.is_empty(),
        "a turn that is no ancestor of the head is not pinned"
    );
    assert_eq!(verify(&store).await.findings, []);
}
