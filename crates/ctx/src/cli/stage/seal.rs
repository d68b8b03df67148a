//! `ctx stage compact`: the user's own word that the work is done.

use crate::problem::Problem;

use super::super::Context;
use super::super::output::text;
use super::say_sealed;

pub(super) async fn run(context: &Context, message: Option<&str>) -> Result<(), Problem> {
    let message = message.map(text).transpose()?;
    say_sealed(context, &context.recorder().await?.seal(message.as_deref()).await?)
}
