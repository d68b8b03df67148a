"""Prints results as they arrive, and a table at the end."""

import traceback


def describe_error(error):
    """One line for a failed assertion; with the source line for any other exception."""
    if isinstance(error, AssertionError):
        return str(error) or "assertion without a message: " + traceback.format_exc(limit=-1).strip().replace("\n", " ")
    return f"{type(error).__name__}: {error} ({traceback.format_exc(limit=-2).strip().splitlines()[-2].strip()})"


class Report:
    """Results by agent and cell."""

    def __init__(self):
        self.results, self.failures, self.reasons = {}, 0, []

    def passed(self, row, column, seconds, note):
        self.note(row, column, "ok", f"{seconds:.1f} s" + (f", {note}" if note else ""))

    def failed(self, row, column, seconds, why, logs):
        self.failures += 1
        self.note(row, column, "FAILED", f"{seconds:.1f} s: {why}" + (f"\n      logs: {logs}" if logs else ""))

    def unsupported(self, row, column, why):
        self.reasons.append(f"n/a {row} {column}: {why}")
        self.note(row, column, "n/a", why)

    def note(self, row, column, result, text):
        self.results[(row, column)] = (result, text)
        print(f"{row:11} {column:16} {result:6} {text}", flush=True)

    def table(self, cells):
        """Prints the results agent × cell, and all others as a list."""
        self.grid("agent", cells)
        others = [(row, column) for row, column in self.results if column not in cells]
        if others:
            print(f"\n{'scenario':16} | {'agents':10} | result")
            for row, column in others:
                result, text = self.results[(row, column)]
                print(f"{column:16} | {row:10} | {result}: {text.splitlines()[0][:160]}")

    def grid(self, title, columns):
        """Prints the results of these columns as a table."""
        rows = list(dict.fromkeys(row for row, column in self.results if column in columns))
        if not rows:
            return
        width, widths = max(len(row) for row in (title, *rows)), [max(6, len(column)) for column in columns]
        print("\n" + " | ".join([f"{title:{width}}", *(f"{column:{each}}" for column, each in zip(columns, widths))]))
        print("-|-".join(["-" * width, *("-" * each for each in widths)]))
        for row in rows:
            found = [self.results.get((row, column), ("", ""))[0] for column in columns]
            print(" | ".join([f"{row:{width}}", *(f"{result:{each}}" for result, each in zip(found, widths))]))

    def passes(self):
        return sum(result == "ok" for result, _ in self.results.values())


def total(*reports):
    """Prints the reasons of unsupported cells and the sum of several reports."""
    for report in reports:
        for reason in report.reasons:
            print(reason)
    passed, failed, unsupported = (sum(each) for each in zip(*((one.passes(), one.failures, len(one.reasons)) for one in reports)))
    print(f"\n{passed} passed, {failed} failed, {unsupported} n/a")
