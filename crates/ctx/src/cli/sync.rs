//! `ctx sync [REMOTE] [SESSION…]`: pull, then push.

use crate::problem::Problem;

use super::Context;
use super::exchange::{self, Args, Direction};

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    exchange::run(context, args, Direction::Both).await
}
