//! What a request looks at: back to the first turn that the newest compaction keeps, the pinned turns before, and no more.

use ctx_core::compaction::{By, Compaction, Metadata, Trigger, Type};
use ctx_core::decide::{Change, Decision};
use ctx_core::id::TurnId;
use ctx_core::refusal::Refusal;
use ctx_core::turn::{About, Kind, Ready};
use ctx_store::{Context, Error};

use crate::Place;
use crate::hand::{Hand, at, message, verify};

fn row(through: TurnId, kept: Option<TurnId>, by: By) -> Compaction {
    Compaction {
        summary: "so far".to_owned(),
        summarized_through: Some(through),
        first_kept: kept,
        turns_summarized: 3,
        kind: Type::Extractive,
        model: Some("m".to_owned()),
        provider: Some("p".to_owned()),
        tokens_before: 900,
        tokens_after: 300,
        summary_tokens: 100,
        summarization_input_tokens: Some(800),
        summarization_output_tokens: None,
        duration_ms: 12,
        trigger: Trigger::Manual,
        metadata: Metadata { by, focus: Some("the boat".to_owned()), ..Metadata::default() },
    }
}

/// Adds a compaction under the head.
async fn compact(hand: &Hand, row: Compaction, ms: i64) -> TurnId {
    let (ready, body) = Ready::new(
        About { kind: Kind::Compaction, ..About::at(at(ms)) },
        vec![message("so far", ms)],
    );
    let head = hand.view().await.session.head;
    let record = ready.under(head);
    let id = record.id;
    let changes = vec![Change::AppendTurn(Box::new(record)), Change::PutCompaction(Box::new(row))];
    hand.decide(ms, vec![body], move |_, _| {
        Ok(Decision { changes: changes.clone(), ..Decision::unchanged(()) })
    })
    .await
    .expect("stored");
    id
}

async fn change(hand: &Hand, change: Change) -> Result<(), Error> {
    hand.decide(99, vec![], move |_, _| {
        Ok(Decision { changes: vec![change.clone()], ..Decision::unchanged(()) })
    })
    .await
    .map(drop)
}

async fn looks_at(hand: &Hand, max_bytes: usize) -> Context {
    let session = hand.view().await.session;
    hand.store
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

async fn talk(hand: &Hand, count: i64) -> Vec<TurnId> {
    let mut turns = Vec::new();
    for n in 0..count {
        turns.push(hand.say(&format!("turn {n}"), n).await);
    }
    turns
}

pub(crate) async fn a_compaction_is_read_back_and_ends_the_walk(place: &impl Place) {
    // R173, R176
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    let turns = talk(&hand, 5).await;
    assert_eq!(
        ids(&looks_at(&hand, usize::MAX).await).0,
        turns.iter().rev().copied().collect::<Vec<_>>(),
        "to the root"
    );
    let written = row(turns[2], Some(turns[3]), By::Ctx);
    let compaction = compact(&hand, written.clone(), 10).await;
    let later = hand.say("later", 11).await;
    let found = looks_at(&hand, usize::MAX).await;
    assert_eq!(ids(&found), (vec![later, compaction, turns[4], turns[3]], vec![]));
    assert_eq!(found.turns[1].compaction, Some(written));
    assert!(
        found
            .turns
            .iter()
            .filter(|turn| turn.id != compaction)
            .all(|turn| turn.compaction.is_none())
    );
    // The newest stands; the one before it is passed by.
    let newest = compact(&hand, row(turns[3], Some(turns[4]), By::Ctx), 12).await;
    assert_eq!(ids(&looks_at(&hand, usize::MAX).await).0, [newest, later, compaction, turns[4]]);
    let alone = compact(&hand, row(later, None, By::Ctx), 13).await;
    assert_eq!(ids(&looks_at(&hand, usize::MAX).await).0, [alone], "nothing is kept");
    let agents = compact(&hand, row(later, None, By::Agent), 14).await;
    assert_eq!(
        ids(&looks_at(&hand, usize::MAX).await).0,
        [agents, alone],
        "an agent's own concerns that agent"
    );
    assert_eq!(ids(&looks_at(&hand, 0).await).0, [], "bounded");
    assert_eq!(store.turns(agents, 100).await.expect("turns").len(), 10, "nothing is deleted");
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn pinned_turns_are_looked_at_from_anywhere(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    let other = Hand::create(&store, "other", 0).await;
    let turns = talk(&hand, 6).await;
    let elsewhere = other.say("elsewhere", 1).await;
    for turn in [turns[1], turns[4], turns[1]] {
        change(&hand, Change::Pin { turn, tokens: 7 }).await.expect("pinned");
    }
    let refused = change(&hand, Change::Pin { turn: elsewhere, tokens: 7 }).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::NotAnAncestor { .. }))), "{refused:?}");
    compact(&hand, row(turns[2], Some(turns[3]), By::Ctx), 10).await;
    let found = looks_at(&hand, usize::MAX).await;
    assert_eq!(ids(&found).1, [turns[1]], "only what the walk does not meet");
    assert_eq!(
        found.pins.iter().map(|pin| (pin.turn, pin.depth, pin.tokens)).collect::<Vec<_>>(),
        [(turns[1], 2, 7), (turns[4], 5, 7)]
    );
    change(&hand, Change::Unpin(turns[1])).await.expect("let go");
    assert!(ids(&looks_at(&hand, usize::MAX).await).1.is_empty());
    change(&hand, Change::MoveHead(Some(turns[3]))).await.expect("back");
    assert!(
        looks_at(&hand, usize::MAX).await.pins.is_empty(),
        "a pin does not outlive its turn's place in the line"
    );
    assert_eq!(verify(&store).await.findings, []);
}
