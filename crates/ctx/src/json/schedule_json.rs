//! A schedule with its ticks.

use ctx_engine::ListedSchedule;
use ctx_engine::core::schedule::Rule;
use serde::Serialize;
use utoipa::ToSchema;

use super::optional_string;

/// The schedules of the configuration
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Schedules {
    pub(crate) schedules: Vec<Schedule>,
}

/// A schedule of the configuration
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Schedule {
    pub(crate) name: String,
    /// Five fields in UTC; null if the schedule has an interval
    pub(crate) cron: Option<String>,
    /// An interval such as `15m`; null if the schedule has a cron expression
    pub(crate) every: Option<String>,
    /// Label of the session that gets the messages
    pub(crate) session: String,
    pub(crate) text: String,
    pub(crate) next_tick: Option<String>,
    /// The newest tick that is over; null before the first
    pub(crate) last_tick: Option<String>,
}

impl From<Vec<ListedSchedule>> for Schedules {
    fn from(listed: Vec<ListedSchedule>) -> Self {
        Self { schedules: listed.into_iter().map(Schedule::from).collect() }
    }
}

impl From<ListedSchedule> for Schedule {
    fn from(listed: ListedSchedule) -> Self {
        let schedule = listed.schedule;
        let (cron, every) = match &schedule.rule {
            Rule::Cron(cron) => (Some(cron.to_string()), None),
            Rule::Every(interval) => (None, Some(interval.to_string())),
        };
        Self {
            name: schedule.name,
            cron,
            every,
            session: schedule.session.label.unwrap_or_default(),
            text: schedule.text,
            next_tick: optional_string(&listed.next_tick),
            last_tick: optional_string(&listed.last_tick),
        }
    }
}
