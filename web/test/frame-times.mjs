// Not a test: measuring frames and tasks of the page, for tests and benchmarks.
import assert from 'node:assert/strict';

/** The CPU time of each task on the main thread of the page, in milliseconds. */
export function taskTimes(trace) {
  const events = JSON.parse(trace.toString()).traceEvents;
  const threadOf = (event) => `${event.pid} ${event.tid}`;
  const isMainThread = (event) =>
    event.name === 'thread_name' && event.args.name === 'CrRendererMain';
  const mainThreads = new Set(events.filter(isMainThread).map(threadOf));
  const isTask = (event) => event.name.endsWith('::RunTask') && event.tdur !== undefined;
  const tasks = events.filter((event) => isTask(event) && mainThreads.has(threadOf(event)));
  assert.ok(tasks.length > 30, 'the trace contains tasks');
  return tasks.map((event) => event.tdur / 1000);
}

/** In the page: scrolls up by 100 px per frame, for at least `ms` and `px`, and measures frames. */
export function scrollUp({ ms, px }) {
  const scroller = document.querySelector('.scroller');
  return new Promise((resolve) => {
    const start = performance.now();
    let last = start;
    const result = { longestFrame: 0, frames: 0, nodes: 0, scrolled: 0, blankFrames: 0 };
    const frame = (now) => {
      if (result.frames > 0) result.longestFrame = Math.max(result.longestFrame, now - last);
      last = now;
      result.frames++;
      result.nodes = Math.max(result.nodes, document.getElementsByTagName('*').length);
      const { left, top, width, height } = scroller.getBoundingClientRect();
      const center = document.elementFromPoint(left + width / 2, top + height / 2);
      if (center?.matches('.canvas, .scroller')) result.blankFrames++;
      scroller.scrollTop -= 100;
      result.scrolled += 100;
      if (now - start < ms || result.scrolled < px) requestAnimationFrame(frame);
      else resolve(result);
    };
    requestAnimationFrame(frame);
  });
}
