//! What every surface may do with a conversation that is there.

use ctx_store::TurnQuery;
use std::time::Duration;

use ctx_core::decide::{
    self, Cut, Decided, Decision, Moment, Needs, Opened, Patch, SessionView, TurnNeed,
};
use ctx_core::id::{MessageId, SessionId, SuspensionId, TurnId};
use ctx_core::inbox::{Item, ItemState, Overrides};
use ctx_core::prompt::{Choice, Prompt};
use ctx_core::refusal::Refusal;
use ctx_core::run::Run;
use ctx_core::session::{Activity, Session};
use ctx_core::suspension::{Answer, Suspension};
use ctx_core::task::Task;
use ctx_store::Target;
use tokio::time::Instant;

use crate::context::words_of;
use crate::engine::{Engine, Error, target};
use crate::submit::{Submitted, to_completion};

/// A session with all that a client shows of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    /// Its row.
    pub session: Session,
    /// The open task.
    pub task: Option<Task>,
    /// The open question.
    pub prompt: Option<Prompt>,
    /// What runs now.
    pub run: Option<Run>,
    /// What it waits for, oldest first.
    pub suspensions: Vec<Suspension>,
    /// The messages that wait.
    pub inbox: Vec<Item>,
}

impl From<SessionView> for Info {
    fn from(view: SessionView) -> Self {
        let run = view.run.filter(|run| run.ended_at.is_none());
        let inbox =
            view.inbox.into_iter().filter(|item| !matches!(item.state, ItemState::Taken)).collect();
        Self {
            session: view.session,
            task: view.task,
            prompt: view.prompt,
            run,
            suspensions: view.suspensions,
            inbox,
        }
    }
}

impl Info {
    /// Whether the session runs, or is about to run a message of its inbox.
    pub fn is_busy(&self) -> bool {
        decide::is_busy(&self.session, self.prompt.as_ref(), &self.inbox)
    }
}

impl Engine {
    /// One session with all that is shown of it.
    ///
    /// # Errors
    /// If there is no such session.
    pub async fn info(&self, session: &str) -> Result<Info, Error> {
        let view = self.store().view(&target(session), Needs::RUN).await?;
        self.whole_info(view.ok_or(Refusal::NoSession)?).await
    }

    /// A worker that has done its task still shows it.
    pub(crate) async fn whole_info(&self, view: SessionView) -> Result<Info, Error> {
        let mut info = Info::from(view);
        if info.task.is_none() && info.session.is_worker() {
            info.task = self.store().tasks(info.session.id, None, 1).await?.pop();
        }
        Ok(info)
    }

    /// Changes what a session prefers.
    ///
    /// # Errors
    /// If there is no such session, or something it is to prefer is unknown.
    pub async fn update(&self, session: &str, patch: Patch) -> Result<Info, Error> {
        let roster = self.hub().opener.roster.clone();
        let rule = move |view: &SessionView, moment: &Moment| {
            decide::update_session(view, &patch, &roster, moment)
        };
        let written = self.decide(target(session), Needs::RUN, Vec::new(), rule).await?;
        self.wake(written.session);
        self.info(session).await
    }

    /// Ends what runs or releases what is awaited; returns when that is done.
    ///
    /// # Errors
    /// If there is no such session.
    pub async fn cancel(&self, session: &str) -> Result<Info, Error> {
        self.stop_run(session, decide::cancel).await
    }

    /// Puts a session away; what runs is cancelled first.
    ///
    /// # Errors
    /// If there is no such session, or its history is damaged.
    pub async fn archive(&self, session: &str) -> Result<Info, Error> {
        self.stop_run(session, decide::archive).await
    }

    /// Executes a rule that asks the open run to end, and waits until it has ended.
    async fn stop_run(
        &self,
        session: &str,
        rule: fn(&SessionView, &Moment) -> Decided<()>,
    ) -> Result<Info, Error> {
        let info = self.info(session).await?;
        let (waited, before) =
            (info.session.state == Activity::Suspended, info.run.map(|run| run.id));
        let id = self.decide(target(session), Needs::CLOSE, Vec::new(), rule).await?.session;
        self.hub().recheck(id);
        if waited {
            self.release(id);
        }
        let until = Instant::now() + self.hub().patience.cancel;
        let mut info = self.info(session).await?;
        while let Some(run) =
            info.run.as_ref().filter(|run| run.cancel.is_some() && Some(run.id) == before)
        {
            if Instant::now() >= until {
                // Whoever runs it does not hear: the fence is raised, and what is stored of it is kept.
                self.cut_off(id, run.id, Cut::Cancelled).await?;
            } else {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            info = self.info(session).await?;
        }
        self.wake(id);
        Ok(info)
    }

    /// Tells providers of this process that nobody will answer what they wait for.
    pub(crate) fn release(&self, session: SessionId) {
        for provider in self.hub().warm_with(session) {
            tokio::spawn(async move { provider.release(session).await });
        }
    }

    /// Tells providers of this process that a session is no more, or is carried on elsewhere: nothing is kept for it.
    pub(crate) fn forget(&self, session: SessionId) {
        for provider in self.hub().warm_with(session) {
            tokio::spawn(async move {
                provider.release(session).await;
                provider.rest(session).await;
            });
        }
    }

    /// Takes a session out again.
    ///
    /// # Errors
    /// If there is no such session, or its history is damaged.
    pub async fn unarchive(&self, session: &str) -> Result<Info, Error> {
        let written =
            self.decide(target(session), Needs::NOTHING, Vec::new(), decide::unarchive).await?;
        self.wake(written.session);
        self.info(session).await
    }

    /// Deletes a session for good, from any state.
    ///
    /// # Errors
    /// If there is no such session.
    pub async fn delete(&self, session: &str) -> Result<(), Error> {
        let info = self.info(session).await?;
        let rule = |view: &SessionView, _: &Moment| decide::delete_session(view);
        self.decide(Target::Id(info.session.id), Needs::NOTHING, Vec::new(), rule).await?;
        self.hub().recheck(info.session.id);
        let (id, hub) = (info.session.id, self.hub());
        let (warm, all) =
            (hub.warm_with(id), hub.providers.all.values().cloned().collect::<Vec<_>>());
        tokio::spawn(async move {
            for provider in warm {
                provider.release(id).await;
                provider.rest(id).await;
            }
            for provider in all {
                provider.forget(id).await;
            }
        });
        while self.store().purge(self.now()).await? {}
        Ok(())
    }

    /// Answers what a session waits for.
    ///
    /// # Errors
    /// If it waits for no such thing, or the answer does not fit.
    pub async fn resume(
        &self,
        session: &str,
        suspension: SuspensionId,
        answer: Answer,
    ) -> Result<Option<Run>, Error> {
        self.join().await?;
        let opener = self.hub().opener.clone();
        let needs = Needs { suspension: Some(suspension), ..Needs::MESSAGE };
        let rule = move |view: &SessionView, moment: &Moment| {
            decide::resume(view, suspension, &answer, &opener, moment)
        };
        self.open_run(target(session), needs, rule).await
    }

    /// Answers the question with two choices.
    ///
    /// # Errors
    /// If none is open.
    pub async fn answer(&self, session: &str, choice: Choice) -> Result<Option<Run>, Error> {
        self.join().await?;
        let (opener, settings) = (self.hub().opener.clone(), self.settings().clone());
        let rule = move |view: &SessionView, moment: &Moment| {
            decide::settle_choice(view, choice, &opener, &settings, moment)
        };
        self.open_run(target(session), Needs::MESSAGE, rule).await
    }

    /// Executes a rule that may open a run, and hands the run to the session's actor.
    async fn open_run(
        &self,
        target: Target,
        needs: Needs,
        rule: impl Fn(&SessionView, &Moment) -> Decided<Option<Opened>> + Send + 'static,
    ) -> Result<Option<Run>, Error> {
        let engine = self.clone();
        to_completion(async move {
            let written = engine.decide(target, needs, Vec::new(), rule).await?;
            let run = written.reply.as_ref().map(|opened| opened.run.clone());
            if let Some(opened) = written.reply {
                engine.start_run(written.session, opened);
            } else {
                engine.wake(written.session);
            }
            Ok(run)
        })
        .await
    }

    /// Moves the head back.
    ///
    /// # Errors
    /// If the session is busy, or the turn did not lead to its head.
    pub async fn rewind(&self, session: &str, turn: TurnId) -> Result<Info, Error> {
        let needs = Needs { turn: Some(TurnNeed::Ancestor(turn)), ..Needs::RUN };
        self.decide(target(session), needs, Vec::new(), move |view, moment| {
            decide::rewind(view, turn, moment)
        })
        .await?;
        self.info(session).await
    }

    /// Runs the last message again, perhaps elsewhere.
    ///
    /// # Errors
    /// If the session is busy, or nothing was said yet.
    pub async fn retry(&self, session: &str, overrides: Overrides) -> Result<Submitted, Error> {
        self.join().await?;
        let info = self.info(session).await?;
        self.hub().known(overrides.provider_id.as_deref(), None)?;
        let head = info.session.head.ok_or(Refusal::NothingToRetry)?;
        let turn = self
            .store()
            .turns(TurnQuery::newest(head, 1))
            .await?
            .pop()
            .ok_or(Refusal::NothingToRetry)?;
        let parent = turn.header.parent;
        let items = decide::retry_items(words_of(turn)?, &overrides, &self.moment());
        let first = items.first().map(|item| item.message_id).ok_or(Refusal::NothingToRetry)?;
        let opener = self.hub().opener.clone();
        let rule = move |view: &SessionView, moment: &Moment| {
            let decision = decide::retry(view, head, parent, &items, &opener, moment)?;
            let (batch, opened) = decision.into_parts();
            Ok(Decision::new(batch, Some(opened)))
        };
        let run = self.open_run(Target::Id(info.session.id), Needs::MESSAGE, rule).await?;
        Ok(Submitted {
            session: info.session.id,
            message_id: first,
            run_id: run.map(|run| run.id),
            position: None,
            state: Activity::Running,
            intent: None,
            prompt: None,
            replayed: false,
        })
    }

    /// Opens the last sealed task again.
    ///
    /// # Errors
    /// If a task is open, or none was sealed.
    pub async fn reopen_task(&self, session: &str) -> Result<Task, Error> {
        let info = self.info(session).await?;
        let sealed = self
            .store()
            .tasks(info.session.id, None, 1)
            .await?
            .pop()
            .filter(|task| task.ended_at.is_some());
        let rule = move |view: &SessionView, moment: &Moment| {
            decide::reopen(view, sealed.as_ref(), moment)
        };
        Ok(self.decide(Target::Id(info.session.id), Needs::WORK, Vec::new(), rule).await?.reply)
    }

    /// Says something else in a message that waits.
    ///
    /// # Errors
    /// If it does not wait.
    pub async fn edit_item(&self, session: &str, item: MessageId, text: &str) -> Result<(), Error> {
        let text = text.to_owned();
        let rule =
            move |view: &SessionView, moment: &Moment| decide::edit_item(view, item, &text, moment);
        self.decide(target(session), Needs::RUN, Vec::new(), rule).await.map(drop)
    }

    /// Moves a message that waits to another place, from 1.
    ///
    /// # Errors
    /// If it does not wait.
    pub async fn move_item(
        &self,
        session: &str,
        item: MessageId,
        place: usize,
    ) -> Result<(), Error> {
        let rule =
            move |view: &SessionView, moment: &Moment| decide::move_item(view, item, place, moment);
        self.decide(target(session), Needs::RUN, Vec::new(), rule).await.map(drop)
    }

    /// Takes a message back that waits.
    ///
    /// # Errors
    /// If it does not wait.
    pub async fn withdraw_item(&self, session: &str, item: MessageId) -> Result<(), Error> {
        let rule =
            move |view: &SessionView, moment: &Moment| decide::withdraw_item(view, item, moment);
        self.decide(target(session), Needs::RUN, Vec::new(), rule).await.map(drop)
    }

    /// Waits until a session is neither running nor about to run, or until the time is up.
    ///
    /// # Errors
    /// If there is no such session.
    pub async fn settled(&self, session: &str, patience: Duration) -> Result<Info, Error> {
        let until = Instant::now() + patience;
        let mut follow = self.follow(session, None).await?;
        loop {
            let info = self.info(session).await?;
            if !info.is_busy() || Instant::now() >= until {
                return Ok(info);
            }
            if let Ok(followed) = tokio::time::timeout_at(until, follow.next()).await {
                followed?;
            }
        }
    }
}
