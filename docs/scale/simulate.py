#!/usr/bin/env python3
"""Traffic between ctx nodes and their PostgreSQL database, simulated.

100 nodes and 1 million sessions under three loads, and the last one once more with the changes that
docs/scale.md proposes. Prints statements and bytes per second at the
database for each mechanism. Equal seeds give equal output. Takes less than a minute.

    docs/scale/simulate.py [--seed N] [--nodes N] [--seconds N]

The lanes, the pauses between stored texts and the queue of notifications are simulated in steps of
STEP. What has a fixed interval is drawn with a random phase. Costs of a mechanism are those that
were counted on one node (docs/scale.md).
"""

import argparse
import random
from collections import defaultdict

# From the code. Times are in seconds.
FEED_POLL = 0.2         # background.rs: POLL_INTERVAL
SWEEP = 1.0             # background.rs: SWEEP_INTERVAL
SCHEDULE_POLL = 0.2     # background.rs: SCHEDULE_INTERVAL
OUTBOX_POLL = 1.0       # shared.rs: outbox_poll
LEASE = 10.0            # shared.rs: lease; renewed every quarter (lease.rs)
FOLLOWER_POLL = 3.0     # events.rs: WATCHED_POLL_INTERVAL, for sessions that do not run here
CHECKPOINT = 0.25       # shared.rs: checkpoint, of a run that nobody follows
PAUSE_PER_RUN = 160e-6  # persist.rs: pause between stored texts, per run that streams on the node
PAUSE_MAX = 0.08        # persist.rs
LANES = 2               # lanes.rs
GROUP_MAX = 64          # lanes.rs
TEXT_PAUSE = 0.04       # nodes.rs
SIGN_OF_LIFE = 1.0      # nodes.rs
ASK_AGAIN = 3.0         # nodes.rs
NOTIFY_PAUSE = 0.01     # notices.rs: SEND_PAUSE
NOTIFY_BATCH = 256      # notices.rs: BATCH_MAX
NOTIFY_QUEUE = 4096     # notices.rs: QUEUE_MAX; further notifications are dropped

# Counted on one node: statements, bytes to the server, bytes from the server.
COST = {
    "feed poll": (2, 175, 110),
    "foreign events": (5, 500, 0),     # of a poll that finds events, without the events
    "sweep": (8, 700, 450),
    "schedule poll": (1, 100, 90),
    "outbox poll": (1, 130, 100),
    "lease": (1, 150, 60),
    "follower poll": (1, 185, 455),
    "group": (4, 330, 160),            # locks, facts, mark; BEGIN and COMMIT are implicit
    "accept or end": (14, 2100, 1700),  # with its share of the search index
    "text": (8, 640, 1000),
    "notification": (1, 90, 20),       # without its text
    "notify batch": (1, 70, 30),
}
EVENT_BYTES = 600       # of a stored row of events, as another node reads it; two rows for each turn
TURN_WAL, TEXT_WAL = 5700, 1280
NOTICE_BYTES = {"started": 110, "follow": 110, "text": 330, "stored": 90, "ended": 90}

# The load.
SESSIONS = 1_000_000
LOADS = {
    # name: messages per session and day, peak over average, share of sessions that a page shows,
    # whether the nodes are changed
    "idle": (0, 1, 0.0, False),
    "quiet": (2, 2, 0.002, False),
    "busy": (10, 4, 0.02, False),
    "busy, changed": (10, 4, 0.02, True),
}
# The changes: one node sweeps, and looks for schedules and deliveries. Events of other nodes are read
# where a session is followed, after a notification; polls stand behind it at these intervals. The
# pause between stored texts depends on the runs of the whole cluster. Live text goes from node to node.
CHANGED_FEED_POLL = 2.0
CHANGED_FOLLOWER_POLL = 30.0
CHANGED_PAUSE_MAX = 0.1
ANSWER = 10.0           # mean time that an answer streams
TOKEN = 0.025           # between two tokens
FOLLOWED = 0.6          # share of runs that a client follows
# Time of a group: two round trips and a sync. One step of the simulation.
STEP = 0.005


class Traffic:
    """Statements and bytes, by mechanism."""

    def __init__(self):
        self.statements = defaultdict(float)
        self.sent = defaultdict(float)
        self.received = defaultdict(float)

    def add(self, mechanism, cost, count=1.0, sent=0.0, received=0.0):
        statements, to_server, from_server = COST[cost]
        self.statements[mechanism] += statements * count
        self.sent[mechanism] += to_server * count + sent
        self.received[mechanism] += from_server * count + received


class Node:
    def __init__(self):
        self.streaming = 0
        self.lanes = [0] * LANES     # writes that wait
        self.notices = 0             # notifications that wait


class Run:
    def __init__(self, generator, nodes, end):
        self.node = generator.randrange(nodes)
        self.lane = generator.randrange(LANES)
        self.end = end
        self.followed = generator.random() < FOLLOWED
        # The balancer sends a follower to any node.
        self.remote = self.followed and generator.randrange(nodes) != self.node


class Simulation:
    def __init__(self, seed, count, seconds, load):
        self.generator = random.Random(seed)
        self.nodes = [Node() for _ in range(count)]
        self.seconds, self.steps = seconds, round(seconds / STEP)
        self.traffic = Traffic()
        self.calendar = defaultdict(list)
        per_day, peak, self.pages, self.changed = LOADS[load]
        self.rate = SESSIONS * per_day * peak / 86_400
        self.turns = self.texts = self.groups = self.writes = self.dropped = self.sent = 0
        self.backlog = self.open = 0
        self.event_rows = [0] * (self.steps + 1)

    def at(self, when, action, run):
        step = round(when / STEP)
        if step <= self.steps:
            self.calendar[step].append((action, run))

    def write(self, run, cost, mechanism):
        self.nodes[run.node].lanes[run.lane] += 1
        self.traffic.add(mechanism, cost)
        self.writes += 1

    def notify(self, node, kind, mechanism, receivers=1):
        if self.nodes[node].notices >= NOTIFY_QUEUE:
            self.dropped += 1
            return
        self.nodes[node].notices += 1
        self.sent += 1
        size = NOTICE_BYTES[kind]
        self.traffic.add(mechanism, "notification", sent=size, received=size * receivers)

    # What happens to a run

    def start(self, now, run):
        if run is None:  # a message arrives
            run = Run(self.generator, len(self.nodes), now + self.generator.expovariate(1 / ANSWER))
            self.at(now + self.generator.expovariate(self.rate), self.start, None)
            self.write(run, "accept or end", "turns")
            self.event_rows[round(now / STEP)] += 1
            self.notify(run.node, "started", "notices: run started", len(self.nodes))
        self.nodes[run.node].streaming += 1
        self.open += 1
        self.at(run.end, self.finish, run)
        phase = self.generator.random()
        self.at(now + phase * (TOKEN if run.followed else CHECKPOINT), self.text, run)
        if run.remote and not self.changed:
            self.at(now + phase * ASK_AGAIN, self.ask, run)
            self.at(now + phase * TEXT_PAUSE, self.relay, run)

    def text(self, now, run):
        if now >= run.end:
            return
        self.write(run, "text", "live text: stored")
        self.texts += 1
        if run.followed:
            pause = min(PAUSE_PER_RUN * self.nodes[run.node].streaming, PAUSE_MAX)
            if self.changed:
                pause = min(PAUSE_PER_RUN * self.open, CHANGED_PAUSE_MAX)
            self.at(now + max(TOKEN, pause, STEP), self.text, run)
        else:
            self.at(now + CHECKPOINT, self.text, run)

    def ask(self, now, run):
        if now < run.end:
            self.notify(run.node, "follow", "notices: text asked for")
            self.at(now + ASK_AGAIN, self.ask, run)

    def relay(self, now, run):
        if now < run.end:
            self.notify(run.node, "text", "notices: live text")
            self.at(now + max(TEXT_PAUSE, TOKEN), self.relay, run)

    def finish(self, now, run):
        self.nodes[run.node].streaming -= 1
        self.open -= 1
        self.write(run, "accept or end", "turns")
        self.event_rows[round(now / STEP)] += 1
        self.turns += 1
        if run.remote:
            for kind in ("stored", "ended"):
                self.notify(run.node, kind, "notices: events stored")

    def run(self):
        # Runs that are open at the start; their remaining time is distributed like the whole.
        for _ in range(round(self.rate * ANSWER)):
            end = self.generator.expovariate(1 / ANSWER)
            self.start(0.0, Run(self.generator, len(self.nodes), end))
        if self.rate:
            self.at(self.generator.expovariate(self.rate), self.start, None)
        notify_steps = max(1, round(NOTIFY_PAUSE / STEP))
        for step in range(self.steps):
            now = step * STEP
            # An action may add others to the same step.
            due = self.calendar[step]
            for action, run in due:
                action(now, run)
            del self.calendar[step]
            for number, node in enumerate(self.nodes):
                for lane, waiting in enumerate(node.lanes):
                    if waiting:
                        node.lanes[lane] = max(0, waiting - GROUP_MAX)
                        self.traffic.add("groups of writes", "group")
                        self.groups += 1
                if node.notices and (step + number) % notify_steps == 0:
                    node.notices = max(0, node.notices - NOTIFY_BATCH)
                    self.traffic.add("notices: batches", "notify batch")
        self.backlog = sum(sum(node.lanes) for node in self.nodes)
        self.poll()

    def poll(self):
        """What has a fixed interval."""
        traffic, nodes = self.traffic, len(self.nodes)
        sweepers = 1 if self.changed else nodes
        traffic.add("sweep", "sweep", sweepers * self.seconds / SWEEP)
        traffic.add("schedules", "schedule poll", sweepers * self.seconds / SCHEDULE_POLL)
        traffic.add("outbox", "outbox poll", sweepers * self.seconds / OUTBOX_POLL)
        # A node without sessions does not renew its lease.
        traffic.add("lease", "lease", nodes * self.seconds / (LEASE / 4) if self.rate else 0)
        interval = CHANGED_FEED_POLL if self.changed else FEED_POLL
        # Of each row, how many other nodes read it.
        readers = FOLLOWED if self.changed else nodes - 1
        for _ in range(nodes):
            step = self.generator.random() * interval / STEP
            while step < self.steps:
                until = step + interval / STEP
                rows = sum(self.event_rows[round(step):round(until)])
                traffic.add("feed: poll", "feed poll")
                if rows:
                    traffic.add("feed: events of others", "foreign events",
                                received=rows * EVENT_BYTES * readers / nodes)
                step = until
        interval = CHANGED_FOLLOWER_POLL if self.changed else FOLLOWER_POLL
        polls = SESSIONS * self.pages * self.seconds / interval
        traffic.add("followers' polls", "follower poll", polls)


MECHANISMS = ["feed: poll", "feed: events of others", "sweep", "schedules", "outbox", "lease",
              "followers' polls", "notices: run started", "notices: text asked for",
              "notices: live text", "notices: events stored", "notices: batches", "turns",
              "live text: stored", "groups of writes"]


def number(value):
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def size(value):
    return f"{value / 1e6:,.1f} MB" if value >= 1e5 else f"{value / 1e3:.1f} kB"


def main():
    parser = argparse.ArgumentParser(description="Simulate the traffic of a cluster.")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    done = {}
    for load in LOADS:
        done[load] = Simulation(options.seed, options.nodes, options.seconds, load)
        done[load].run()
    seconds = options.seconds
    print(f"{options.nodes} nodes, {SESSIONS:,} sessions, seed {options.seed}; per second at the database:\n")
    print("| mechanism |" + "".join(f" {load}: statements | bytes |" for load in LOADS))
    print("|---|" + "--:|--:|" * len(LOADS))

    def row(name, mechanisms):
        cells = []
        for simulation in done.values():
            traffic = simulation.traffic
            cells.append(number(sum(traffic.statements[one] for one in mechanisms) / seconds))
            cells.append(size(sum(traffic.sent[one] + traffic.received[one] for one in mechanisms) / seconds))
        print(f"| {name} | " + " | ".join(cells) + " |")

    for mechanism in MECHANISMS:
        row(mechanism, [mechanism])
    row("**total**", MECHANISMS)
    print("\n| |" + "".join(f" {load} |" for load in LOADS))
    print("|---|" + "--:|" * len(LOADS))
    lines = [
        ("turns", lambda one: number(one.turns / seconds)),
        ("runs open at the end", lambda one: number(one.open)),
        ("pages open", lambda one: number(SESSIONS * one.pages)),
        ("stored texts", lambda one: number(one.texts / seconds)),
        ("groups (COMMIT with a sync)", lambda one: number(one.groups / seconds)),
        ("writes in a group", lambda one: f"{one.writes / one.groups:.1f}" if one.groups else "-"),
        ("writes that wait at the end", lambda one: number(one.backlog)),
        ("WAL", lambda one: size((one.turns * TURN_WAL + one.texts * TEXT_WAL) / seconds)),
        ("notifications", lambda one: number(one.sent / seconds)),
        ("notifications read by listeners", lambda one: number(one.sent * options.nodes / seconds)),
        ("notifications dropped", lambda one: number(one.dropped / seconds)),
    ]
    for name, value in lines:
        print(f"| {name} | " + " | ".join(value(one) for one in done.values()) + " |")


if __name__ == "__main__":
    main()
