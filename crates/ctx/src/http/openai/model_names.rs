//! Models: `ctx` is the default of the session or of ctx, `ctx/<provider>` a provider with its
//! default model, `ctx/<provider>/<model>` one of its models.

use axum::extract::State;
use ctx_engine::Providers;
use serde_json::{Value, json};

use super::super::Shared;
use super::super::extractors::{Json, Path};
use super::api_error::{ApiError, ApiResult};

/// The name of the defaults, and the beginning of all other names.
const ROOT: &str = "ctx";

/// The provider and the model that a name means; `None` for a default.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ModelChoice {
    pub(super) provider: Option<String>,
    pub(super) model: Option<String>,
}

/// Reads the name of a model.
pub(super) fn choice(name: &str, providers: &Providers) -> ApiResult<ModelChoice> {
    if name == ROOT {
        return Ok(ModelChoice::default());
    }
    let unknown = || ApiError::model_not_found(name);
    let rest = name.strip_prefix(ROOT).and_then(|rest| rest.strip_prefix('/'));
    let rest = rest.ok_or_else(unknown)?;
    let (provider, model) = match rest.split_once('/') {
        Some((provider, model)) => (provider, Some(model)),
        None => (rest, None),
    };
    if !providers.all.contains_key(provider) || model.is_some_and(str::is_empty) {
        return Err(unknown());
    }
    Ok(ModelChoice { provider: Some(provider.to_owned()), model: model.map(str::to_owned) })
}

fn names(providers: &Providers) -> Vec<(String, String)> {
    let mut names = vec![(ROOT.to_owned(), ROOT.to_owned())];
    for (provider, one) in &providers.all {
        let about = one.about();
        names.push((format!("{ROOT}/{provider}"), provider.clone()));
        let mut models: Vec<String> = about.model.into_iter().chain(about.models).collect();
        let mut seen = std::collections::BTreeSet::new();
        models.retain(|model| seen.insert(model.clone()));
        let name = |model| (format!("{ROOT}/{provider}/{model}"), provider.clone());
        names.extend(models.into_iter().map(name));
    }
    names
}

fn document(state: &Shared, name: &str, owner: &str) -> Value {
    let started = state.engine.now().unix_seconds() - state.started.elapsed().as_secs() as i64;
    json!({"id": name, "object": "model", "created": started, "owned_by": owner})
}

pub(super) async fn list(State(state): State<Shared>) -> Json<Value> {
    let names = names(&state.engine.providers());
    let data: Vec<Value> =
        names.iter().map(|(name, owner)| document(&state, name, owner)).collect();
    Json(json!({"object": "list", "data": data}))
}

pub(super) async fn read(
    State(state): State<Shared>,
    Path(name): Path<String>,
) -> ApiResult<Json<Value>> {
    let choice = choice(&name, &state.engine.providers())?;
    let owner = choice.provider.unwrap_or_else(|| ROOT.to_owned());
    Ok(Json(document(&state, &name, &owner)))
}
