//! `ctx stage abort`: abandon the task and seal its work as abandoned.

use crate::problem::Problem;

use super::super::Context;
use super::super::output::read_text;
use super::print_commit;

pub(super) async fn run(context: &Context, reason: Option<&str>) -> Result<(), Problem> {
    let reason = reason.map(read_text).transpose()?;
    print_commit(context, &context.recorder().await?.abort(reason.as_deref()).await?)
}
