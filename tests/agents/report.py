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
        print(f"{row:10} {column:16} {result:6} {text}", flush=True)

    def table(self, cells):
        rows = list(dict.fromkeys(row for row, column in self.results if column in cells))
        if rows:
            widths = [max(6, len(cell)) for cell in cells]
            print("\n" + " | ".join([f"{'agent':8}", *(f"{cell:{width}}" for cell, width in zip(cells, widths))]))
            print("-|-".join(["-" * 8, *("-" * width for width in widths)]))
            for row in rows:
                found = [self.results.get((row, cell), ("", ""))[0] for cell in cells]
                print(" | ".join([f"{row:8}", *(f"{each:{width}}" for each, width in zip(found, widths))]))
        others = [(row, column) for row, column in self.results if column not in cells]
        if others:
            print(f"\n{'scenario':16} | {'agents':10} | result")
            for row, column in others:
                result, text = self.results[(row, column)]
                print(f"{column:16} | {row:10} | {result}: {text.splitlines()[0][:160]}")
        for reason in self.reasons:
            print(reason)
        passed = sum(result == "ok" for result, _ in self.results.values())
        print(f"\n{passed} passed, {self.failures} failed, {len(self.reasons)} n/a")
