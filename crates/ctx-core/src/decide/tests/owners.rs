//! Which process runs an idle session: any, unless one of them keeps a live agent for it.

use std::collections::HashMap;

use ulid::Ulid;

use super::model::{Model, completed};
use crate::decide::{
    self, Accepted, ClassifyMode, Delivered, EndedRun, ProviderCapabilities, ProviderCatalog,
    RunHost, RunPolicy, Submit, SubmitTarget,
};
use crate::id::{MessageId, NodeId};
use crate::inbox::{Admission, Overrides};
use crate::message::{Part, Source};
use crate::session::Activity;
use crate::turn::{About, Ready};

fn node(n: u128) -> NodeId {
    NodeId(Ulid(n))
}

fn host(node: NodeId) -> RunHost {
    let capabilities =
        ProviderCapabilities { can_steer: false, supports_tools: true, repeatable: false };
    let catalog = ProviderCatalog {
        default: "main".to_owned(),
        providers: [("main".to_owned(), capabilities)].into(),
        personas: Vec::new(),
    };
    RunHost { node, catalog }
}

fn send(model: &mut Model, at: NodeId, run_policy: RunPolicy) -> Accepted {
    let submit = Submit {
        message_id: MessageId(Ulid(model.now.0 as u128 + 5)),
        content: vec![Part::Text { text: "hello".to_owned() }],
        mode: None,
        source: Source::Human,
        overrides: Overrides::default(),
        classify_mode: ClassifyMode::Immediate,
        run_policy,
    };
    let (settings, invocation) = (model.settings.clone(), model.invocation());
    let (to, host) = (SubmitTarget::Existing, host(at));
    let decision = decide::submit(Some(&model.view), &to, &submit, &host, &settings, &invocation);
    let decision = decision.expect("accepted");
    let reply = decision.reply.clone();
    model.apply(decision);
    reply
}

fn deliver(model: &mut Model, at: NodeId) -> Delivered {
    let (settings, invocation) = (model.settings.clone(), model.invocation());
    let decision = decide::deliver(&model.view, &HashMap::new(), &host(at), &settings, &invocation);
    let decision = decision.expect("delivered");
    let reply = decision.reply.clone();
    model.apply(decision);
    reply
}

fn end(model: &mut Model, keeps_agent: bool) {
    let run = model.view.run.clone().expect("a run");
    let (ready, _) = Ready::new(About::at(model.now), Vec::new());
    let ended = EndedRun { keeps_agent, ..completed(&run, ready) };
    let decision = decide::end_run(&model.view, &ended, &model.invocation()).expect("ended");
    model.apply(decision);
}

#[test]
fn an_idle_session_belongs_to_no_process_unless_one_keeps_its_agent() {
    let mut model = Model::empty();
    send(&mut model, node(1), RunPolicy::StartRun);
    assert_eq!(model.view.session.owner, Some(node(1)));
    end(&mut model, false);
    assert_eq!(model.view.session.owner, None);
    send(&mut model, node(2), RunPolicy::StartRun);
    end(&mut model, true);
    assert_eq!(
        (model.view.session.state, model.view.session.owner),
        (Activity::Idle, Some(node(2)))
    );
}

#[test]
fn a_message_waits_for_the_process_that_keeps_the_agent() {
    let mut model = Model::empty();
    send(&mut model, node(1), RunPolicy::StartRun);
    end(&mut model, true);
    let accepted = send(&mut model, node(2), RunPolicy::StartRun);
    assert_eq!((accepted.admission, accepted.position), (Admission::Wait, Some(1)));
    assert_eq!(deliver(&mut model, node(2)), Delivered::Nothing);
    assert!(matches!(deliver(&mut model, node(1)), Delivered::Run(_)));
}

#[test]
fn a_released_session_is_run_by_any_process() {
    let mut model = Model::empty();
    send(&mut model, node(1), RunPolicy::StartRun);
    end(&mut model, true);
    let release = |model: &mut Model, node| {
        let decision = decide::release_owner(&model.view, node, &model.invocation());
        model.apply(decision.expect("released"));
    };
    release(&mut model, node(2));
    assert_eq!(model.view.session.owner, Some(node(1)), "only its owner is removed");
    release(&mut model, node(1));
    assert_eq!(model.view.session.owner, None);
    send(&mut model, node(2), RunPolicy::StartRun);
    assert_eq!(model.view.session.owner, Some(node(2)));
    release(&mut model, node(2));
    assert_eq!(model.view.session.owner, Some(node(2)), "a run keeps its process");
}

#[test]
fn a_message_waits_where_its_process_has_no_room() {
    let mut model = Model::empty();
    let accepted = send(&mut model, node(1), RunPolicy::NoRoom);
    assert_eq!((accepted.admission, accepted.state), (Admission::Wait, Activity::Idle));
    assert!(matches!(deliver(&mut model, node(2)), Delivered::Run(_)), "another one runs it");
}
