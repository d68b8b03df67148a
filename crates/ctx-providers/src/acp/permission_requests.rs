//! Requests of an agent that the user must answer: permissions, forms, and files outside the
//! working directory. Each becomes a suspension that any client can answer at any later time.

use ctx_core::id::ObjectId;
use ctx_core::suspension::{Answer, Awaited, AwaitedCall, Kind, Offer, Suspension};
use serde_json::{Map, Value, json};

use super::file_access::FileRequest;

/// A request that waits for the user.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PendingRequest {
    /// The agent's JSON-RPC id.
    pub(super) id: Value,
    pub(super) kind: RequestKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum RequestKind {
    /// A permission for a tool call.
    Permission { call: String, name: String, input: Value, title: String, options: Vec<Offer> },
    /// A form with fields.
    Form { message: String, schema: Value },
    /// Access to a file outside the working directory.
    File(FileRequest),
}

/// A decision of the user that the agent's process did not receive, because it had ended. It
/// answers the same request once when a new process repeats it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decision {
    pub(super) name: String,
    pub(super) input: Value,
    /// `allow_once`, `reject_once`, …
    pub(super) kind: String,
    pub(super) label: String,
}

impl std::fmt::Display for Decision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): {} with {}", self.label, self.kind, self.name, self.input)
    }
}

impl PendingRequest {
    /// Parses `session/request_permission`. `name` is the name of the tool.
    pub(super) fn permission(id: Value, params: &Value, name: String) -> Option<Self> {
        let call = params.get("toolCall")?;
        let text = |key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let offer = |option: &Value| {
            let id = option.get("optionId")?.as_str()?.to_owned();
            let label = option.get("name").and_then(Value::as_str).unwrap_or(&id).to_owned();
            let kind = option.get("kind").and_then(Value::as_str).map(str::to_owned);
            Some(Offer { id, label, kind })
        };
        let options = params.get("options")?.as_array()?.iter().filter_map(offer).collect();
        let input = call
            .get("rawInput")
            .cloned()
            .filter(|input| !input.is_null())
            .unwrap_or_else(|| json!({"title": text("title")}));
        let (call, title) = (text("toolCallId"), text("title"));
        Some(Self { id, kind: RequestKind::Permission { call, name, input, title, options } })
    }

    /// Parses `elicitation/create` with a form.
    pub(super) fn form(id: Value, params: &Value) -> Option<Self> {
        let schema = params.get("requestedSchema")?.clone();
        let message = params.get("message")?.as_str()?.to_owned();
        Some(Self { id, kind: RequestKind::Form { message, schema } })
    }

    pub(super) fn file(id: Value, request: FileRequest) -> Self {
        Self { id, kind: RequestKind::File(request) }
    }

    /// The suspension for this request. `instance` identifies the agent process.
    pub(super) fn awaited(&self, instance: &str) -> Awaited {
        let state = |name: &str, input: &Value| {
            Some(json!({"process": instance, "request": self.id, "name": name, "input": input}))
        };
        match &self.kind {
            RequestKind::Permission { call, name, input, title, options } => Awaited {
                kind: Kind::Permission,
                tool_calls: vec![AwaitedCall {
                    id: call.clone(),
                    name: name.clone(),
                    params: input.clone(),
                }],
                options: options.clone(),
                question: Some(title.clone()).filter(|title| !title.is_empty()),
                provider_state: state(name, input),
            },
            RequestKind::Form { message, schema } => Awaited {
                kind: Kind::Question,
                tool_calls: Vec::new(),
                options: form_choices(schema),
                question: Some(form_question(message, schema)),
                provider_state: state("elicitation", schema),
            },
            RequestKind::File(request) => {
                let verb = if request.content.is_some() { "write" } else { "read" };
                let (name, input) = file_subject(request);
                let offer = |id: &str, label: &str| Offer {
                    id: id.to_owned(),
                    label: label.to_owned(),
                    kind: Some(id.to_owned()),
                };
                Awaited {
                    kind: Kind::Permission,
                    tool_calls: Vec::new(),
                    options: vec![offer("allow_once", "Allow"), offer("reject_once", "Reject")],
                    question: Some(format!(
                        "Allow the agent to {verb} {}? The file is outside the working directory.",
                        request.path.display()
                    )),
                    provider_state: state(&name, &input),
                }
            }
        }
    }

    /// Whether a suspension was created for this request of this process.
    pub(super) fn belongs_to(&self, suspension: &Suspension, instance: &str) -> bool {
        let state = suspension.awaited.provider_state.as_ref();
        state.is_some_and(|state| {
            state.get("process").and_then(Value::as_str) == Some(instance)
                && state.get("request") == Some(&self.id)
        })
    }

    /// The index of an earlier decision about the same tool with the same input.
    pub(super) fn decision_in(&self, decisions: &[Decision]) -> Option<usize> {
        let (name, input) = match &self.kind {
            RequestKind::Permission { name, input, .. } => (name.clone(), input.clone()),
            RequestKind::File(request) => file_subject(request),
            RequestKind::Form { .. } => return None,
        };
        decisions.iter().position(|decision| decision.name == name && decision.input == input)
    }

    /// The id of the option with this kind. Option ids may differ between processes.
    pub(super) fn offer_of_kind<'a>(&'a self, kind: &'a str) -> Option<&'a str> {
        match &self.kind {
            RequestKind::Permission { options, .. } => options
                .iter()
                .find(|offer| offer.kind.as_deref() == Some(kind))
                .map(|offer| offer.id.as_str()),
            RequestKind::File(_) => Some(kind),
            RequestKind::Form { .. } => None,
        }
    }
}

/// The response to a permission request after the user selected an option.
pub(super) fn selected(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

/// The response to a request that is cancelled; ACP defines none for files.
pub(super) fn cancelled(kind: &RequestKind) -> Option<Value> {
    match kind {
        RequestKind::Form { .. } => Some(json!({"action": "cancel"})),
        RequestKind::Permission { .. } => Some(json!({"outcome": {"outcome": "cancelled"}})),
        RequestKind::File(_) => None,
    }
}

/// The name and input that identify a file request. New content is part of it, by its hash.
fn file_subject(request: &FileRequest) -> (String, Value) {
    match &request.content {
        Some(content) => {
            let hash = ObjectId::of(&[content.as_bytes()]);
            ("write_file".to_owned(), json!({"path": request.path, "content": hash}))
        }
        None => ("read_file".to_owned(), json!({"path": request.path})),
    }
}

/// The decisions about permissions among the answers with which a turn resumes.
pub(super) fn decisions(resumes: &[(Suspension, Answer)]) -> Vec<Decision> {
    let decision = |(suspension, answer): &(Suspension, Answer)| {
        let state = suspension.awaited.provider_state.as_ref()?;
        let offer = suspension.matching_option(answer.choice.as_deref()?)?;
        Some(Decision {
            name: state.get("name")?.as_str()?.to_owned(),
            input: state.get("input")?.clone(),
            kind: offer.kind.clone().unwrap_or_else(|| offer.id.clone()),
            label: offer.label.clone(),
        })
    };
    resumes
        .iter()
        .filter(|(suspension, _)| suspension.awaited.kind == Kind::Permission)
        .filter_map(decision)
        .collect()
}

fn form_fields(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// The choices of a form with a single field that has a fixed set of values.
fn form_choices(schema: &Value) -> Vec<Offer> {
    let single = form_fields(schema).filter(|fields| fields.len() == 1);
    let Some(field) = single.and_then(|fields| fields.values().next()) else {
        return Vec::new();
    };
    let plain = |value: &Value| {
        let value = value.as_str()?.to_owned();
        Some(Offer { id: value.clone(), label: value, kind: None })
    };
    let titled = |choice: &Value| {
        let id = choice.get("const")?.as_str()?.to_owned();
        let label = choice.get("title").and_then(Value::as_str).unwrap_or(&id).to_owned();
        Some(Offer { id, label, kind: None })
    };
    let list = |key: &str| field.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut offers: Vec<Offer> = list("enum").iter().filter_map(plain).collect();
    offers.extend(list("oneOf").iter().filter_map(titled));
    offers
}

/// The question, with the answer format if the form has several fields.
fn form_question(message: &str, schema: &Value) -> String {
    let Some(fields) = form_fields(schema).filter(|fields| fields.len() > 1) else {
        return message.to_owned();
    };
    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
    format!("{message}\n\nAnswer with a JSON object of these fields: {}", names.join(", "))
}

/// The response to a form. An answer to several fields must be a JSON object.
pub(super) fn form_response(schema: &Value, choice: &str) -> Value {
    let Some(fields) = form_fields(schema) else {
        return json!({"action": "accept", "content": {}});
    };
    if fields.len() != 1 {
        return match serde_json::from_str::<Value>(choice) {
            Ok(content @ Value::Object(_)) => json!({"action": "accept", "content": content}),
            _ => json!({"action": "decline"}),
        };
    }
    let mut content = Map::new();
    for (name, field) in fields {
        let value = match field.get("type").and_then(Value::as_str) {
            Some("boolean") => Value::Bool(matches!(
                choice.trim().to_lowercase().as_str(),
                "true" | "yes" | "y" | "1"
            )),
            Some("number" | "integer") => {
                serde_json::from_str(choice.trim()).unwrap_or(Value::Null)
            }
            _ => Value::String(choice.to_owned()),
        };
        content.insert(name.clone(), value);
    }
    json!({"action": "accept", "content": content})
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctx_core::id::SuspensionId;
    use ctx_core::time::Timestamp;
    use ulid::Ulid;

    fn permission(command: &str) -> PendingRequest {
        let input = json!({"command": command});
        let params = json!({
            "toolCall": {"toolCallId": "t", "title": command, "rawInput": input},
            "options": [
                {"optionId": "yes-1", "name": "Yes", "kind": "allow_once"},
                {"optionId": "no", "name": "No", "kind": "reject_once"},
            ],
        });
        PendingRequest::permission(json!(0), &params, "Bash".to_owned()).expect("a request")
    }

    fn suspension(request: &PendingRequest) -> Suspension {
        Suspension {
            id: SuspensionId(Ulid(1)),
            awaited: request.awaited("p1"),
            created_at: Timestamp(1),
        }
    }

    fn answer(choice: &str) -> Answer {
        Answer { choice: Some(choice.to_owned()), ..Answer::default() }
    }

    #[test]
    fn decision_answers_the_same_request_only() {
        let request = permission("touch x");
        let decisions = decisions(&[(suspension(&request), answer("yes"))]);
        assert_eq!(decisions[0].kind, "allow_once");
        assert_eq!(permission("touch x").decision_in(&decisions), Some(0));
        assert_eq!(permission("touch y").decision_in(&decisions), None, "another command");
        assert_eq!(request.offer_of_kind("allow_once"), Some("yes-1"));
    }

    #[test]
    fn permission_to_write_a_file_covers_one_content() {
        let write = |content: &str| {
            let params = json!({"path": "/x", "content": content});
            let file = FileRequest::parse("fs/write_text_file", &params).expect("a request");
            PendingRequest::file(json!(0), file)
        };
        let decisions = decisions(&[(suspension(&write("one")), answer("Allow"))]);
        assert_eq!(write("one").decision_in(&decisions), Some(0));
        assert_eq!(write("two").decision_in(&decisions), None, "another content");
        assert_eq!(write("one").offer_of_kind(&decisions[0].kind), Some("allow_once"));
    }

    #[test]
    fn suspension_belongs_to_one_process() {
        let request = permission("touch x");
        assert!(request.belongs_to(&suspension(&request), "p1"));
        assert!(
            !request.belongs_to(&suspension(&request), "p2"),
            "the same request id in another process is another request"
        );
    }

    #[test]
    fn form_becomes_a_question_and_its_answer_a_response() {
        let schema = json!({"type": "object", "properties": {
            "colour": {"type": "string", "enum": ["red", "blue"]},
        }});
        let params = json!({"message": "Which?", "requestedSchema": schema});
        let request = PendingRequest::form(json!(1), &params).expect("a request");
        let awaited = request.awaited("p");
        let ids: Vec<&str> = awaited.options.iter().map(|offer| offer.id.as_str()).collect();
        assert_eq!(ids, ["red", "blue"]);
        let accepted = json!({"action": "accept", "content": {"colour": "blue"}});
        assert_eq!(form_response(&schema, "blue"), accepted);
        let two = json!({"properties": {"a": {"type": "string"}, "b": {"type": "number"}}});
        assert_eq!(form_response(&two, "{\"a\": \"x\", \"b\": 1}")["content"]["b"], 1);
        assert_eq!(form_response(&two, "x")["action"], "decline");
        let boolean = json!({"properties": {"sure": {"type": "boolean"}}});
        assert_eq!(form_response(&boolean, "Yes")["content"]["sure"], true);
    }
}
