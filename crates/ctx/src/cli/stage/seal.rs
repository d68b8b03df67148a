//! `ctx stage seal` (alias `compact`): turn the steps of the task into one commit.

use crate::problem::Problem;

use super::super::Context;
use super::super::output::read_text;
use super::print_commit;

pub(super) async fn run(context: &Context, message: Option<&str>) -> Result<(), Problem> {
    let message = message.map(read_text).transpose()?;
    print_commit(context, &context.recorder().await?.seal(message.as_deref()).await?)
}
