//! Images in a conversation: sent to providers that accept them, the newest where not all fit, and
//! kept while a message waits.

use ctx_core::image::{Format, IMAGE_MAX_BYTES};
use ctx_core::message::Part;
use ctx_core::refusal::Refusal;
use ctx_engine::NewMessage;
use ctx_engine::provider::ProviderFeatures;
use ctx_providers::Scripted;
use ctx_providers::scripted::{Gate, Script};

use crate::harness::{Harness, seen, until};

/// An image that differs for each seed.
fn picture(seed: u8, bytes: usize) -> Vec<u8> {
    let mut picture = b"\x89PNG\r\n\x1a\n".to_vec();
    picture.resize(bytes, seed);
    picture
}

fn showing(text: &str, pictures: impl IntoIterator<Item = Vec<u8>>) -> NewMessage {
    let mut message = if text.is_empty() { NewMessage::default() } else { NewMessage::text(text) };
    pictures.into_iter().for_each(|bytes| message.show(Format::Png, bytes));
    message
}

fn sighted() -> Scripted {
    Scripted::new().can(ProviderFeatures {
        images: true,
        steer: true,
        ..ProviderFeatures::default()
    })
}

#[tokio::test]
async fn the_newest_images_are_sent_and_the_others_are_described() {
    // R237
    let bench = Harness::new(sighted());
    bench.chat("one").await;
    for seed in 0..5 {
        bench
            .engine
            .messages()
            .submit(
                "one",
                showing(&format!("number {seed}"), [picture(seed, IMAGE_MAX_BYTES)]),
                None,
            )
            .await
            .expect("taken");
        bench.settled("one").await;
    }
    let requests = bench.provider.requests();
    let last = requests.last().expect("a request");
    let described = "user: number 0 [an image, image/png, which cannot be shown here]";
    assert_eq!(
        seen(&last.messages)[0],
        described,
        "five of five megabytes are more than a request takes"
    );
    assert_eq!(seen(&last.messages)[2], "user: number 1 [image]");
    assert_eq!(last.images.len(), 4);
    let shown =
        last.messages.iter().flat_map(|message| &message.content).filter_map(|part| match part {
            Part::Image { blob, .. } => Some(*blob),
            _ => None,
        });
    assert!(
        shown.clone().count() == 4 && shown.into_iter().all(|blob| last.images.contains_key(&blob))
    );
    assert_eq!(
        bench.told("one").await[0].message.content.len(),
        2,
        "what is stored is not touched"
    );
    bench.verify().await;
}

#[tokio::test]
async fn a_provider_without_image_support_gets_descriptions() {
    let bench = Harness::new(Scripted::new());
    bench.chat("one").await;
    bench
        .engine
        .messages()
        .submit("one", showing("", [picture(1, 100)]), None)
        .await
        .expect("a picture alone is a message");
    bench.settled("one").await;
    let request = &bench.provider.requests()[0];
    assert_eq!(
        seen(&request.messages),
        ["user: [an image, image/png, which cannot be shown here]"]
    );
    assert!(request.images.is_empty());
    let many = showing("x", (0..21).map(|seed| picture(seed, 100)));
    let refused = bench.engine.messages().submit("one", many, None).await.expect_err("too many");
    assert!(
        matches!(refused.refusal(), Some(Refusal::TooMany { what: "images", count: 21, max: 20 })),
        "{refused}"
    );
}

#[tokio::test]
async fn a_message_with_an_image_waits_where_text_would_steer_the_run() {
    let gate = Gate::new();
    let bench = Harness::new(sighted().then(Script::new().say("first").gate(&gate)));
    bench.chat("one").await;
    bench.send("one", "begin").await;
    until("it runs", async || bench.provider.requests().len() == 1).await;
    let message = NewMessage {
        mode: Some("steer-backlog".parse().expect("a mode")),
        ..showing("see", [picture(1, 100)])
    };
    let sent = bench.engine.messages().submit("one", message, None).await.expect("taken");
    assert_eq!(sent.position, Some(1), "it waits");
    gate.open();
    bench.settled("one").await;
    assert_eq!(
        seen(&bench.provider.requests()[1].messages).last().map(String::as_str),
        Some("user: see [image]")
    );
}
