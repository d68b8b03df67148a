//! A history is read in pages of any size and in both orders, without repeats and gaps.

use ctx_core::id::MessageId;
use ctx_core::message::{Message, Part, Role};
use ctx_core::session::Origin;
use ctx_core::time::Timestamp;
use ctx_core::turn::About;
use ctx_engine::{NewTurn, Order, Place};
use ctx_providers::Scripted;
use ctx_providers::scripted::{Action, Gate, Script};
use serde_json::json;
use ulid::Ulid;

use crate::harness::{Harness, until};

/// All pages of this size, from a position on.
async fn pages(bench: &Harness, order: Order, limit: usize, from: Option<Place>) -> Vec<MessageId> {
    let (mut all, mut at) = (Vec::new(), from);
    for _ in 0..1000 {
        let page = bench.engine.messages().page("one", order, at, limit).await.expect("a page");
        assert!(
            page.messages.len() <= limit && (page.next.is_none() || page.messages.len() == limit),
            "{order:?} {limit}"
        );
        all.extend(page.messages.iter().map(|told| told.message.id));
        at = page.next;
        if at.is_none() {
            return all;
        }
    }
    panic!("the pages never end: {order:?} {limit}");
}

async fn whole(bench: &Harness, order: Order) -> Vec<MessageId> {
    let mut all: Vec<MessageId> =
        bench.told("one").await.iter().map(|told| told.message.id).collect();
    if order == Order::Desc {
        all.reverse();
    }
    all
}

/// An open turn of four messages, held at the gate.
async fn open_turn(bench: &Harness, gate: &Gate) {
    let result = Action::Result { id: "c1".to_owned(), content: "r".to_owned(), is_error: false };
    bench
        .provider
        .push(Script::new().say("a").call("c1", "t", json!({})).and(result).say("b").gate(gate));
    let before = bench.told("one").await.len();
    bench.send("one", "m").await;
    gate.reached().await;
    until("all of it is stored", async || bench.told("one").await.len() == before + 4).await;
}

#[tokio::test]
async fn a_long_history_is_read_completely_in_both_orders() {
    // R246: longer than one read.
    let bench = Harness::new(Scripted::new());
    bench.chat("one").await;
    for n in 0..130 {
        bench.say("one", &format!("m{n}")).await;
    }
    let texts: Vec<String> = bench.turns("one").await.concat();
    assert_eq!(texts, (0..130).map(|n| format!("m{n}")).collect::<Vec<_>>());
    for order in [Order::Asc, Order::Desc] {
        let all = whole(&bench, order).await;
        assert_eq!(all.len(), 260);
        for limit in [7, 63, 64, 65, 127, 128, 129, 259, 260, 1000] {
            assert_eq!(pages(&bench, order, limit, None).await, all, "{order:?} {limit}");
        }
    }
}

#[tokio::test]
async fn a_cursor_into_an_open_turn_stays_valid_when_the_turn_ends() {
    // R246
    for turns in [0, 2] {
        for cut in 1..=2 * turns + 4 {
            let (gate, bench) = (Gate::new(), Harness::able());
            bench.chat("one").await;
            for _ in 0..turns {
                bench.say("one", "before").await;
            }
            open_turn(&bench, &gate).await;
            let before = whole(&bench, Order::Desc).await;
            assert_eq!(
                pages(&bench, Order::Asc, cut, None).await,
                whole(&bench, Order::Asc).await,
                "{turns} {cut}"
            );
            assert_eq!(pages(&bench, Order::Desc, cut, None).await, before, "{turns} {cut}");
            let up =
                bench.engine.messages().page("one", Order::Asc, None, cut).await.expect("a page");
            let down =
                bench.engine.messages().page("one", Order::Desc, None, cut).await.expect("a page");
            gate.open();
            bench.settled("one").await;
            bench.say("one", "after").await;
            let ids = |page: &ctx_engine::Page| {
                page.messages.iter().map(|told| told.message.id).collect::<Vec<_>>()
            };
            if up.next.is_some() {
                let read = [ids(&up), pages(&bench, Order::Asc, 1, up.next).await].concat();
                assert_eq!(read, whole(&bench, Order::Asc).await, "{turns} {cut}");
                let read = [ids(&down), pages(&bench, Order::Desc, 1, down.next).await].concat();
                assert_eq!(read, before, "{turns} {cut}");
            } else {
                assert_eq!(
                    (up.messages.len(), down.next),
                    (2 * turns + 4, None),
                    "only the last page leads nowhere"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_page_of_large_messages_ends_early() {
    const BYTES: usize = 12 << 20;
    let bench = Harness::able();
    bench.engine.sessions().create_idle("one", Origin::Api).await.expect("created");
    let mut head = None;
    for n in 0..4_u128 {
        let message = Message {
            id: MessageId(Ulid(n)),
            role: Role::User,
            source: None,
            content: vec![Part::Text { text: "x".repeat(BYTES) }],
            created_at: Timestamp(1),
        };
        let (about, messages) = (About::at(Timestamp(1)), vec![message]);
        let turn = NewTurn { about, messages, blobs: Vec::new() };
        head = Some(bench.engine.messages().append_turn("one", head, turn).await.expect("stored"));
    }
    for (order, expected) in [(Order::Asc, [0, 1, 2, 3]), (Order::Desc, [3, 2, 1, 0])] {
        let (mut all, mut at) = (Vec::new(), None);
        loop {
            let page = bench.engine.messages().page("one", order, at, 1000).await.expect("a page");
            assert!((1..4).contains(&page.messages.len()), "{}", page.messages.len());
            all.extend(page.messages.iter().map(|told| told.message.id.0.0));
            at = page.next;
            if at.is_none() {
                break;
            }
        }
        assert_eq!(all, expected);
    }
}
