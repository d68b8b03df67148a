//! What an agent asks a person: permissions, questions, files outside its directory. Each becomes a suspension that any
//! client can answer, days later if need be.

use ctx_core::id::ObjectId;
use ctx_core::suspension::{Answer, Awaited, AwaitedCall, Kind, Offer, Suspension};
use serde_json::{Map, Value, json};

use super::file_access::FileRequest;

/// A request of the agent that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ask {
    /// The agent's number for it.
    pub(super) id: Value,
    pub(super) what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    /// May it do this?
    Permission { call: String, name: String, input: Value, title: String, options: Vec<Offer> },
    /// A form with fields.
    Question { message: String, schema: Value },
    /// May it touch this file?
    File(FileRequest),
}

/// What a person decided before the agent's process ended: the same request, asked again, is answered by it once.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decided {
    pub(super) name: String,
    pub(super) input: Value,
    /// `allow_once`, `reject_once`, …
    pub(super) kind: String,
    pub(super) label: String,
}

impl std::fmt::Display for Decided {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): {} with {}", self.label, self.kind, self.name, self.input)
    }
}

impl Ask {
    /// A `session/request_permission`; `name` is the name by which the call is known.
    pub(super) fn permission(id: Value, params: &Value, name: String) -> Option<Self> {
        let call = params.get("toolCall")?;
        let text = |value: &Value, key: &str| {
            value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let offer = |option: &Value| {
            let id = option.get("optionId")?.as_str()?.to_owned();
            let label = option.get("name").and_then(Value::as_str).unwrap_or(&id).to_owned();
            Some(Offer {
                id,
                label,
                kind: option.get("kind").and_then(Value::as_str).map(str::to_owned),
            })
        };
        let options = params.get("options")?.as_array()?.iter().filter_map(offer).collect();
        let input = call
            .get("rawInput")
            .cloned()
            .filter(|input| !input.is_null())
            .unwrap_or_else(|| json!({"title": text(call, "title")}));
        let what = What::Permission {
            call: text(call, "toolCallId"),
            name,
            input,
            title: text(call, "title"),
            options,
        };
        Some(Self { id, what })
    }

    /// An `elicitation/create` with a form.
    pub(super) fn question(id: Value, params: &Value) -> Option<Self> {
        let schema = params.get("requestedSchema")?.clone();
        Some(Self {
            id,
            what: What::Question { message: params.get("message")?.as_str()?.to_owned(), schema },
        })
    }

    pub(super) fn file(id: Value, request: FileRequest) -> Self {
        Self { id, what: What::File(request) }
    }

    /// What the session waits for. `process` tells this agent process from every other.
    pub(super) fn awaited(&self, process: &str) -> Awaited {
        let state = |name: &str, input: &Value| json!({"process": process, "request": self.id, "name": name, "input": input});
        match &self.what {
            What::Permission { call, name, input, title, options } => Awaited {
                kind: Kind::Permission,
                tool_calls: vec![AwaitedCall {
                    id: call.clone(),
                    name: name.clone(),
                    params: input.clone(),
                }],
                options: options.clone(),
                question: Some(title.clone()).filter(|title| !title.is_empty()),
                provider_state: Some(state(name, input)),
            },
            What::Question { message, schema } => Awaited {
                kind: Kind::Question,
                tool_calls: Vec::new(),
                options: choices(schema),
                question: Some(form(message, schema)),
                provider_state: Some(state("elicitation", schema)),
            },
            What::File(request) => {
                let does = if request.content.is_some() { "write" } else { "read" };
                let (name, input) = subject(request);
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
                        "The agent wants to {does} {}, outside its working directory.",
                        request.path.display()
                    )),
                    provider_state: Some(state(&name, &input)),
                }
            }
        }
    }

    /// Whether a suspension was made for it.
    pub(super) fn is_of(&self, suspension: &Suspension, process: &str) -> bool {
        let state = suspension.awaited.provider_state.as_ref();
        state.is_some_and(|state| {
            state.get("process").and_then(Value::as_str) == Some(process)
                && state.get("request") == Some(&self.id)
        })
    }

    /// The decision that answers it, if one was made for exactly this.
    pub(super) fn decided<'a>(&self, decided: &'a [Decided]) -> Option<(usize, &'a Decided)> {
        let (name, input) = match &self.what {
            What::Permission { name, input, .. } => (name.clone(), input.clone()),
            What::File(request) => subject(request),
            What::Question { .. } => return None,
        };
        decided.iter().enumerate().find(|(_, made)| made.name == name && made.input == input)
    }

    /// The name of the offer that means the same as a decision.
    pub(super) fn offer_of_kind<'a>(&'a self, kind: &'a str) -> Option<&'a str> {
        match &self.what {
            What::Permission { options, .. } => options
                .iter()
                .find(|offer| offer.kind.as_deref() == Some(kind))
                .map(|offer| offer.id.as_str()),
            What::File(_) => Some(kind),
            What::Question { .. } => None,
        }
    }
}

/// What the protocol wants for a choice among offers.
pub(super) fn selected(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

/// What the protocol wants where nobody will answer; it has nothing of the kind for files.
pub(super) fn cancelled(what: &What) -> Option<Value> {
    match what {
        What::Question { .. } => Some(json!({"action": "cancel"})),
        What::Permission { .. } => Some(json!({"outcome": {"outcome": "cancelled"}})),
        What::File(_) => None,
    }
}

/// What a person decides on when an agent wants a file: also what is to be written, by its hash.
fn subject(request: &FileRequest) -> (String, Value) {
    match &request.content {
        Some(content) => (
            "write_file".to_owned(),
            json!({"path": request.path, "content": ObjectId::of(&[content.as_bytes()])}),
        ),
        None => ("read_file".to_owned(), json!({"path": request.path})),
    }
}

/// The decisions in what a turn resumes from.
pub(super) fn decisions(resumes: &[(Suspension, Answer)]) -> Vec<Decided> {
    let decided = |(suspension, answer): &(Suspension, Answer)| {
        let state = suspension.awaited.provider_state.as_ref()?;
        let offer = suspension.offer_of(answer.choice.as_deref()?)?;
        Some(Decided {
            name: state.get("name")?.as_str()?.to_owned(),
            input: state.get("input")?.clone(),
            kind: offer.kind.clone().unwrap_or_else(|| offer.id.clone()),
            label: offer.label.clone(),
        })
    };
    resumes
        .iter()
        .filter(|(suspension, _)| suspension.awaited.kind == Kind::Permission)
        .filter_map(decided)
        .collect()
}

/// The fields of a form.
fn fields(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// The choices of a form that has one field with a fixed set of values.
fn choices(schema: &Value) -> Vec<Offer> {
    let Some((_, field)) =
        fields(schema).filter(|fields| fields.len() == 1).and_then(|fields| fields.iter().next())
    else {
        return Vec::new();
    };
    let plain = |value: &Value| {
        value.as_str().map(|value| Offer {
            id: value.to_owned(),
            label: value.to_owned(),
            kind: None,
        })
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

/// The question, and how to answer it where it has several fields.
fn form(message: &str, schema: &Value) -> String {
    let Some(fields) = fields(schema).filter(|fields| fields.len() > 1) else {
        return message.to_owned();
    };
    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
    format!("{message}\n\nAnswer with a JSON object of these fields: {}", names.join(", "))
}

/// What the protocol wants for an answer to a form.
pub(super) fn filled(schema: &Value, choice: &str) -> Value {
    let Some(fields) = fields(schema) else { return json!({"action": "accept", "content": {}}) };
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

    fn ask(command: &str) -> Ask {
        let params = json!({"toolCall": {"toolCallId": "t", "title": command, "rawInput": {"command": command}},
            "options": [{"optionId": "yes-1", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}]});
        Ask::permission(json!(0), &params, "Bash".to_owned()).expect("an ask")
    }

    fn suspended(ask: &Ask) -> Suspension {
        Suspension {
            id: SuspensionId(Ulid(1)),
            awaited: ask.awaited("p1"),
            created_at: Timestamp(1),
        }
    }

    #[test]
    fn a_decision_answers_the_same_request_and_no_other() {
        let (asked, resumed) =
            (ask("touch x"), Answer { choice: Some("yes".to_owned()), results: vec![] });
        let decided = decisions(&[(suspended(&asked), resumed)]);
        assert_eq!(decided[0].kind, "allow_once");
        assert!(ask("touch x").decided(&decided).is_some());
        assert!(ask("touch y").decided(&decided).is_none(), "a changed command asks again");
        assert_eq!(asked.offer_of_kind("allow_once"), Some("yes-1"));
    }

    #[test]
    fn a_file_that_was_allowed_is_that_file_with_that_content() {
        let ask = |content: &str| {
            let request = FileRequest::parse(
                "fs/write_text_file",
                &json!({"path": "/x", "content": content}),
            )
            .expect("a request");
            Ask::file(json!(0), request)
        };
        let decided = decisions(&[(
            suspended(&ask("one")),
            Answer { choice: Some("Allow".to_owned()), results: vec![] },
        )]);
        assert!(ask("one").decided(&decided).is_some());
        assert!(ask("two").decided(&decided).is_none(), "a changed content asks again");
        assert_eq!(ask("one").offer_of_kind(&decided[0].kind), Some("allow_once"));
    }

    #[test]
    fn a_suspension_belongs_to_one_process() {
        let asked = ask("touch x");
        assert!(asked.is_of(&suspended(&asked), "p1"));
        assert!(
            !asked.is_of(&suspended(&asked), "p2"),
            "the same number in another process is another request"
        );
    }

    #[test]
    fn forms_are_asked_and_filled() {
        let params = |properties: Value| json!({"message": "Which?", "requestedSchema": {"type": "object", "properties": properties}});
        let one = Ask::question(
            json!(1),
            &params(json!({"colour": {"type": "string", "enum": ["red", "blue"]}})),
        )
        .expect("an ask");
        let awaited = one.awaited("p");
        assert_eq!(
            awaited.options.iter().map(|offer| offer.id.as_str()).collect::<Vec<_>>(),
            ["red", "blue"]
        );
        let What::Question { schema, .. } = &one.what else { panic!("a question") };
        assert_eq!(
            filled(schema, "blue"),
            json!({"action": "accept", "content": {"colour": "blue"}})
        );
        let two = json!({"properties": {"a": {"type": "string"}, "b": {"type": "number"}}});
        assert_eq!(filled(&two, "{\"a\": \"x\", \"b\": 1}")["content"]["b"], 1);
        assert_eq!(filled(&two, "x")["action"], "decline");
        let yes = json!({"properties": {"sure": {"type": "boolean"}}});
        assert_eq!(filled(&yes, "Yes")["content"]["sure"], true);
    }
}
