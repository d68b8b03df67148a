//! `ctx stage abort`: give the task up and keep what was done.

use crate::problem::Problem;

use super::super::Context;
use super::super::output::text;
use super::say_sealed;

pub(super) async fn run(context: &Context, reason: Option<&str>) -> Result<(), Problem> {
    let reason = reason.map(text).transpose()?;
    say_sealed(context, &context.recorder().await?.abort(reason.as_deref()).await?)
}
