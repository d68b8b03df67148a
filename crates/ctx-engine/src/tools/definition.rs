//! The definition of a tool: its texts, its parameters as a JSON Schema, and its effect. Model
//! APIs, the bridge of agents and the MCP server show the same definitions.

use ctx_core::context_pack::{BUDGET_DEFAULT, BUDGET_MAX, BUDGET_MIN};
use ctx_core::decide::AgentTool;
use ctx_core::inbox::Tool;
use serde_json::{Map, Value, json};

/// Most rows of a page.
pub(super) const LIMIT_MAX: u64 = 100;
/// Rows of a page if the caller gives no limit.
pub(super) const LIMIT_DEFAULT: u64 = 20;

/// What a call changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Reads,
    /// It adds records to the store.
    Records,
    /// It sends something to another agent, which acts on it.
    Acts,
}

/// Who calls a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerKind {
    /// The agent of a run.
    Run,
    /// An agent that ctx does not run.
    Outside,
}

/// A tool as its callers see it.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the other fields are self-explanatory")]
pub struct ToolDefinition {
    pub tool: AgentTool,
    /// A short name for people.
    pub title: &'static str,
    pub description: &'static str,
    pub effect: Effect,
    parameters: Vec<Parameter>,
    /// The JSON Schema of the structured result, if the tool has one.
    pub output: Option<Value>,
}

impl ToolDefinition {
    /// The JSON Schema of the parameters for an agent that ctx does not run.
    pub fn schema(&self) -> Value {
        self.schema_for(CallerKind::Outside)
    }

    /// The JSON Schema of the parameters for the agent of a run. Its calls concern its own session.
    pub fn run_schema(&self) -> Value {
        self.schema_for(CallerKind::Run)
    }

    pub(crate) fn schema_for(&self, caller: CallerKind) -> Value {
        let shown = || {
            let all = self.parameters.iter();
            all.filter(move |it| !it.only_outside || caller == CallerKind::Outside)
        };
        let properties: Map<String, Value> =
            shown().map(|it| (it.name.to_owned(), it.schema())).collect();
        let required: Vec<&str> =
            shown().filter(|it| it.kind.is_required()).map(|it| it.name).collect();
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    /// The definition in the form of model APIs.
    pub(crate) fn for_models(&self) -> Tool {
        Tool {
            name: self.tool.name().to_owned(),
            description: self.description.to_owned(),
            parameters: self.schema_for(CallerKind::Run),
        }
    }

    pub(super) fn output(self, properties: Value, required: &[&str]) -> Self {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        Self { output: Some(schema), ..self }
    }
}

/// A tool without a structured result.
pub(super) fn define(
    tool: AgentTool,
    effect: Effect,
    title: &'static str,
    description: &'static str,
    parameters: Vec<Parameter>,
) -> ToolDefinition {
    ToolDefinition { tool, title, description, effect, parameters, output: None }
}

/// A parameter of a tool.
#[derive(Debug, Clone)]
pub(super) struct Parameter {
    name: &'static str,
    description: &'static str,
    kind: ParameterKind,
    only_outside: bool,
}

impl Parameter {
    /// A parameter that the agent of a run does not have.
    pub(super) fn only_outside(self) -> Self {
        Self { only_outside: true, ..self }
    }

    fn schema(&self) -> Value {
        let mut schema = match self.kind {
            ParameterKind::Text | ParameterKind::OptionalText => json!({"type": "string"}),
            ParameterKind::OptionalFlag => json!({"type": "boolean"}),
            ParameterKind::OptionalCount { min, max, default } => {
                let mut schema = json!({"type": "integer", "minimum": min, "maximum": max});
                if let Some(default) = default {
                    schema["default"] = json!(default);
                }
                schema
            }
            ParameterKind::OptionalChoice(choices) => json!({"type": "string", "enum": choices}),
            ParameterKind::OptionalList(item) => json!({"type": "array", "items": item()}),
        };
        schema["description"] = json!(self.description);
        schema
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ParameterKind {
    Text,
    OptionalText,
    OptionalFlag,
    OptionalCount {
        min: u64,
        max: u64,
        default: Option<u64>,
    },
    OptionalChoice(&'static [&'static str]),
    /// A list of items with this schema.
    OptionalList(fn() -> Value),
}

impl ParameterKind {
    fn is_required(self) -> bool {
        matches!(self, Self::Text)
    }
}

pub(super) fn parameter(
    name: &'static str,
    description: &'static str,
    kind: ParameterKind,
) -> Parameter {
    Parameter { name, description, kind, only_outside: false }
}

/// The session that a call concerns. The agent of a run has only its own.
pub(super) fn session_parameter() -> Parameter {
    let what = "The session, by id or label; without it the session of the caller: CTX_SESSION, \
                or the default session of the directory in which `ctx mcp` was started";
    parameter("session", what, ParameterKind::OptionalText).only_outside()
}

pub(super) fn budget_parameter() -> Parameter {
    let what = "Most tokens of the text that is returned. What does not fit is named in the \
                result, with the call that returns it";
    let kind = ParameterKind::OptionalCount {
        min: BUDGET_MIN,
        max: BUDGET_MAX,
        default: Some(BUDGET_DEFAULT),
    };
    parameter("budget", what, kind)
}

pub(super) fn limit_parameter() -> Parameter {
    let kind =
        ParameterKind::OptionalCount { min: 1, max: LIMIT_MAX, default: Some(LIMIT_DEFAULT) };
    parameter("limit", "Most results of this page", kind)
}

pub(super) fn cursor_parameter() -> Parameter {
    let what = "The `next_cursor` of the page before";
    parameter("cursor", what, ParameterKind::OptionalText)
}

pub(super) fn offset_parameter() -> Parameter {
    let what = "The `next_offset` of an earlier call, to read on there";
    let kind = ParameterKind::OptionalCount { min: 0, max: u64::from(u32::MAX), default: None };
    parameter("offset", what, kind)
}
