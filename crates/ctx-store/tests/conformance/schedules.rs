//! Schedules: first seen once, and a last tick that never goes back.

use ctx_core::schedule::ScheduleState;

use crate::Backend;
use crate::harness::at;

pub(crate) async fn a_schedule_is_first_seen_once(backend: &impl Backend) {
    let (store, other) = (backend.open().await, backend.open().await);
    assert_eq!(store.schedules().await.expect("a read"), []);
    let first = ScheduleState::new(at(5));
    assert_eq!(store.see_schedule("daily", at(5)).await.expect("stored"), first);
    assert_eq!(other.see_schedule("daily", at(9)).await.expect("known"), first);
    store.see_schedule("another", at(6)).await.expect("stored");
    let names: Vec<String> =
        other.schedules().await.expect("a read").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["another", "daily"], "by name");
}

pub(crate) async fn the_last_tick_never_goes_back(backend: &impl Backend) {
    let (store, other) = (backend.open().await, backend.open().await);
    store.see_schedule("daily", at(5)).await.expect("stored");
    store.see_schedule("another", at(6)).await.expect("stored");
    for (tick, newest) in [(10, 10), (20, 20), (15, 20), (20, 20)] {
        other.set_last_tick("daily", at(tick)).await.expect("stored");
        let state = ScheduleState { seen_at: at(5), last_tick: Some(at(newest)) };
        assert_eq!(store.see_schedule("daily", at(30)).await.expect("known"), state);
    }
    let another = ("another".to_owned(), ScheduleState::new(at(6)));
    assert_eq!(store.schedules().await.expect("a read")[0], another, "it has no tick yet");
    store.set_last_tick("unknown", at(1)).await.expect("nothing to do");
    assert_eq!(store.schedules().await.expect("a read").len(), 2);
}
