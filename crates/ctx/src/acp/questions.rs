//! Questions that the editor shows as a dialog: permissions, questions of the agent, and ctx's own
//! questions with two choices. What an answer means.

use ctx_engine::Error;
use ctx_engine::core::id::{PromptId, SuspensionId};
use ctx_engine::core::prompt::{Choice, Prompt};
use ctx_engine::core::suspension::{Kind, Offer, Suspension};
use ctx_providers::json_rpc::RpcError;
use serde_json::{Map, Value, json};

use super::attached_session::{AttachedSession, Command};

/// The field of a form with a single answer.
const ANSWER: &str = "answer";

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Suspension(SuspensionId),
    Prompt(PromptId),
}

/// A question that is open in the session.
#[derive(Debug)]
pub(super) struct OpenQuestion {
    pub(super) subject: Subject,
    /// The request to the editor. `None` if the question is shown as text only.
    pub(super) request: Option<u64>,
    pub(super) answer: AnswerForm,
    /// The question as text, with its choices.
    pub(super) text: String,
}

/// How the editor's response is read.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AnswerForm {
    /// The outcome of a permission request.
    Permission,
    /// A form; with several fields, the answer is a JSON object.
    Form { is_single: bool },
}

/// What the editor answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Choice(String),
    /// The user closed the dialog of a permission.
    Dismissed,
    /// The question stays open, as text.
    Unanswered,
}

impl AnswerForm {
    pub(super) fn read(&self, result: &Result<Value, RpcError>) -> Answered {
        let Ok(result) = result else { return Answered::Unanswered };
        match self {
            Self::Permission => match result.pointer("/outcome/optionId").and_then(Value::as_str) {
                Some(option) => Answered::Choice(option.to_owned()),
                None => Answered::Dismissed,
            },
            Self::Form { is_single } if result["action"] == "accept" => {
                let empty = Map::new();
                let fields = result["content"].as_object().unwrap_or(&empty);
                match fields.values().next() {
                    _ if !is_single => Answered::Choice(result["content"].to_string()),
                    Some(Value::String(text)) => Answered::Choice(text.clone()),
                    Some(value) => Answered::Choice(value.to_string()),
                    None => Answered::Unanswered,
                }
            }
            Self::Form { .. } => Answered::Unanswered,
        }
    }
}

/// The choice of ctx's own question that an answer names.
pub(super) fn prompt_choice(answer: &str) -> Option<Choice> {
    answer.parse().ok()
}

/// Parameters of `session/request_permission`, without `toolCall`.
pub(super) fn permission_options(suspension: &Suspension) -> Vec<Value> {
    let option = |offer: &Offer| {
        let known = ["allow_once", "allow_always", "reject_once", "reject_always"];
        let kind = offer.kind.as_deref().filter(|kind| known.contains(kind));
        json!({"optionId": offer.id, "name": offer.label, "kind": kind.unwrap_or("allow_once")})
    };
    suspension.awaited.options.iter().map(option).collect()
}

/// Parameters of `elicitation/create` for a question of the agent, and how to read the response.
pub(super) fn agent_form(suspension: &Suspension) -> (Value, AnswerForm) {
    let awaited = &suspension.awaited;
    // A form of an ACP agent is passed on as it is.
    let own = awaited.provider_state.as_ref().filter(|state| state["name"] == "elicitation");
    if let Some(schema) = own.map(|state| &state["input"]).filter(|it| it["properties"].is_object())
    {
        let is_single = schema["properties"].as_object().is_some_and(|fields| fields.len() == 1);
        return (form(&suspension.question(), schema), AnswerForm::Form { is_single });
    }
    let choices: Vec<(String, String)> =
        awaited.options.iter().map(|offer| (offer.id.clone(), offer.label.clone())).collect();
    (form(&suspension.question(), &schema(&choices)), AnswerForm::Form { is_single: true })
}

/// Parameters of `elicitation/create` for ctx's own question.
pub(super) fn prompt_form(prompt: &Prompt) -> Value {
    let lines: Vec<&str> = prompt.text.lines().collect();
    let is_choice = |line: &&str| line.starts_with("A) ") || line.starts_with("B) ");
    let (labels, message): (Vec<&str>, Vec<&str>) = lines.into_iter().partition(is_choice);
    let label = |at: usize, choice: Choice| {
        labels.get(at).map_or_else(|| choice.name().to_owned(), |line| (*line).to_owned())
    };
    let choices: Vec<(String, String)> = prompt
        .choices()
        .into_iter()
        .enumerate()
        .map(|(at, choice)| (choice.name().to_owned(), label(at, choice)))
        .collect();
    form(&message.join("\n"), &schema(&choices))
}

/// The text of a suspension, for an editor without a dialog.
pub(super) fn suspension_text(suspension: &Suspension) -> String {
    let what = match suspension.awaited.kind {
        Kind::Permission => "The agent asks for a permission",
        Kind::Question => "The agent asks",
        Kind::ToolResult => "The agent waits for tool results",
        Kind::Event => "The agent waits for an event",
    };
    let offers = suspension.awaited.options.iter();
    let offers: String = offers.map(|offer| format!("\n- {}", offer.label)).collect();
    let hint = if offers.is_empty() { "" } else { "\nAnswer with one of these." };
    format!("{what}: {}{offers}{hint}", suspension.question())
}

fn form(message: &str, schema: &Value) -> Value {
    json!({"mode": "form", "message": message, "requestedSchema": schema})
}

fn schema(choices: &[(String, String)]) -> Value {
    let mut field = json!({"type": "string", "title": "Answer"});
    if !choices.is_empty() {
        let option = |(value, title): &(String, String)| json!({"const": value, "title": title});
        field["oneOf"] = choices.iter().map(option).collect();
    }
    json!({"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]})
}

impl AttachedSession {
    /// Withdraws questions that were answered elsewhere, and asks new ones.
    pub(super) async fn sync_questions(&mut self) -> Result<(), Error> {
        let info = self.info().await?;
        let suspensions = info.suspensions.iter().map(|it| Subject::Suspension(it.id));
        let open: Vec<Subject> =
            suspensions.chain(info.prompt.as_ref().map(|it| Subject::Prompt(it.id))).collect();
        let (kept, closed) =
            self.questions.drain(..).partition(|question| open.contains(&question.subject));
        self.questions = kept;
        self.withdraw(closed).await;
        for suspension in &info.suspensions {
            self.ask_suspension(suspension).await;
        }
        if let Some(prompt) = &info.prompt {
            self.ask_prompt(prompt).await;
        }
        Ok(())
    }

    /// The editor has closed the session.
    pub(super) async fn withdraw_questions(&mut self) {
        let questions = std::mem::take(&mut self.questions);
        self.withdraw(questions).await;
    }

    async fn withdraw(&self, questions: Vec<OpenQuestion>) {
        for request in questions.into_iter().filter_map(|question| question.request) {
            self.editor.withdraw(request).await;
        }
    }

    async fn ask_suspension(&mut self, suspension: &Suspension) {
        let subject = Subject::Suspension(suspension.id);
        if self.questions.iter().any(|question| question.subject == subject) {
            return;
        }
        let text = suspension_text(suspension);
        let (request, answer) = match suspension.awaited.kind {
            Kind::Permission => {
                let params = self.permission_params(suspension);
                let request = self.ask("session/request_permission", params).await;
                (Some(request), AnswerForm::Permission)
            }
            Kind::Question if self.editor.has("/elicitation/form") => {
                let (params, answer) = agent_form(suspension);
                (Some(self.ask("elicitation/create", params).await), answer)
            }
            Kind::Question | Kind::ToolResult | Kind::Event => {
                self.say(&text).await;
                (None, AnswerForm::Permission)
            }
        };
        self.questions.push(OpenQuestion { subject, request, answer, text });
    }

    /// A permission that concerns no tool call, such as one for a file, gets a call of its own.
    fn permission_params(&self, suspension: &Suspension) -> Value {
        let options = permission_options(suspension);
        let mut call = match suspension.awaited.tool_calls.first() {
            Some(call) => self.shown.permission_call(&call.id, &call.name, &call.params),
            None => json!({"toolCallId": suspension.id.to_string(), "kind": "other"}),
        };
        if let Some(question) = &suspension.awaited.question {
            call["title"] = question.as_str().into();
        }
        json!({"toolCall": call, "options": options})
    }

    /// ctx's own question is shown as a message, and as a dialog if the editor has one.
    async fn ask_prompt(&mut self, prompt: &Prompt) {
        let subject = Subject::Prompt(prompt.id);
        if self.questions.iter().any(|question| question.subject == subject) {
            return;
        }
        self.say(&prompt.text).await;
        let request = if self.editor.has("/elicitation/form") {
            Some(self.ask("elicitation/create", prompt_form(prompt)).await)
        } else {
            None
        };
        let answer = AnswerForm::Form { is_single: true };
        self.questions.push(OpenQuestion { subject, request, answer, text: prompt.text.clone() });
    }

    /// Sends a request whose response becomes a command of this session.
    async fn ask(&self, method: &str, mut params: Value) -> u64 {
        params["sessionId"] = self.name.as_str().into();
        let (question, response) = self.editor.request(method, params).await;
        let commands = self.commands();
        tokio::spawn(async move {
            if let (Ok(result), Some(commands)) = (response.await, commands) {
                let _ = commands.send(Command::Answered { question, result }).await;
            }
        });
        question
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctx_engine::core::prompt::{Pending, new_task_text};
    use ctx_engine::core::time::Timestamp;

    #[test]
    fn own_question_is_a_form_with_two_choices() {
        let prompt = Prompt {
            id: PromptId(ulid::Ulid(1)),
            pending: Pending::NewTask { new_task: "n".into() },
            text: new_task_text("Add logging"),
            opened_at: Timestamp(0),
        };
        let form = prompt_form(&prompt);
        assert_eq!(form["message"], "You have unfinished work on: Add logging");
        let choices = &form["requestedSchema"]["properties"]["answer"]["oneOf"];
        assert_eq!(choices[0]["const"], "start_fresh", "A");
        assert_eq!(choices[1]["title"], "B) Continue where we left off");
        let accepted = Ok(json!({"action": "accept", "content": {"answer": "continue"}}));
        let answered = AnswerForm::Form { is_single: true }.read(&accepted);
        assert_eq!(answered, Answered::Choice("continue".to_owned()));
        assert_eq!(prompt_choice("continue"), Some(Choice::Continue));
    }

    #[test]
    fn responses_are_read_by_the_form_of_the_question() {
        let permission = |outcome: Value| AnswerForm::Permission.read(&Ok(outcome));
        let selected = json!({"outcome": {"outcome": "selected", "optionId": "yes"}});
        assert_eq!(permission(selected), Answered::Choice("yes".to_owned()));
        let cancelled = json!({"outcome": {"outcome": "cancelled"}});
        assert_eq!(permission(cancelled), Answered::Dismissed);
        let error = Err(RpcError::new(-32601, "no"));
        assert_eq!(AnswerForm::Permission.read(&error), Answered::Unanswered);
        let form = AnswerForm::Form { is_single: false };
        let answer = Ok(json!({"action": "accept", "content": {"a": 1, "b": "x"}}));
        assert_eq!(form.read(&answer), Answered::Choice("{\"a\":1,\"b\":\"x\"}".to_owned()));
        assert_eq!(form.read(&Ok(json!({"action": "decline"}))), Answered::Unanswered);
    }
}
